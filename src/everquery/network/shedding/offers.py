"""What may be shed by values: the least useful intervals of each output."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from everquery.network.analysis.layout import Layout, Place
from everquery.network.shedding.backward import Carrier
from everquery.network.shedding.droppers import Interval
from everquery.network.shedding.forward import Trial
from everquery.network.shedding.histograms import Histogram
from everquery.network.shedding.steps import Offer, Step


def offers(
    carrier: Carrier,
    trial: Trial,
    layout: Layout,
    output: str,
    histogram: Histogram,
    samples: Mapping[Place, pa.Table],
    steps: list[Step],
) -> list[Offer]:
    """Return the intervals of an output that are not shed yet, the least useful first.

    Intervals are carried upstream through boxes that have an inverse. Where a box has none, and all
    rows of the output come through one place, columns of the rows there are tried.
    """
    places = layout.frontier(frozenset({output}))
    if not places or any(place not in samples for place in places):
        return []
    if not histogram.bins() and len(places) == 1:  # nothing came out yet: see what would
        given = trial.rows(places[0], samples[places[0]])
        if given is not None:
            histogram.add(given)
    bins = histogram.bins()
    if not bins:
        return []
    gone = [one for step in steps if step.outputs == {output} for one in step.intervals.items()]
    probe = Interval(histogram.column, bins[0].low, bins[0].high)
    if carrier.carried(output, probe) is None:
        if len(places) != 1:
            return []
        found = trial.offers(places[0], samples[places[0]])
        return [one for one in found if not _gone(one.intervals, gone)]
    found = []
    worth_left = 1.0
    out: dict[Place, float] = dict.fromkeys(places, 0.0)
    for one in bins:
        interval = Interval(histogram.column, one.low, one.high)
        there = carrier.carried(output, interval)
        if there is None:
            continue
        shares = {place: _share(samples[place], own) for place, own in there.items()}
        if not _gone(there, gone):
            relative = {
                place: min(share / (1 - out[place]), 1.0) if out[place] < 1 else 0.0
                for place, share in shares.items()
            }
            lost = min(one.worth / worth_left, 1.0) if worth_left > 0 else 0.0
            found.append(Offer(output, relative, lost, there))
        worth_left -= one.worth
        for place, share in shares.items():
            out[place] += share
    return found


def _gone(intervals: Mapping[Place, Interval], gone: list[tuple[Place, Interval]]) -> bool:
    """Tell whether intervals are shed already."""
    return any(
        place == at and own.column == one.column and one.low <= own.low and own.high <= one.high
        for place, own in intervals.items()
        for at, one in gone
    )


def _share(rows: pa.Table, interval: Interval) -> float:
    inside = pc.sum(interval.mask(rows)).as_py() or 0
    return float(inside / rows.num_rows)
