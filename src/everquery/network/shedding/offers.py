"""What may be shed by values: the least useful intervals of each output."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from everquery.network.analysis.layout import Layout, Place
from everquery.network.rows import RowType
from everquery.network.shedding.backward import carried
from everquery.network.shedding.droppers import Interval
from everquery.network.shedding.forward import Trial
from everquery.network.shedding.histograms import Histogram
from everquery.network.shedding.steps import Offer, Step
from everquery.network.spec import Box


def offers(
    boxes: Mapping[str, Box],
    types: Mapping[str, RowType],
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
    trial = Trial(boxes, types, layout, output, (histogram.column, histogram.points))
    if not histogram.bins() and len(places) == 1:  # nothing came out yet: see what would
        given = trial.rows(places[0], samples[places[0]])
        if given is not None:
            histogram.add(given)
    bins = histogram.bins()
    if not bins:
        return []
    gone = [one for step in steps if step.outputs == {output} for one in step.intervals.items()]
    probe = Interval(histogram.column, bins[0].low, bins[0].high)
    if carried(boxes, types, layout, output, probe) is None:
        if len(places) != 1:
            return []
        found = trial.offers(places[0], samples[places[0]])
        return [one for one in found if not any(item in gone for item in one.intervals.items())]
    found = []
    worth_left = 1.0
    out: dict[Place, float] = dict.fromkeys(places, 0.0)
    for one in bins:
        interval = Interval(histogram.column, one.low, one.high)
        there = carried(boxes, types, layout, output, interval)
        if there is None:
            continue
        shares = {place: _share(samples[place], own) for place, own in there.items()}
        if not any(item in gone for item in there.items()):
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


def _share(rows: pa.Table, interval: Interval) -> float:
    inside = pc.sum(interval.mask(rows)).as_py() or 0
    return float(inside / rows.num_rows)
