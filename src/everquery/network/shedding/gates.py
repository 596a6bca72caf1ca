"""Gates: the places where rows may be shed, the droppers that stand there, and their counts."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any

import pyarrow as pa

from everquery.network.analysis.layout import Layout, Place
from everquery.network.shedding.droppers import Dropper
from everquery.network.shedding.steps import Step

MOST_CAME = 8  # intervals of time: the last are asked for
MOST_SAMPLED = 2_000  # rows of an arrow on which shedding by values is tried

REPORT = pa.schema(
    [
        ("output", pa.string()),
        ("place", pa.string()),
        ("reason", pa.string()),
        ("what", pa.string()),
        ("since", pa.float64()),
        ("until", pa.float64()),
        ("offered", pa.int64()),
        ("shed", pa.int64()),
        ("passed", pa.int64()),
    ]
)
"""One row for each dropper, interval of time, and output that it is for: ``offered`` is ``shed``
plus ``passed``. A row that is shed for two outputs at once stands in a line of each."""


class Gate:
    """One place. Rows go through its droppers in the order in which these were put in."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.droppers: list[Dropper] = []
        self.sample: pa.Table | None = None
        self.came: dict[int, int] = {}  # rows, by interval of time

    def keep(self, rows: pa.Table, tick: int) -> pa.Table:
        """Return the rows that stay."""
        if not rows.num_rows:
            return rows
        self.came[tick] = self.came.get(tick, 0) + rows.num_rows
        while len(self.came) > MOST_CAME:
            del self.came[next(iter(self.came))]
        self.sample = rows.slice(0, MOST_SAMPLED)
        for dropper in self.droppers:
            rows = dropper.keep(rows, tick)
        return rows


class Gates:
    """All places of a network where rows may be shed.

    Attributes
    ----------
    at : dict of Place to Gate
    standing : list
        The steps that stand, with their droppers, in the order in which they were put in.
    ever : list
        All droppers there ever were, each with its step.
    """

    def __init__(self) -> None:
        self.at: dict[Place, Gate] = {}
        self.standing: list[tuple[Step, list[Dropper]]] = []
        self.ever: list[tuple[Step, Dropper]] = []

    def plan(self, layout: Layout, may: frozenset[str]) -> None:
        """Have a gate at each place of a layout where something may be shed."""
        for outputs in layout.sets():
            if outputs <= may:
                for place in layout.frontier(outputs):
                    self.at.setdefault(place, Gate(place))

    def put(self, step: Step) -> list[Dropper]:
        """Put in the droppers of a step, and return them."""
        droppers = [
            Dropper(place, share, step.intervals.get(place)) for place, share in step.shares.items()
        ]
        self.ever += [(step, dropper) for dropper in droppers]
        self.stand(step, droppers)
        return droppers

    def stand(self, step: Step, droppers: list[Dropper]) -> None:
        """Let droppers of a step stand at their gates, behind those that stand there."""
        for dropper in droppers:
            self.at.setdefault(dropper.place, Gate(dropper.place)).droppers.append(dropper)
        self.standing.append((step, droppers))

    def take_out(self, step: Step) -> None:
        """Take out the droppers of a step."""
        for put, droppers in self.standing:
            if put is step:
                for dropper in droppers:
                    self.at[dropper.place].droppers.remove(dropper)
        self.standing = [one for one in self.standing if one[0] is not step]

    def shed_at(self) -> dict[str, int]:
        """Return how many rows were shed at each place."""
        found: dict[str, int] = {}
        for _, dropper in self.ever:
            shed = sum(count.shed for count in dropper.counts.values())
            found[str(dropper.place)] = found.get(str(dropper.place), 0) + shed
        return found

    def lost(self, layout: Layout, output: str, tick: int) -> float:
        """Return the share of an output that was shed in an interval of time, by its values."""
        left = 1.0
        for outputs in layout.sets():
            if output not in outputs:
                continue
            gates = [self.at[place] for place in layout.frontier(outputs) if place in self.at]
            came = sum(gate.came.get(tick, 0) for gate in gates)
            if came:
                kept = sum(
                    gate.came.get(tick, 0) * self._kept(gate.place, outputs, tick) for gate in gates
                )
                left *= kept / came
        return 1 - left

    def _kept(self, place: Place, outputs: frozenset[str], tick: int) -> float:
        left = 1.0
        for step, dropper in self.ever:
            count = dropper.counts.get(tick)
            if count is None or dropper.place != place or step.outputs != outputs:
                continue
            weight = 1.0
            if dropper.interval is not None and dropper.share > 0:
                weight = step.lost / dropper.share
            left *= max(1 - weight * count.shed / count.offered, 0.0)
        return left

    def report(self, start: float, interval: float) -> pa.Table:
        """Return every dropper's counts, by output and interval of time."""
        rows: list[dict[str, Any]] = []
        for step, dropper in self.ever:
            for tick, count in dropper.counts.items():
                line = {
                    "place": str(dropper.place),
                    "reason": dropper.reason,
                    "what": str(dropper),
                    "since": start + tick * interval,
                    "until": start + (tick + 1) * interval,
                    "offered": count.offered,
                    "shed": count.shed,
                    "passed": count.offered - count.shed,
                }
                rows += [{"output": output, **line} for output in sorted(step.outputs)]
        return pa.Table.from_pylist(rows, REPORT)

    def shed_above(self, names: Container[str]) -> bool:
        """Tell whether rows were shed on the way to a box.

        Parameters
        ----------
        names : container of str
            The box, and all before it.
        """
        return any(
            (dropper.place.target or dropper.place.source) in names
            and any(count.shed for count in dropper.counts.values())
            for _, dropper in self.ever
        )

    def inexact(self) -> dict[str, list[str]]:
        """Return the places where rows were shed, for each output that lacks them."""
        found: dict[str, list[str]] = {}
        for step, dropper in self.ever:
            if any(count.shed for count in dropper.counts.values()):
                for output in step.outputs:
                    places = found.setdefault(output, [])
                    if str(dropper.place) not in places:
                        places.append(str(dropper.place))
        return found


def samples_of(gates: Mapping[Place, Gate], places: Iterable[Place]) -> dict[Place, pa.Table]:
    """Return a sample of the rows of each place; places that no row has come to have none."""
    found = {}
    for place in places:
        gate = gates.get(place)
        if gate is not None and gate.sample is not None:
            found[place] = gate.sample
    return found
