"""A network that runs in this process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from everquery.errors import EverqueryError, InvalidBatchError, InvalidNetworkError
from everquery.network.optimizer.explaining import explained
from everquery.network.optimizer.fusing import simplified
from everquery.network.optimizer.siblings import Routed
from everquery.network.optimizer.structure import structured
from everquery.network.picture import draw
from everquery.network.rows import Flow
from everquery.network.runtime import snapshots, tables
from everquery.network.runtime.arcs import MOST_UNREAD, Kept, Tap
from everquery.network.runtime.attaching import with_boxes, without_boxes
from everquery.network.runtime.intake import Intake
from everquery.network.runtime.plan import Node, Plan, make_plan
from everquery.network.runtime.points import NOW, History
from everquery.network.runtime.threads import Worked, Workers, taken, worked

if TYPE_CHECKING:
    from everquery.network.model import Network

MEASURED = 100  # calls after which filters are ordered by their figures


class Run:
    """A running network; `Network.start` makes one.

    Every call of `process` sends batches through all boxes, in the order of the arrows, and returns
    what came out. How rows are divided into batches changes no output. One thread at a time may use
    it.
    """

    def __init__(
        self,
        network: Network,
        *,
        optimize: bool = True,
        keep: Iterable[str] = (),
        threads: int = 1,
    ) -> None:
        if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
            raise InvalidNetworkError(f"threads is {threads!r}; it is 1 or more")
        self._workers = Workers(threads) if threads > 1 else None
        self.network = network
        self.optimized = optimize
        self._seen = {*keep, *network.points, *(one.source for one in network.outputs.values())}
        self._notes: list[str] = []
        self._boxes = dict(network.readable)
        if optimize:
            roots = {name: source.row_type() for name, source in network.streams.items()}
            self._boxes, self._notes = structured(self._boxes, roots, self._seen)
        self._calls = 0
        self._intakes = {name: Intake(source) for name, source in network.streams.items()}
        self._kept = {name: Kept(MOST_UNREAD) for name in network.outputs}
        self._taps: list[Tap] = []
        self._paused = self._finished = False
        self._histories = {name: History(name, point) for name, point in network.points.items()}
        self._attached: set[str] = set()
        self._plan = self._planned(None)

    def _planned(self, before: Plan | None) -> Plan:
        roots = {name: intake.row_type for name, intake in self._intakes.items()}
        boxes, self._done = self._boxes, list(self._notes)
        if self.optimized:
            figures = {} if before is None else tables.measured(before)
            seen = {*self._seen, *(tap.source for tap in self._taps)}
            boxes, notes = simplified(boxes, roots, seen, figures)
            self._done += notes
        return make_plan(boxes, roots, before)

    def _replan(self) -> None:
        """Drain all boxes, and go on with the boxes that are best now; state stays."""
        self._drain()
        self._plan = self._planned(self._plan)

    def optimize(self) -> str:
        """Order filters by what they have cost and let through so far; return `explain`.

        A run does this by itself after its first hundred calls.
        """
        if self.optimized:
            self._replan()
        return self.explain()

    def explain(self) -> str:
        """Return the boxes as they were given and as they run, and what was done between."""
        after = {name: node.box for name, node in self._plan.nodes.items()}
        return explained(self.network.name, self.network.readable, after, self._done)

    # -- rows ---------------------------------------------------------------------------------

    def process(
        self, batches: Mapping[str, Any], *, read: Iterable[str] | None = None
    ) -> dict[str, pa.Table]:
        """Take in a batch of some streams, and return the new rows of each output.

        Parameters
        ----------
        batches : mapping of str to Arrow table, batch, DataFrame, list of dicts or dict of columns
            By the names of their streams.
        read : names of outputs, optional
            Return these alone. The rows of the others wait until they are read, a million of each
            at most; older ones are then dropped and counted in `stats`.

        Raises
        ------
        InvalidBatchError
            If a stream is not there, or a batch is not of its type. Nothing has changed then.
        """
        if self._finished:
            raise InvalidBatchError(
                "the streams have ended: `finish` was called. Start another run"
            )
        if not isinstance(batches, Mapping):
            raise InvalidBatchError(
                f"{type(batches).__name__} has no batches by the names of streams; write"
                f" {{{next(iter(self._intakes), 'stream')!r}: batch}}. Nothing has changed"
            )
        read = self._names(read)
        checked = {name: self._intake(name).check(batch) for name, batch in batches.items()}
        self._learn(checked)
        for name, batch in checked.items():
            self._send(name, self._intakes[name].take(batch))
        if not self._paused:
            self._drain()
            self._calls += 1
            if self._calls == MEASURED and self.optimized:
                self._replan()
        return self._read_and_trim(read)

    def finish(self) -> dict[str, pa.Table]:
        """End all streams, and return what was still open."""
        if not self._finished:
            self._finished, self._paused = True, False
            for name, intake in self._intakes.items():
                self._send(name, intake.finish())
            self._drain()
        return self.read()

    def read(self, outputs: Iterable[str] | None = None) -> dict[str, pa.Table]:
        """Return the rows of outputs that nobody has read yet."""
        names = self._names(outputs)
        sources = {name: output.source for name, output in self._outputs().items()}
        return {name: self._kept[name].read(self._plan.types[sources[name]]) for name in names}

    def _names(self, outputs: Iterable[str] | None) -> list[str]:
        names = list(self._kept) if outputs is None else list(outputs)
        for name in names:
            if name not in self._kept:
                raise InvalidNetworkError(
                    f"there is no output {name!r}; there are {', '.join(self._kept)}"
                )
        return names

    def _read_and_trim(self, outputs: Iterable[str] | None) -> dict[str, pa.Table]:
        """Return what is read; of what is not, the latest rows wait for a reader."""
        found = self.read(outputs)
        for kept in self._kept.values():
            kept.trim()
        return found

    def _outputs(self) -> Mapping[str, Any]:
        return self.network.outputs

    def _intake(self, name: str) -> Intake:
        if name not in self._intakes:
            raise InvalidBatchError(
                f"network {self.network.name!r} has no stream {name!r}; it has"
                f" {', '.join(self._intakes)}. Nothing has changed"
            )
        return self._intakes[name]

    def _learn(self, checked: Mapping[str, pa.Table]) -> None:
        """Take the types of keys and times from the first batches."""
        before = {name: self._intakes[name].row_type for name in checked}
        learned = [self._intakes[name].learn(batch) for name, batch in checked.items()]
        if not any(learned):
            return
        try:
            self._plan = self._planned(self._plan)
        except EverqueryError as error:
            for name, row_type in before.items():
                self._intakes[name].row_type = row_type
            raise InvalidBatchError(f"{error}. Nothing has changed") from error

    # -- running ------------------------------------------------------------------------------

    def _send(self, name: str, flow: Flow) -> None:
        """Give what came out of a stream or box to all that read from it."""
        for tap in self._taps:
            if tap.source == name:
                tap.see(flow.rows, self._plan.types[name])
        for output, spec in self._outputs().items():
            if spec.source == name:
                self._kept[output].add(flow.rows)
        if name in self._histories:
            self._histories[name].add(flow, self._plan.types[name])
        if isinstance(flow, Routed):
            for arc in self._plan.readers[name]:
                arc.put(Flow(flow.parts[arc.target], flow.clock))
            return
        for arc in self._plan.readers[name]:
            arc.put(flow)

    def _drain(self) -> None:
        if self._workers is not None:
            self._workers.drain(self._plan.nodes, self._told)
            return
        for node in self._plan.nodes.values():
            if any(arc.fresh for arc in node.arcs):
                self._run(node)

    def _run(self, node: Node) -> None:
        self._told(node, worked(node, taken(node)))

    def _told(self, node: Node, work: Worked) -> None:
        """Count what a box did, and give what came out to all that read from it."""
        flows, found, seconds = work
        figures = node.figures
        figures.seconds += seconds
        figures.calls += 1
        figures.rows_in += sum(flow.rows.num_rows for flow in flows)
        figures.rows_out += found.rows.num_rows
        self._send(node.name, found)

    def pause(self) -> None:
        """Let rows wait in front of boxes; `step` runs one box, `resume` all."""
        self._paused = True

    def step(self) -> str | None:
        """Run one box that has rows waiting, the first in the order of arrows; return its name."""
        for node in self._plan.nodes.values():
            if any(arc.fresh for arc in node.arcs):
                self._run(node)
                self._read_and_trim(())
                return node.name
        return None

    def resume(self) -> dict[str, pa.Table]:
        """Run all that waits, and return the new rows of each output."""
        self._paused = False
        self._drain()
        return self.read()

    # -- changes while it runs ----------------------------------------------------------------

    def attach(
        self,
        boxes: Mapping[str, Any],
        outputs: Mapping[str, Any] | None = None,
        *,
        begin: Any = NOW,  # noqa: ANN401 - a word or a time
    ) -> dict[str, pa.Table]:
        """Add boxes that read from connection points, and return what they give of the past.

        Parameters
        ----------
        boxes : mapping of str to Box or form
        outputs : mapping of str to Output, form or name of a box, optional
            What `process` returns from now on, besides what it did.
        begin : {"now", "oldest"} or a time
            From when on: ``oldest`` is all that the points keep. What is kept goes through the
            boxes first, and what comes follows without gap or overlap.

        Raises
        ------
        InvalidNetworkError
            If a box can't be, reads from what is no connection point, or is to begin in the past of
            a point that keeps none. Nothing has changed then.
        """
        self._drain()
        whole, made, ends = with_boxes(self.network, self._attached, boxes, outputs or {})
        past = {
            source: self._histories[source].since(begin, self._plan.types[source])
            for box in made.values()
            for source in box.sources
            if source in self._histories
        }
        before = (self.network, self._boxes, self._attached, self._seen, self._kept)
        self.network = whole
        self._boxes = {**self._boxes, **made}
        self._attached = {*self._attached, *made}
        self._seen = {*self._seen, *made, *(one.source for one in ends.values())}
        self._kept = {**self._kept, **{name: Kept(MOST_UNREAD) for name in ends}}
        try:
            self._plan = self._planned(self._plan)
        except Exception:  # types that rows have shown, or a registry that is not there
            self.network, self._boxes, self._attached, self._seen, self._kept = before
            self._plan = self._planned(self._plan)
            raise
        for source, flow in past.items():
            for arc in self._plan.readers[source]:
                if arc.target in made:
                    arc.put(flow)
        self._drain()
        return self.read(ends)

    def detach(self, *names: str) -> dict[str, pa.Table]:
        """Take out boxes and outputs by name, and return the rows of outputs that were not read.

        Raises
        ------
        InvalidNetworkError
            If one is not there, or another box or output reads from it. Nothing has changed then.
        """
        self._drain()
        smaller = without_boxes(self.network, names)
        left = self.read(name for name in names if name in self._kept)
        self.network = smaller
        for name in names:
            self._kept.pop(name, None)
            for own in [one for one in self._boxes if one == name or one.startswith(f"{name}@")]:
                del self._boxes[own]
        self._attached -= set(names)
        self._plan = self._planned(self._plan)
        return left

    # -- what it knows ------------------------------------------------------------------------

    def tap(self, source: str, *, most: int | None = None) -> Tap:
        """Return a tap on what comes out of a stream, box or point: it collects the rows that pass.

        Parameters
        ----------
        most : int, optional
            How many rows it keeps for its reader; 100,000 without it.
        """
        known = {**self.network.types, **self._plan.types}
        if source not in known:
            raise InvalidNetworkError(
                f"there is no arc from {source!r}; there are {', '.join(self.network.types)}"
            )
        if self._boxes.get(source, source) != self.network.readable.get(source, source):
            raise InvalidNetworkError(
                f"{source!r} was rewritten when the run started, because nobody read its rows;"
                f" start with keep=[{source!r}]"
            )
        tap = Tap(source) if most is None else Tap(source, most)
        self._taps.append(tap)
        if source not in self._plan.types:
            self._replan()
        return tap

    def untap(self, tap: Tap) -> None:
        """Take a tap off its arc."""
        self._taps.remove(tap)

    def stats(self) -> pa.Table:
        """Return a row for each stream, box, arc and output: rows, rates, costs, queues."""
        return tables.stats(self._plan, self._intakes, self._kept, self._outputs())

    def draw(self) -> str:
        """Return a picture of the network with what has gone through it so far, as SVG."""
        return draw(self.network, self.stats())

    def dead_letters(self) -> pa.Table:
        """Return the refused rows: who refused each, why, and the row as JSON."""
        return tables.dead_letters(self._plan, self._intakes)

    def drain_dead_letters(self) -> pa.Table:
        """Return the refused rows, as `dead_letters` does, and forget them; counts stay."""
        found = self.dead_letters()
        for one in tables.letters_of(self._plan, self._intakes).values():
            one.kept.clear()
        return found

    # -- state --------------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """Return the state of all streams, boxes and arcs as bytes, for `restore`."""
        return snapshots.save(
            self.network, self._boxes, self._plan, self._intakes, self._histories, self._kept
        )

    def restore(self, snapshot: bytes) -> None:
        """Become the run that a snapshot was taken of, which is of the same network."""
        saved = snapshots.read(self.network, self._boxes, snapshot)
        fresh = Run(self.network, optimize=self.optimized, keep=self._seen)
        fresh._workers = self._workers
        fresh._boxes, fresh._notes = dict(self._boxes), self._notes
        fresh._attached = set(self._attached)
        snapshots.load_intakes(saved, fresh._intakes, fresh._histories)
        fresh._plan = fresh._planned(None)
        snapshots.load_nodes(saved, fresh._plan)
        snapshots.load_outputs(saved, fresh._kept)
        fresh._taps = self._taps
        self.__dict__.update(fresh.__dict__)
