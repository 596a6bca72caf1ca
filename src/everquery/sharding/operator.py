"""One batch of one shard: packed rows in, notices out."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from time import perf_counter
from weakref import WeakKeyDictionary

import pyarrow as pa

from everquery.history.history import History
from everquery.queries.changes import Change, Deregister
from everquery.registry.codec import encode_change
from everquery.registry.quarantined import Quarantined
from everquery.registry.rows import LogRow
from everquery.registry.strangers import strangers
from everquery.shard import Shard
from everquery.sharding.durable import DurableShard
from everquery.sharding.job import Job
from everquery.sharding.journal import Store
from everquery.sharding.logged_queries import LogPart
from everquery.sharding.packing import Unpacked, unpack
from everquery.sharding.quarantine import HeldOut, Quarantine
from everquery.sharding.references import Counts, PastEvents, Reference
from everquery.sharding.routing import across_keys, joins, leaves, queries_of, without, wrong_keys
from everquery.sharding.shard_history import fill, keep, record
from everquery.sharding.spans import Spans
from everquery.sharding.taking import in_order, merge, take
from everquery.state.partial import Partial
from everquery.stream import Stream

# The queries that live shards were without when they were last committed. Arrays that are kept have
# proof that they are as of then.
_KNOWN_OUT: WeakKeyDictionary[Shard, tuple[Quarantined, ...]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Input:
    """What one shard gets in a batch.

    Attributes
    ----------
    log : the parts of the registry's log, in any order
    events : pairs of where events were packed, which sorts, and the blob or the events themselves;
        in any order
    spans : Spans, optional
        Where all of the events can be read again; None if they can't.
    """

    log: Sequence[LogRow]
    events: Sequence[tuple[tuple[int, ...], bytes | pa.Buffer | Unpacked]]
    spans: Spans | None = None


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


def run_batch(
    job: Job, number: int, given: Input, store: Store, past: PastEvents | None = None
) -> Output:
    """Take a shard from one version to the next.

    A query that makes the work fail is taken out, and the others go on. Only a few queries are: if
    it were many, the error would be ours (`everquery.sharding.quarantine`). Nothing is written
    before all work is done, so failed work leaves no trace. An error while the store is read or
    written is no query's fault and fails the batch: the runtime runs it again from the same store.

    Parameters
    ----------
    past : PastEvents, optional
        What reads the events of earlier batches, for a state that refers to them.
    """
    batch = _Batch(job, number, given, store, past)
    batch.open()
    reasons: dict[tuple[str, str], str] = {}
    try:
        batch.work()
    except Exception as error:  # whatever a query may cause; what it can't is raised again
        quarantine = Quarantine(
            error,
            lambda ids: _Batch(job, number, given, store, past, ids).rehearse(),
            already=HeldOut(store).failed,
        )
        first = _Batch(job, number, given, store, past)
        reasons = quarantine.culprits(first.new_queries(), first.old_queries)
        batch = _Batch(job, number, given, store, past, frozenset(each for _, each in reasons))
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
    past: PastEvents | None = None
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
        self._partial_before = here.shard.partial
        self._log = self._work(here)
        merge(here.shard)
        self._lap("merge")

    def commit(self, quarantined: dict[tuple[str, str], str]) -> Output:
        """Write what the work changed."""
        here, taken = self._here, self._taken
        letters, letters_carried = here.shard.dead_letters.drain(), taken.letters_carried
        events = taken.accepted
        partial = here.shard.partial.since(self._partial_before)
        if self.job.is_wide(self.number):  # the shards of the keys tell of those
            letters, events, letters_carried = letters.slice(0, 0), 0, None
            partial = Partial()
        held_out = self._hold_out(quarantined)
        if self._recorder is not None and self.job.history is not None:
            keep(here.shard, self._recorder, self.job.history, self.number)
            self._lap("history")
        here.commit(self._log, self._reference())
        self._lap("commit")
        return Output(
            taken.notices,
            letters,
            taken.carried,
            {**self._misfits, **quarantined},
            here.position,
            events,
            partial,
            here.shard.queries.living,
            here.found,
            self.seconds,
            letters_carried=letters_carried,
            held_out=held_out,
        )

    def _reference(self) -> Reference | None:
        """Return the batch by reference; None if it is to be written as what it changed."""
        spans, events = self.given.spans, self.given.events
        if not self.job.by_reference or self._filled or (events and spans is None):
            return None
        where = Spans(spans.names, (), spans.clock) if spans and events else Spans([])
        return Reference(where, self._applied, Counts.of(self._taken, self._here.shard))

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
        here = DurableShard.open(self.job, self.number, self.store, self.past)
        here.shard.dead_letters.most = None  # they leave with the batch
        self._lap("open")
        return here

    def _work(self, here: DurableShard) -> list[LogPart]:
        """Take in the log and the events; return what of the log is to be kept."""
        log = self._apply(here)
        self._applied = len(log)
        self._lap("changes")
        blobs = [
            (packed, part if isinstance(part, Unpacked) else unpack(part, *self._types()))
            for packed, part in self.given.events
        ]
        parts, order = in_order(blobs)
        self._lap("unpack")
        if self.job.history is not None:
            self._recorder = record(here.shard, self.job.history, self.number)
        self._taken = take(here.shard, here.carried, parts, order)
        ended = here.shard.queries.ended
        if ended:  # by themselves: the registry does not know, but the state must
            change = Deregister(pa.array(sorted(ended), pa.string()))
            log += [(name, data) for name, _, data in encode_change(change, self.job.stream)]
            ended.clear()
        self._lap("events")
        return log

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
                    if fill(here.shard, change, self.job.history, self.number):
                        self._filled = True
                    else:
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
    _filled: bool = False  # from the past, which a replay would find longer
