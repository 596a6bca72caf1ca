"""The greedy choice: the next rows to shed are those that cost the least utility for their work.

Aurora (section 4.5) takes the output whose graph of loss falls least at its present share, and goes
along it to the next bend. A step here goes to the bend with the least utility lost for each second
of work that is saved, so that a graph that falls early and is level behind is gone through at once,
and a cheap branch is not emptied for the sake of a dear one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from everquery.network.analysis.layout import Place
from everquery.network.analysis.load import Load
from everquery.network.quality import Points
from everquery.network.shedding.droppers import Interval
from everquery.network.utility import critical, utility

ALL = 1.0
LEAST_WORK = 1e-12  # seconds a second: what saves less saves nothing
LEAST_LEFT = 1e-9  # of an output: what has less has nothing left to shed


@dataclass(frozen=True)
class Step:
    """Rows that are shed at some places, for some outputs.

    Attributes
    ----------
    outputs : frozenset of str
    shares : mapping of Place to float
        The share of the rows there that goes.
    lost : float
        The share of what the outputs still have that goes: their weight in values, or in rows.
    intervals : mapping of Place to Interval
        Which rows go; without, evenly by position.
    saved : float
        Seconds of work a second that it was expected to save.
    """

    outputs: frozenset[str]
    shares: Mapping[Place, float]
    lost: float
    intervals: Mapping[Place, Interval] = field(default_factory=dict)
    saved: float = 0.0


@dataclass(frozen=True)
class Offer:
    """An interval of values that may go, for one output: what the output would lose by it."""

    output: str
    shares: Mapping[Place, float]
    lost: float
    intervals: Mapping[Place, Interval]


def kept_at(steps: Iterable[Step]) -> dict[Place, float]:
    """Return the share of rows that steps let through at each place."""
    kept: dict[Place, float] = {}
    for step in steps:
        for place, share in step.shares.items():
            kept[place] = kept.get(place, 1.0) * (1 - share)
    return kept


def losses(steps: Iterable[Step], outputs: Iterable[str]) -> dict[str, float]:
    """Return the share that each output has lost by steps."""
    left = dict.fromkeys(outputs, 1.0)
    for step in steps:
        for name in step.outputs & left.keys():
            left[name] *= 1 - step.lost
    return {name: 1 - share for name, share in left.items()}


class Greedy:
    """Chooses steps for outputs that may be shed.

    Parameters
    ----------
    graphs : mapping of str to Points
        The graph of loss of each output that may be shed.
    """

    def __init__(self, graphs: Mapping[str, Points]) -> None:
        self._graphs = dict(graphs)

    @property
    def outputs(self) -> list[str]:
        """The outputs that may be shed."""
        return list(self._graphs)

    def steps(
        self, load: Load, before: Sequence[Step], need: float, offers: Iterable[Offer] = ()
    ) -> list[Step]:
        """Return the steps that save so many seconds of work a second, or all that there are."""
        found: list[Step] = []
        waiting = list(offers)
        while need > LEAST_WORK:
            step = self.next(load, [*before, *found], need, waiting)
            if step is None:
                break
            waiting = [one for one in waiting if one.intervals != step.intervals]
            need -= step.saved
            merged = _merged(found[-1], step) if found else None
            found[-1:] = [*found[-1:], step] if merged is None else [merged]
        return found

    def next(
        self, load: Load, steps: Sequence[Step], need: float, offers: Iterable[Offer] = ()
    ) -> Step | None:
        """Return the step that loses the least utility for the work it saves; None if none does."""
        lost = losses(steps, self._graphs)
        kept = kept_at(steps)
        work = load.flowing(kept).total
        best: tuple[float, float] | None = None
        chosen: Step | None = None
        for step in (*self._by_interval(offers, lost), *self._by_share(load, lost)):
            saved = work - load.flowing(_less(kept, step.shares)).total
            if saved <= LEAST_WORK:
                continue
            price = self._price(step, lost) / saved, -saved
            if best is None or price < best:
                best = price
                chosen = Step(step.outputs, step.shares, step.lost, step.intervals, saved)
        return None if chosen is None else _no_more_than(chosen, need)

    def _by_share(self, load: Load, lost: Mapping[str, float]) -> list[Step]:
        """Return the steps to every bend of every graph, for each set of outputs."""
        found = []
        for outputs in load.layout.sets():
            if not outputs <= self._graphs.keys():
                continue
            places = load.layout.frontier(outputs)
            if not places or all(1 - lost[name] < LEAST_LEFT for name in outputs):
                continue
            found += [
                Step(outputs, dict.fromkeys(places, share), share)
                for share in sorted(self._bends(outputs, lost))
            ]
        return found

    def _bends(self, outputs: frozenset[str], lost: Mapping[str, float]) -> set[float]:
        """Return the shares of what is left that take some output to a bend of its graph."""
        found = {ALL}
        for name in outputs:
            left = 1 - lost[name]
            if left >= LEAST_LEFT:
                bends = critical(self._graphs[name], lost[name])
                found |= {min(1 - (1 - bend) / left, ALL) for bend in bends if bend < 1}
        return {share for share in found if share > LEAST_LEFT}

    def _by_interval(self, offers: Iterable[Offer], lost: Mapping[str, float]) -> list[Step]:
        firsts: dict[str, Offer] = {}
        for one in offers:  # of each output the first: the next ones count from what it leaves
            firsts.setdefault(one.output, one)
        return [
            Step(frozenset({one.output}), one.shares, one.lost, one.intervals)
            for one in firsts.values()
            if one.output in self._graphs and 1 - lost[one.output] >= LEAST_LEFT
        ]

    def _price(self, step: Step, lost: Mapping[str, float]) -> float:
        """Return the utility that all outputs of a step lose by it."""
        total = 0.0
        for name in step.outputs:
            graph = self._graphs[name]
            after = 1 - (1 - lost[name]) * (1 - step.lost)
            total += utility(graph, lost[name]) - utility(graph, after)
        return total


def _less(kept: Mapping[Place, float], shares: Mapping[Place, float]) -> dict[Place, float]:
    found = dict(kept)
    for place, share in shares.items():
        found[place] = found.get(place, 1.0) * (1 - share)
    return found


def _merged(one: Step, other: Step) -> Step | None:
    """Return two steps as one, if their intervals lie side by side at each place."""
    if one.outputs != other.outputs or one.intervals.keys() != other.intervals.keys():
        return None
    intervals = {
        place: interval.beside(other.intervals[place]) for place, interval in one.intervals.items()
    }
    together = {place: both for place, both in intervals.items() if both is not None}
    if not together or len(together) < len(intervals):
        return None
    shares = {
        place: 1 - (1 - share) * (1 - other.shares[place]) for place, share in one.shares.items()
    }
    lost = 1 - (1 - one.lost) * (1 - other.lost)
    return Step(one.outputs, shares, lost, together, one.saved + other.saved)


def _no_more_than(step: Step, need: float) -> Step:
    """Return a step by share that saves no more than is needed; work goes with the share."""
    if step.intervals or step.saved <= need:
        return step
    part = need / step.saved
    return Step(
        step.outputs,
        {place: share * part for place, share in step.shares.items()},
        step.lost * part,
        saved=need,
    )
