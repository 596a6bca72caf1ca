"""Intervals by trial: sample rows go through the boxes, and what comes out tells their worth.

For outputs behind a box without an inverse (Aurora calls it forward interval propagation).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from everquery.network.analysis.layout import Layout, Place
from everquery.network.expressions.types import is_number
from everquery.network.optimizer.siblings import Routed
from everquery.network.quality import Points
from everquery.network.rows import END, Flow, RowType
from everquery.network.runtime.plan import Plan, make_plan
from everquery.network.shedding.droppers import Interval
from everquery.network.shedding.steps import Offer
from everquery.network.spec import Box
from everquery.network.utility import worth_of

BINS = 8


class Trial:
    """Sends sample rows from one place to an output, through boxes of its own."""

    def __init__(
        self,
        boxes: Mapping[str, Box],
        types: Mapping[str, RowType],
        layout: Layout,
        output: str,
        graph: tuple[str, Points],
    ) -> None:
        self._boxes = {
            name: boxes[name] for name in layout.order if layout.behind[name] == {output}
        }
        self._types = types
        self._output = output
        self._end = layout.outputs[output]
        self._column, self._points = graph
        self._plan: Plan | None = None

    def worth(self, place: Place, rows: pa.Table) -> float:
        """Return the utility of all that rows give at the output."""
        found = self.rows(place, rows)
        if found is None or not found.num_rows:
            return 0.0
        return float(worth_of(found.column(self._column), self._points).sum())

    def rows(self, place: Place, rows: pa.Table) -> pa.Table | None:
        """Return what rows give at the output."""
        plan = self._planned(place)
        found = rows if place.source == self._end else None
        for arc in plan.readers[place.source]:
            arc.put(Flow(rows, END))
        for node in plan.nodes.values():
            flows = [
                arc.take(kind) for arc, kind in zip(node.arcs, node.operator.inputs, strict=True)
            ]
            given = node.operator.process(flows)
            for arc in plan.readers[node.name]:
                if isinstance(given, Routed):
                    arc.put(Flow(given.parts[arc.target], given.clock))
                else:
                    arc.put(given)
            if node.name == self._end:
                found = given.rows
        return found

    def _planned(self, place: Place) -> Plan:
        """Return boxes without a past."""
        if self._plan is None or not all(
            node.operator.stateless for node in self._plan.nodes.values()
        ):
            self._plan = make_plan(self._boxes, {place.source: self._types[place.source]})
        return self._plan

    def offers(self, place: Place, sample: pa.Table) -> list[Offer]:
        """Return the intervals of the best column of the sample, the least useful first."""
        total = self.worth(place, sample)
        best: list[tuple[float, float, Interval]] = []
        for name, kind in self._types[place.source].columns.items():
            if not is_number(kind):
                continue
            bins = self._bins(place, sample, name, total)
            if bins and (not best or bins[0][0] / bins[0][1] < best[0][0] / best[0][1]):
                best = bins
        return [
            Offer(self._output, {place: rows}, worth, {place: interval})
            for worth, rows, interval in _relative(best)
        ]

    def _bins(
        self, place: Place, sample: pa.Table, column: str, total: float
    ) -> list[tuple[float, float, Interval]]:
        """Return worth, share of rows and interval for each bin of a column."""
        values = np.asarray(pc.drop_null(sample.column(column)).to_numpy(), np.float64)
        if not values.size:
            return []
        cuts = np.unique(np.quantile(values, np.arange(1, BINS) / BINS))
        ends = [-np.inf, *cuts, np.inf]
        found = []
        for low, high in itertools.pairwise(ends):
            interval = Interval(column, float(low), float(high))
            rows = sample.filter(interval.mask(sample))
            if rows.num_rows:
                worth = self.worth(place, rows) / total if total > 0 else 0.0
                found.append((min(worth, 1.0), rows.num_rows / sample.num_rows, interval))
        return sorted(found, key=lambda one: (one[0] / one[1], one[2].low))


def _relative(
    bins: list[tuple[float, float, Interval]],
) -> list[tuple[float, float, Interval]]:
    """Return bins whose shares are of what those before them leave."""
    found = []
    worth_left = rows_left = 1.0
    for worth, rows, interval in bins:
        if worth_left <= 0 or rows_left <= 0:
            break
        found.append((min(worth / worth_left, 1.0), min(rows / rows_left, 1.0), interval))
        worth_left, rows_left = worth_left - worth, rows_left - rows
    return found
