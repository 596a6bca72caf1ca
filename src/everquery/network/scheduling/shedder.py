"""The shedder of a run: puts droppers in and takes them out as the controller says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from everquery.network.analysis.layout import Layout, Place
from everquery.network.analysis.load import Load
from everquery.network.ends import Output
from everquery.network.runtime.plan import Plan
from everquery.network.scheduling.queue import Queue
from everquery.network.scheduling.terms import Terms
from everquery.network.shedding.backward import Carrier
from everquery.network.shedding.controller import Controller
from everquery.network.shedding.forward import Trial
from everquery.network.shedding.gates import Gates, samples_of
from everquery.network.shedding.histograms import Histogram
from everquery.network.shedding.offers import offers
from everquery.network.shedding.saved import (
    load_gates,
    load_histogram,
    save_gates,
    save_histogram,
)
from everquery.network.shedding.steps import Greedy, Offer, Step
from everquery.network.utility import delay_graph, good_until, loss_graph, value_graph

FEW = 0.05  # of the work that waits: what is less stays
LEAST = 0.1  # of what may be used: boxes get this in any case


class Shedder:
    """Gates, histograms and controller of a run."""

    def __init__(self, terms: Terms) -> None:
        self._interval = terms.interval
        self._allowed = terms.capacity * terms.headroom
        self.gates = Gates()
        self.controller = Controller(Greedy({}), self._allowed, terms.patience, terms.calm)
        self.histograms: dict[str, Histogram] = {}
        self._known: Plan | None = None
        self._trials: dict[str, Trial] = {}

    def follow(self, outputs: Mapping[str, Output], may: frozenset[str], layout: Layout) -> None:
        """Go on with these outputs and arrows; droppers that would now harm others go."""
        graphs = {name: loss_graph(one.qos, one.shed) for name, one in outputs.items()}
        zones = [
            good_until(graph)
            for one in outputs.values()
            if (graph := delay_graph(one.qos)) is not None
        ]
        self.controller.greedy = Greedy({name: graphs[name] for name in graphs if name in may})
        self.controller.recovery = max(min(zones, default=0.0), self._interval)
        self.histograms = {
            name: self.histograms.get(name) or Histogram(*valued)
            for name in outputs
            if name in may and (valued := value_graph(outputs[name].qos)) is not None
        }
        self.gates.plan(layout, may)
        for step, _ in list(self.gates.standing):
            if not all(_is_of(place, step, layout) for place in step.shares):
                self.gates.take_out(step)
        self.controller.steps = [step for step, _ in self.gates.standing]

    def allow(self, overhead: float) -> None:
        """Leave to boxes what a run does not spend beside them."""
        self.controller.allowed = max(self._allowed - overhead, LEAST * self._allowed)

    def see(self, output: str, rows: pa.Table) -> None:
        """Take in rows that reached an output."""
        if output in self.histograms:
            self.histograms[output].add(rows)

    def prepare(self, load: Load) -> None:
        """Put in what rates that are expected ask for."""
        for step in self.controller.prepare(load):
            self.gates.put(step)

    def tick(
        self,
        plan: Plan,
        layout: Layout,
        load: Load,
        queued: Mapping[str, int],
        late: list[str],
    ) -> None:
        """End an interval of time: shed more, or less."""
        removed, added = self.controller.tick(
            load,
            load.waiting(queued),
            late=bool(late),
            offers=lambda: self._offers(plan, layout),
        )
        for step in removed:
            self.gates.take_out(step)
        for step in added:
            for dropper in self.gates.put(step):
                for queue in _queues(plan, dropper.place):
                    queue.shed(dropper)
        if self.controller.clears:
            self._clear(plan, layout, load)
        shed_by_value = {
            name for step in self.controller.steps if step.intervals for name in step.outputs
        }
        for name, histogram in self.histograms.items():
            histogram.frozen = name in shed_by_value

    def _clear(self, plan: Plan, layout: Layout, load: Load) -> None:
        """Shed rows that wait, once, so that the rest is worked off in time.

        Rows that came before the load was shed would be in the way of those that come now.
        """
        queued = {name: sum(arc.queued for arc in node.arcs) for name, node in plan.nodes.items()}
        excess = load.waiting(queued) - self.controller.bearable(load)
        waiting: dict[Place, tuple[frozenset[str], float]] = {}
        for outputs in layout.sets():
            if outputs <= set(self.controller.greedy.outputs):
                for place in layout.frontier(outputs):
                    work = sum(
                        load.waiting({queue.target: queue.queued}) for queue in _queues(plan, place)
                    )
                    waiting.setdefault(place, (outputs, work))
        total = sum(work for _, work in waiting.values())
        if excess <= 0 or total <= 0:
            return
        share = min(excess / total, 1.0)
        for place, (outputs, work) in waiting.items():
            if work > FEW * total:
                step = Step(outputs, {place: share}, share)
                (dropper,) = self.gates.put(step)
                for queue in _queues(plan, place):
                    queue.shed(dropper)
                self.gates.take_out(step)

    def save(self) -> dict[str, Any]:
        """Return the state as plain values."""
        return {
            "gates": save_gates(self.gates, self.controller),
            "histograms": {name: save_histogram(one) for name, one in self.histograms.items()},
        }

    def load(self, saved: dict[str, Any]) -> None:
        """Take a state that `save` gave."""
        load_gates(saved["gates"], self.gates, self.controller)
        for name, one in self.histograms.items():
            load_histogram(saved["histograms"][name], one)

    def _offers(self, plan: Plan, layout: Layout) -> list[Offer]:
        boxes = {name: node.box for name, node in plan.nodes.items()}
        if self._known is not plan:
            self._known, self._trials = plan, {}
            self._carrier = Carrier(boxes, plan.types, layout)
        found: list[Offer] = []
        for output, histogram in self.histograms.items():
            samples = samples_of(self.gates.at, layout.frontier(frozenset({output})))
            if output not in self._trials:
                graph = histogram.column, histogram.points
                self._trials[output] = Trial(boxes, plan.types, layout, output, graph)
            trial, steps = self._trials[output], self.controller.steps
            found += offers(self._carrier, trial, layout, output, histogram, samples, steps)
        return found


def _queues(plan: Plan, place: Place) -> list[Queue]:
    """Return the queues whose rows are at a place; none where several boxes share them."""
    if place.target is not None:
        arcs = [plan.nodes[place.target].arcs[place.at]]
    else:
        arcs = plan.readers[place.source]
    return [arc for arc in arcs if isinstance(arc, Queue) and len(arcs) == 1]


def _is_of(place: Place, step: Step, layout: Layout) -> bool:
    """Tell whether rows at a place go to the outputs of a step alone."""
    behind = layout.behind.get(place.source if place.target is None else place.target)
    return behind is not None and behind <= step.outputs
