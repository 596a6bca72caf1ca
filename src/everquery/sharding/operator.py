"""One batch of one shard: packed rows in, notices out."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from time import perf_counter
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa

from everquery.history.history import History
from everquery.queries.changes import Change, Deregister
from everquery.registry.codec import encode_change
from everquery.registry.quarantined import Quarantined
from everquery.registry.rows import LogRow
from everquery.registry.strangers import strangers
from everquery.shard import Shard
from everquery.shard.failed_merges import FailedMerges
from everquery.sharding.durable import DurableShard
from everquery.sharding.job import Job
from everquery.sharding.journal import Store
from everquery.sharding.logged_queries import LogPart
from everquery.sharding.packing import Unpacked, unpack
from everquery.sharding.places import first_source, order_of
from everquery.sharding.quarantine import HeldOut, Quarantine
from everquery.sharding.routing import across_keys, joins, leaves, queries_of, without, wrong_keys
from everquery.sharding.shard_history import fill, keep, record
from everquery.state.partial import Partial
from everquery.stream import Stream

# The queries that live shards were without when they were last committed. Arrays that are kept have
# proof that they are as of then.
_KNOWN_OUT: WeakKeyDictionary[Shard, tuple[Quarantined, ...]] = WeakKeyDictionary()
FAILED_MERGES = FailedMerges(logging.getLogger("everquery.sharding"))  # of this process


@dataclass(frozen=True, slots=True)
class Input:
    """What one shard gets in a batch.

    Attributes
    ----------
    log : the parts of the registry's log, in any order
    events : pairs of where events were packed, which sorts, and the blob or the events themselves;
        in any order
    """

    log: Sequence[LogRow]
    events: Sequence[tuple[tuple[int, ...], bytes | pa.Buffer | Unpacked]]


@dataclass(frozen=True, slots=True)
class Output:
    """What one shard returns for a batch.

    Attributes
    ----------
    notices, letters : tables
    carried : the columns of events that were carried into the notices; None if there are none
    quarantined : the queries that were taken out, by kind and id, each with the reason
    position : int
        The version of the query set with which the events were seen.
    events, queries : int
        How many the shard accepted in this batch, and how many it has.
    partial : Partial
        How many of those events lack a value.
    found : str
        Where the live arrays came from, as in `DurableShard`.
    seconds : dict
        Where the time went.
    letters_carried : the same columns of the refused events; None if there are none
    held_out : the queries that the shard runs without; None if there are none, and were none before
    """

    notices: pa.Table
    letters: pa.Table
    carried: pa.Table | None
    quarantined: dict[tuple[str, str], str]
    position: int
    events: int
    partial: Partial
    queries: int
    found: str
    seconds: dict[str, float]
    letters_carried: pa.Table | None = None
    held_out: tuple[Quarantined, ...] | None = None


def run_batch(job: Job, number: int, given: Input, store: Store) -> Output:
    """Take a shard from one version to the next.

    A query that makes the work fail is taken out, and the others go on. Only a few queries are: if
    it were many, the error would be ours (`everquery.sharding.quarantine`). Nothing is written
    before all work is done, so failed work leaves no trace. An error while the store is read or
    written is no query's fault and fails the batch: the runtime runs it again from the same store.
    """
    batch = _Batch(job, number, given, store)
    batch.open()
    reasons: dict[tuple[str, str], str] = {}
    try:
        batch.work()
    except Exception as error:  # whatever a query may cause; what it can't is raised again
        quarantine = Quarantine(
            error,
            lambda ids: _Batch(job, number, given, store, ids).rehearse(),
            already=HeldOut(store).failed,
        )
        first = _Batch(job, number, given, store)
        reasons = quarantine.culprits(first.new_queries(), first.old_queries)
        batch = _Batch(job, number, given, store, frozenset(each for _, each in reasons))
        batch.open()
        try:
            batch.work()
        except Exception as again:
            raise quarantine.blameless("the others fail together, too") from again
    return batch.commit(reasons)


@dataclass
class _Batch:
    """One attempt at a batch, without some queries."""

    job: Job
    number: int
    given: Input
    store: Store
    left_out: AbstractSet[str] = frozenset()
    seconds: dict[str, float] = field(default_factory=dict)
    _misfits: dict[tuple[str, str], str] = field(default_factory=dict)
    _changes: list[Change] = field(default_factory=list)

    def open(self) -> None:
        """Get hold of the shard."""
        self._began = perf_counter()
        self._here = self._open()

    def work(self) -> None:
        """Do the work, and write nothing."""
        here = self._here
        self._before = here.shard.passage.events, here.shard.partial
        self._notices, self._carried, self._log = self._work(here)
        self._merge(here)
        self._lap("merge")

    def _merge(self, here: DurableShard) -> None:
        """Merge segments here and now: another process may have the shard next."""
        while (due := here.shard.upkeep.due_merge()) is not None:
            try:
                merged = due.run()
            except Exception as error:  # answers do not need it: a later batch tries again
                FAILED_MERGES.note(due.kind, error)
                here.shard.upkeep.abandon(due)
                return
            here.shard.upkeep.install(due, merged)

    def commit(self, quarantined: dict[tuple[str, str], str]) -> Output:
        """Write what the work changed."""
        here = self._here
        letters = here.shard.dead_letters.drain()
        events = here.shard.passage.events - self._before[0]
        partial = here.shard.partial.since(self._before[1])
        if self.job.is_wide(self.number):  # the shards of the keys tell of those
            letters, events, self._letters_carried = letters.slice(0, 0), 0, None
            partial = Partial()
        held_out = self._hold_out(quarantined)
        if self._recorder is not None and self.job.history is not None:
            keep(here.shard, self._recorder, self.job.history, self.number)
            self._lap("history")
        here.commit(self._log)
        self._lap("commit")
        return Output(
            self._notices,
            letters,
            self._carried,
            {**self._misfits, **quarantined},
            here.position,
            events,
            partial,
            here.shard.queries.living,
            here.found,
            self.seconds,
            letters_carried=self._letters_carried,
            held_out=held_out,
        )

    def _hold_out(self, failed: dict[tuple[str, str], str]) -> tuple[Quarantined, ...] | None:
        """Note which queries the shard runs without; None if there were none and are none.

        All of them are told with every batch: what tells the registry may have missed some.
        """
        here = self._here
        known = _KNOWN_OUT.get(here.shard, ()) if here.found == "kept" else None
        if known == () and not failed and not self.given.log:
            return None  # it is so in most batches: the store need not be read
        held_out = HeldOut(self.store)
        for change in self._changes:
            held_out.note(change)
        held_out.add(self._misfits, here.position, failed=False)
        held_out.add(failed, here.position, failed=True)
        held_out.save()
        _KNOWN_OUT[here.shard] = held_out.all()
        return held_out.all()

    def rehearse(self) -> None:
        """Do the work, and commit nothing."""
        self.open()
        self.work()

    def new_queries(self) -> list[tuple[str, str]]:
        """Return kind and id of the queries that come with this batch."""
        here = self._open()
        changes = [here.read(row) for row in self.given.log if row.payload]
        return [query for change in changes for query in queries_of(change)]

    def old_queries(self) -> list[tuple[str, str]]:
        """Return kind and id of the queries that were there before."""
        blocks = self._open().shard.queries.blocks()
        return [(block.kind, each) for block, _ in blocks for each in block.ids.to_pylist()]

    def _open(self) -> DurableShard:
        here = DurableShard.open(self.job, self.number, self.store)
        here.shard.dead_letters.most = None  # they leave with the batch
        self._lap("open")
        return here

    def _work(self, here: DurableShard) -> tuple[pa.Table, pa.Table | None, list[LogPart]]:
        log = self._apply(here)
        self._lap("changes")
        blobs = [
            (packed, part if isinstance(part, Unpacked) else unpack(part, *self._types()))
            for packed, part in self.given.events
        ]
        # By source first: a source may number its partitions otherwise when a batch is done again.
        blobs.sort(key=lambda pair: (first_source(pair[1].metadata), pair[0]))
        parts = [part for _, part in blobs]
        order = order_of([(part.metadata, len(part.arrivals), part.offset) for part in parts])
        self._lap("unpack")
        first = here.shard.arrived
        if self.job.history is not None:
            self._recorder = record(here.shard, self.job.history, self.number)
        notices = here.shard.process_parts([part.arrivals for part in parts], order)
        if (
            here.shard.queries.ended
        ):  # by themselves: the registry does not know, but the state must
            ended = Deregister(pa.array(sorted(here.shard.queries.ended), pa.string()))
            log += [(name, data) for name, _, data in encode_change(ended, self.job.stream)]
            here.shard.queries.ended.clear()
        carried = None
        if here.shard.passage.accepted is not None:
            columns = [part.carried for part in parts if part.carried.num_columns]
            here.carried.arrive(first, columns)
            letters = here.shard.dead_letters.table()
            self._letters_carried = here.carried.of_arrivals(np.asarray(letters["position"]))
            held, names = here.shard.held_arrivals, here.shard.key_names
            earlier = here.shard.earlier_events
            carried = here.carried.step(notices, here.shard.passage.accepted, held, names, earlier)
        self._lap("events")
        return notices, carried, log

    def _types(self) -> tuple[Stream, pa.DataType]:
        return self.job.stream, self.job.time_type

    def _apply(self, here: DurableShard) -> list[LogPart]:
        """Apply the log, and return what of it is to be kept."""
        log: list[LogPart] = []
        for row in sorted(self.given.log, key=lambda row: (row.position, row.number)):
            if row.payload:
                part = row.operation, row.payload
                change = here.read(row)
                self._changes.append(change)
                misfits = {} if leaves(change) else self._misfits_in(change)
                self._misfits |= misfits
                left_out = self.left_out | {query_id for _, query_id in misfits}
                if left_out:
                    # What they were to replace ends all the same.
                    ended = Deregister(pa.array(sorted(each for _, each in misfits), pa.string()))
                    for each in (without(change, left_out), ended):
                        for operation, _, payload in encode_change(each, self.job.stream):
                            log.append((operation, payload))
                            here.apply(operation, payload)
                else:
                    if not fill(here.shard, change, self.job.history, self.number):
                        here.apply_change(change)
                    log.append(part)
            here.position = max(here.position, row.position + row.count)
        if self.left_out:
            for operation, _, payload in encode_change(
                Deregister(pa.array(sorted(self.left_out), pa.string())), self.job.stream
            ):
                log.append((operation, payload))
                here.apply(operation, payload)
        here.shard.queries.settle()
        return log

    def _misfits_in(self, change: Change) -> dict[tuple[str, str], str]:
        """Return the queries of a change that can't run in this shard, with the reason."""
        misfits = wrong_keys(change, self.job.key_type) | strangers(change, self.job.stream)
        if self.job.stream.key is not None and not self.job.is_wide(self.number):
            misfits |= across_keys(change)
        return misfits | joins(change)

    def _lap(self, name: str) -> None:
        now = perf_counter()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self._began
        self._began = now

    _began: float = 0.0
    _recorder: History | None = None
    _letters_carried: pa.Table | None = None
