"""A network that runs against time: trains of rows by priority, and load that is shed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from everquery.core.framing import pack, unpack
from everquery.errors import InvalidBatchError, InvalidNetworkError, SnapshotError
from everquery.network.analysis.check import analysed, layout_of, sheddable
from everquery.network.analysis.layout import Layout, Place
from everquery.network.rows import Flow
from everquery.network.runtime import snapshots
from everquery.network.runtime.figures import Figures
from everquery.network.runtime.plan import Node, Plan
from everquery.network.runtime.run import Run
from everquery.network.scheduling.figures import Costs, Overhead, Rates, load_of
from everquery.network.scheduling.marking import above_watches, marked
from everquery.network.scheduling.priorities import Priorities, Waiting
from everquery.network.scheduling.queue import Desk, Queue
from everquery.network.scheduling.shedder import Shedder
from everquery.network.scheduling.terms import Terms
from everquery.network.shedding.monitor import Monitor
from everquery.network.shedding.saved import load_monitor, save_monitor

if TYPE_CHECKING:
    from everquery.network.analysis.load import Load
    from everquery.network.model import Network

TRAINS = 4  # in an interval, at least: how often priorities are looked at
SHORTEST = 1024  # rows of a train by the clock: shorter ones are mostly overhead
KIND = "timed network"


class TimedRun(Run):
    """A running network with a capacity; `Network.start` makes one when it is given terms.

    Without a clock, time is what the calls say: `process(..., now=)` first works on what waits, up
    to that time, each box as long as `costs` say, and then takes in the batch. With a clock, a
    call works until nothing waits, and delays are what the clock shows.
    """

    def __init__(
        self, network: Network, terms: Terms, *, optimize: bool = True, keep: Iterable[str] = ()
    ) -> None:
        self.terms = terms
        self._desk = Desk(terms.queue_rows)
        self._layout = layout_of(network)
        self._monitor = Monitor(network.outputs)
        self._priorities = Priorities(network.outputs)
        self._rates = Rates(network.streams, terms.rates or {})
        self._costs, self._overhead = Costs(), Overhead()
        self._shedder = Shedder(terms)
        self._start: float | None = None
        self._at = -math.inf
        super().__init__(network, optimize=optimize and terms.costs is None, keep=keep)
        if terms.rates is not None:
            self._expect()

    def _expect(self) -> None:
        """Shed what is too much for the rates that are expected; refuse what can't be kept."""
        load = self._load()
        terms = self.terms
        refusal = analysed(self.network, load, terms.capacity, terms.headroom).refusal
        if refusal is not None:
            raise InvalidNetworkError(f"network {self.network.name!r}: {refusal}")
        if terms.shed:
            self._shedder.prepare(load)

    def _planned(self, before: Plan | None) -> Plan:
        plan = super()._planned(before)
        readers: dict[str, list[Any]] = {name: [] for name in plan.readers}
        boxes = {name: node.box for name, node in plan.nodes.items()}
        outputs = {name: one.source for name, one in self._outputs().items()}
        kept = [name for name, one in self.network.points.items() if one.keep is not None]
        self._layout = Layout(boxes, self._intakes, outputs, [one for one in kept if one in boxes])
        self._watches = above_watches(boxes)
        self._monitor.outputs = self._outputs()
        self._priorities.follow(self._outputs())
        self._shedder.follow(self._outputs(), sheddable(self.network), self._layout)
        for name, node in plan.nodes.items():
            node.arcs = [
                arc if isinstance(arc, Queue) else Queue(arc, self._desk) for arc in node.arcs
            ]
            for at, arc in enumerate(node.arcs):
                assert isinstance(arc, Queue)
                arc.gate = self._shedder.gates.at.get(Place(arc.source, name, at))
                readers[arc.source].append(arc)
        plan.readers = readers
        return plan

    # -- rows ---------------------------------------------------------------------------------

    def process(
        self,
        batches: Mapping[str, Any],
        *,
        read: Iterable[str] | None = None,
        now: float | None = None,
    ) -> dict[str, pa.Table]:
        """Take in a batch of some streams, and return what has come out by now.

        Parameters
        ----------
        now : float, optional
            When the batch came, in seconds: needed without a clock. With one, a batch that has been
            waiting before the call says so.
        """
        came = self._came(now)
        if self.terms.clock is None and not self._paused:
            self._work(came)
        self._desk.stamp = came
        if self.terms.clock is None:
            return super().process(batches, read=read)
        self._overhead.begin(self.terms.clock())
        try:
            return super().process(batches, read=read)
        finally:
            self._overhead.end(self.terms.clock())

    def work(self, until: float | None = None) -> dict[str, pa.Table]:
        """Work on what waits, up to a time, and return the new rows of each output."""
        if self.terms.clock is None:
            self._work(self._came(until))
        else:
            self._work(math.inf)
        return self.read()

    def _came(self, now: float | None) -> float:
        if now is None:
            if self.terms.clock is None:
                raise InvalidBatchError(
                    "the run has no clock; say when the batch came: `process(batches, now=12.5)`"
                )
            now = self.terms.clock()
        if self._start is None:
            self._start, self._at = now, now
        return now

    def _time(self) -> float:
        if self.terms.clock is not None:
            self._at = self.terms.clock()
        return self._at

    def _send(self, name: str, flow: Flow) -> None:
        above = self._watches.get(name)
        if above and flow.rows.num_rows and self._shedder.gates.shed_above(above):
            flow = Flow(marked(flow.rows), flow.clock)
        if name in self._intakes:
            self._rates.count(name, flow.rows.num_rows)
            gate = self._shedder.gates.at.get(Place(name))
            if gate is not None:
                flow = Flow(gate.keep(flow.rows, self._desk.tick), flow.clock)
        for output, spec in self._outputs().items():
            if spec.source == name and flow.rows.num_rows:
                delay = max(self._time() - self._desk.stamp, 0.0)
                self._monitor.deliver(output, flow.rows.num_rows, delay, self._desk.tick)
                self._shedder.see(output, flow.rows)
        super()._send(name, flow)

    # -- running ------------------------------------------------------------------------------

    def _drain(self) -> None:
        if self.terms.clock is not None or self._finished:
            self._work(math.inf)

    def _work(self, until: float) -> None:
        """Run trains until nothing waits or the time has come; look at the load in between."""
        load = self._load()
        while True:
            if self._look(until):
                load = self._load()
            names = self._train(load)
            if not names or (self.terms.clock is None and self._at >= until):
                break
            left = self.terms.interval / TRAINS
            if self.terms.clock is None:
                left = min(left, until - self._at)
            for name in names:  # a train that has begun goes on to its output
                node = self._plan.nodes[name]
                if any(arc.fresh for arc in node.arcs):
                    self._go(node, load, left)
                    left = self.terms.interval / TRAINS
        if self.terms.clock is None and until < math.inf:
            self._at = max(self._at, until)
            self._look(until)

    def _go(self, node: Node, load: Load, left: float) -> None:
        """Run a box on as many rows as can reach the outputs in the time that is left."""
        cost = load.waiting({node.name: 1.0})
        most = self.terms.train
        if cost > 0:
            least = 1 if self.terms.clock is None else SHORTEST
            most = min(most, max(math.ceil(left * self.terms.capacity / cost), least))
        for arc in node.arcs:
            assert isinstance(arc, Queue)
            arc.limit = most
        self._run(node)

    def _run(self, node: Node) -> None:
        if self.terms.clock is None:
            costs = self.terms.costs or {}
            rows = sum(min(arc.queued, _limit(arc)) for arc in node.arcs)
            self._at += rows * costs.get(node.name, 0.0) / self.terms.capacity
        self._desk.stamp = math.inf
        figures = node.figures
        rows_before, before = figures.rows_in, figures.seconds
        super()._run(node)
        if self.terms.clock is not None:
            self._costs.see(node.name, figures.rows_in - rows_before, figures.seconds - before)

    def _train(self, load: Load) -> list[str]:
        """Return the boxes to run one after the other: those above the most urgent output."""
        fresh = {
            name: sum(arc.queued for arc in node.arcs)
            for name, node in self._plan.nodes.items()
            if any(arc.fresh for arc in node.arcs)
        }
        clocks = [name for name, rows in fresh.items() if not rows]
        if clocks or not fresh:
            return clocks
        now = self._time()
        waiting = []
        for output in self._outputs():
            own = {name: rows for name, rows in fresh.items() if output in self._behind(name)}
            if own:
                age = now - self._oldest(own)
                waiting.append(Waiting(output, sum(own.values()), age, load.waiting(own)))
        later = max(load.waiting(fresh) / self.terms.capacity, self.terms.interval / TRAINS)
        chosen = self._priorities.choose(waiting, later)
        if chosen is None:  # no output depends on what waits
            return list(fresh)
        return self._layout.above(chosen)

    def _behind(self, name: str) -> frozenset[str]:
        return self._layout.behind.get(name, frozenset())

    def _oldest(self, names: Iterable[str]) -> float:
        stamps = [
            arc.oldest
            for name in names
            for arc in self._plan.nodes[name].arcs
            if isinstance(arc, Queue) and arc.oldest is not None
        ]
        return min(stamps, default=self._at)

    # -- looking at the load --------------------------------------------------------------------

    def _look(self, until: float) -> bool:
        """End the intervals of time that have passed; tell whether there was one."""
        if self._start is None:
            return False
        now = min(self._time(), until)
        ended = False
        while self._start + (self._desk.tick + 1) * self.terms.interval <= now:
            self._close()
            ended = True
        return ended

    def _close(self) -> None:
        tick = self._desk.tick
        self._rates.close(self.terms.interval)
        queued = {
            name: sum(arc.queued for arc in node.arcs) for name, node in self._plan.nodes.items()
        }
        missing = self._shedder.gates.inexact()
        end = (self._start or 0.0) + (tick + 1) * self.terms.interval
        for output in self._outputs():
            above = [name for name in queued if queued[name] and output in self._behind(name)]
            self._monitor.close(
                output,
                tick,
                waited=max(end - self._oldest(above), 0.0) if above else 0.0,
                queued=sum(queued[name] for name in above),
                lost=self._shedder.gates.lost(self._layout, output, tick),
                exact=output not in missing,
            )
        load = self._load()
        if self.terms.clock is not None:
            boxes = sum(node.figures.seconds for node in self._plan.nodes.values())
            self._overhead.close(self._at, boxes)
            self._shedder.allow(self._overhead.now)
        overloaded = self._shedder.controller.overloaded(load)
        late = self._monitor.troubled(tick, overloaded=overloaded)
        self._priorities.learn(late)
        if self.terms.shed:
            self._shedder.tick(self._plan, self._layout, load, queued, late)
        self._desk.tick += 1

    def _load(self) -> Load:
        return load_of(self._layout, self._plan, self._rates.now, self._costs.now, self.terms)

    def detach(self, *names: str) -> dict[str, pa.Table]:
        """Work off all that waits, then take out boxes and outputs, as every run does."""
        self._work(math.inf)
        return super().detach(*names)

    # -- what it knows ------------------------------------------------------------------------

    def stats(self) -> pa.Table:
        """Return the figures of every run, rows shed at each arc, and the utility of outputs.

        ``shed`` is rows, ``utility`` that of the last interval of time in which an output had any.
        """
        table = super().stats()
        shed = self._shedder.gates.shed_at()
        worth = {name: self._monitor.latest(name) for name in self._outputs()}
        lines = list(zip(table["what"].to_pylist(), table["name"].to_pylist(), strict=True))
        lost = [shed.get(name, 0) if what in ("arc", "stream") else None for what, name in lines]
        now = [worth.get(name) if what == "output" else None for what, name in lines]
        table = table.append_column("shed", pa.array(lost, pa.int64()))
        return table.append_column("utility", pa.array(now, pa.float64()))

    def quality(self) -> pa.Table:
        """Return delay, loss and utility of every output, by interval of time."""
        return self._monitor.table(self._start or 0.0, self.terms.interval)

    def shed_report(self) -> pa.Table:
        """Return every row that was shed, counted by output, place, reason and interval of time."""
        return self._shedder.gates.report(self._start or 0.0, self.terms.interval)

    def inexact(self) -> dict[str, list[str]]:
        """Return, for each output that lacks rows, the places where they were shed.

        Windows, joins and standing queries before such an output have seen a part of the rows.
        """
        return self._shedder.gates.inexact()

    # -- state --------------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """Return the state of all streams, boxes, queues and droppers as bytes, for `restore`."""
        queues = [
            [name, at, arc.save()]
            for name, node in self._plan.nodes.items()
            for at, arc in enumerate(node.arcs)
            if isinstance(arc, Queue)
        ]
        header = {
            "kind": KIND,
            "time": None if self._start is None else [self._start, self._at],
            "tick": self._desk.tick,
            "queues": queues,
            "figures": {name: asdict(node.figures) for name, node in self._plan.nodes.items()},
            "rates": self._rates.save(),
            "weights": self._priorities.weights,
            "shedding": self._shedder.save(),
            "monitor": save_monitor(self._monitor),
        }
        return pack(header, {"run": super().snapshot()})

    def restore(self, snapshot: bytes) -> None:
        """Become the run that a snapshot was taken of, which is of the same network."""
        header, _, strings = unpack(snapshot)
        if header.get("kind") != KIND:
            raise SnapshotError("the snapshot is of a run without a capacity, and this has one")
        saved = snapshots.read(self.network, self._boxes, strings["run"])
        expected = replace(self.terms, rates=None)  # what they asked for is in the snapshot
        fresh = TimedRun(self.network, expected, optimize=self.optimized, keep=self._seen)
        fresh.terms = self.terms
        fresh._boxes, fresh._notes = dict(self._boxes), self._notes
        fresh._attached, fresh._costs = set(self._attached), self._costs
        snapshots.load_intakes(saved, fresh._intakes, fresh._histories)
        fresh._plan = fresh._planned(None)
        snapshots.load_nodes(saved, fresh._plan)
        snapshots.load_outputs(saved, fresh._kept)
        fresh._load_time(header)
        fresh._taps = self._taps
        self.__dict__.update(fresh.__dict__)

    def _load_time(self, header: Mapping[str, Any]) -> None:
        if header["time"] is not None:
            self._start, self._at = header["time"]
        self._desk.tick = header["tick"]
        for name, at, saved in header["queues"]:
            queue = self._plan.nodes[name].arcs[at]
            assert isinstance(queue, Queue)
            queue.load(saved)
        for name, figures in header["figures"].items():
            self._plan.nodes[name].figures = Figures(**figures)
        self._rates.load(header["rates"])
        self._priorities.weights = dict(header["weights"])
        self._shedder.load(header["shedding"])
        load_monitor(header["monitor"], self._monitor)


def _limit(arc: Any) -> float:  # noqa: ANN401 - a queue
    return math.inf if arc.limit is None else arc.limit
