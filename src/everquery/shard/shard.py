"""A shard: changes and events in, notices out. No I/O, no clock, no global state."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa

from everquery.core.arrays import Array, Bools, Int32s, Int64s, Uint64s
from everquery.errors import (
    DuplicateQueryError,
    InvalidBatchError,
    InvalidQueryError,
    UnknownQueryError,
)
from everquery.index.flags import DIVERTED, NEW, OPTION_FLAGS, PAUSED
from everquery.index.kind import Explained, KindIndex
from everquery.index.layers import Merge
from everquery.index.rows import (
    ANSWER,
    NO_KEY,
    PLACE_SHIFT,
    Crossings,
    Matches,
    Rows,
    Shape,
    Step,
    joined,
)
from everquery.kinds import KINDS
from everquery.queries import Quantile, Query, Threshold
from everquery.queries.block import QueryBlock, blocks_of_queries, check_fit
from everquery.queries.changes import (
    Change,
    Deregister,
    Pause,
    Register,
    RegisterBlocks,
    Resume,
)
from everquery.queries.spans import column_of_spans, misfit
from everquery.shard.notices import (
    Names,
    OutcomeTable,
    Told,
    answers_in_order,
    as_time,
    in_order,
    join_told,
    notice_schema,
    totals_in_order,
    write_notices,
)
from everquery.shard.tidying import StepRecord, tidied
from everquery.state.accepted import Accepted, Events, join_events
from everquery.state.admission import Admission
from everquery.state.catalog import Catalog
from everquery.state.dead_letters import DeadLetters, Letters
from everquery.state.events import FINE, LATE, Arrivals, decode
from everquery.state.hygiene import Hygiene
from everquery.state.keys import KeyTable, type_of_key
from everquery.stream import Stream

_KIND_NAMES = tuple(KINDS)
_OUTCOMES = OutcomeTable()

SWEEP = 10_000  # dropped queries after which segments are looked through for them
COMPACT = 100_000  # dropped queries after which their slots are given up


@dataclass(frozen=True, slots=True)
class DueMerge:
    """A merge of one kind's segments that may run in another thread."""

    kind: str
    merge: Merge[Any]

    def run(self) -> Any:  # noqa: ANN401 - the kind's segment type, which only the kind knows
        """Return the merged segment."""
        return self.merge.run()


class Shard:
    """The queries and the state of one part of the work.

    Parameters
    ----------
    stream : Stream
    labelled : bool
        Whether notices tell the owner and the labels of their queries.
    keep_accepted : bool
        Keep the accepted events of the last batch in `accepted`.
    """

    def __init__(
        self, stream: Stream, *, labelled: bool = False, keep_accepted: bool = False
    ) -> None:
        self.stream = stream
        self.catalog = Catalog()
        self.keys = KeyTable(len(stream.attributes), keyed=stream.key is not None)
        self.admission = Admission(stream, self.keys)
        self.dead_letters = DeadLetters(stream)
        self.hygiene = Hygiene(len(stream.attributes) + len(ANSWER))
        self.labelled = labelled
        self.ended: set[str] = set()  # queries that ended here, and still live in the log
        self.quotas: dict[str | None, int] = {}  # where no registry has them
        self.indexes: dict[str, KindIndex] = {name: kind.index() for name, kind in KINDS.items()}
        self.events = 0
        self.notices = 0
        self.accepted: Events | None = None
        self.tells_all_ends = True  # also of queries for all keys, which other shards have too
        self._keep_accepted = keep_accepted
        self._waiting: dict[str, Query] = {}
        self._waiting_owners: Counter[str] = Counter()
        self._pending: defaultdict[tuple[str, Shape], list[Rows]] = defaultdict(list)
        self._new: list[Int32s] = []
        self._sweep_at = SWEEP
        self.torn = False  # whether something failed while state was changing

    # -- changes ------------------------------------------------------------------------------

    def apply(self, change: Change, *, following: bool = False) -> None:
        """Change the query set; it takes effect before the next batch.

        Parameters
        ----------
        following : bool
            The change is read from a log, which does not know yet of all queries that ended here,
            and may name some that a repair has lost.

        Raises
        ------
        DuplicateQueryError, UnknownQueryError
            If an id is live already, or is not; nothing has changed then.
        """
        match change:
            case Register():
                self._wait(change.queries, following=following)
            case RegisterBlocks():
                self._number_waiting()
                self._register(change.blocks)
            case Deregister():
                ids = self._known(change.ids, told=True) if following else change.ids
                self._drop(np.unique(self._slots_of(ids)))
            case Pause():
                ids = self._known(change.ids) if following else change.ids
                self._pause(self._slots_of(ids))
            case Resume():
                ids = self._known(change.ids) if following else change.ids
                self._resume(self._slots_of(ids))

    def _pause(self, slots: Int32s) -> None:
        for kind, index in self.indexes.items():
            index.pause(self.of_kind(slots, kind))
        self.catalog.pause(slots)
        self.hygiene.pause(slots)

    def of_kind(self, slots: Int32s, kind: str) -> Int32s:
        """Return the slots of queries of a kind."""
        found: Int32s = slots[self.catalog.kind[slots] == _KIND_NAMES.index(kind)]
        return found

    def _drop(self, slots: Int32s) -> None:
        quantiles = self.of_kind(slots, Quantile.kind)
        if quantiles.size:
            self.settle()  # who came before a lane's last query left keeps the lane going
            self.indexes[Quantile.kind].drop(quantiles)
        self.catalog.drop(slots)
        self.hygiene.drop(slots)

    def _known(self, ids: pa.Array, *, told: bool = False) -> pa.Array:
        """Return ids of a log without those that are not live here.

        They are of queries that ended here before the log said so, or that were registered in a
        row of the log that is lost.
        """
        ids = self._not_ended(ids, told=told)
        try:
            self._slots_of(ids)
        except UnknownQueryError:
            return ids.filter(pa.array(self.live(ids)))
        return ids

    def _not_ended(self, ids: pa.Array, *, told: bool = False) -> pa.Array:
        """Return ids without those of queries that ended here before the log said so."""
        if not self.ended:
            return ids
        names = ids.to_pylist()
        kept = [name for name in names if name not in self.ended]
        if told:
            self.ended.difference_update(names)
        return pa.array(kept, pa.string())

    def check(self, change: Change) -> None:
        """Raise what `apply` would raise, and change no query."""
        match change:
            case Register():
                self._fresh(change.queries)
            case RegisterBlocks():
                self._number_waiting()
                self._check_blocks(change.blocks)
            case Deregister() | Pause() | Resume():
                self._slots_of(change.ids)

    def live(self, ids: pa.Array) -> Bools:
        """Tell which ids are those of live queries."""
        self._number_waiting()
        return self.catalog.live(ids)

    def live_of(self, owner: str) -> int:
        """Return how many live queries an owner has."""
        return self.catalog.live_of(owner) + self._waiting_owners[owner]

    def _slots_of(self, ids: pa.Array) -> Int32s:
        # Ending one query must not cost a bulk step for others that wait.
        if self._waiting and (len(ids) != 1 or ids[0].as_py() in self._waiting):
            self._number_waiting()
        return self.catalog.slots(ids)

    def _wait(self, queries: tuple[Query, ...], *, following: bool) -> None:
        """Check queries, and let them wait to be numbered and indexed together."""
        self._waiting.update(self._fresh(queries, following=following))
        self._waiting_owners.update(query.owner for query in queries if query.owner is not None)
        for query in queries:
            if query.key is not None and self.keys.type is None:
                self.keys.type = type_of_key(query.key)

    def _fresh(self, queries: tuple[Query, ...], *, following: bool = False) -> dict[str, Query]:
        """Return queries by id; raise if one does not fit or is not new."""
        fresh: dict[str, Query] = {}
        key_type = self.keys.type
        for query in queries:
            check_fit(query, self.stream)
            if not following and self.admission.time_type is not None:
                _check_spans(query, self.admission.time_type)
            if query.key is not None:
                key_type = self.keys.check_query_key(query.key, key_type)
            if query.id in fresh:
                raise InvalidQueryError(f"the id {query.id!r} occurs twice; nothing is registered")
            if query.id in self._waiting or self.catalog.is_live(query.id):
                raise already_live(query.id)
            fresh[query.id] = query
        return fresh

    def _number_waiting(self) -> None:
        if self._waiting:
            waiting, self._waiting = self._waiting, {}
            try:
                self._register(blocks_of_queries(list(waiting.values()), self.stream))
            except BaseException:
                self._waiting = {**waiting, **self._waiting}  # nothing that was taken is lost
                raise
            self._waiting_owners.clear()

    def _check_blocks(self, blocks: tuple[QueryBlock, ...]) -> None:
        for block in blocks:
            taken = self.catalog.live(block.ids)
            if taken.any():
                raise already_live(block.ids[int(np.argmax(taken))].as_py())
            if block.keys is not None:
                self.keys.check_query_keys(block.keys)

    def _register(self, blocks: tuple[QueryBlock, ...]) -> None:
        self._check_blocks(blocks)
        with self._changing():
            self._number(blocks)

    def _number(self, blocks: tuple[QueryBlock, ...]) -> None:
        """Give queries their slots, and note what they say."""
        numbers = [
            np.full(len(block), NO_KEY, np.int32)
            if block.keys is None
            else self.keys.number_of(block.keys)
            for block in blocks
        ]
        for block, key, slot in zip(blocks, numbers, self._slots(blocks), strict=True):
            self.catalog.describe(
                slot,
                kind=_KIND_NAMES.index(block.kind),
                seeds=self._seeds(block),
                keys=block.keys,
                low=block.low,
                high=block.high,
                options=block.options,
                numbers=block.numbers,
            )
            self.indexes[block.kind].describe(slot, block.numbers)
            self.catalog.belong(slot, block.owner, block.labels)
            if block.spans:
                self._note_spans(slot, block, key)
            shape = Shape(block.attributes, block.keys is not None)
            self._pending[block.kind, shape].append(Rows(shape, slot, key, block.low, block.high))
            self._new.append(slot)

    def _note_spans(self, slot: Int32s, block: QueryBlock, key: Int32s) -> None:
        home = np.zeros_like(key) if self.stream.key is None else key
        self.hygiene.rules.add(slot, block.spans, home)
        # Of those that only end, notices need no detour before the step in which they do.
        rest = [column.given() for name, column in block.spans.items() if name != "ttl"]
        if rest:
            self.catalog.flags[slot[np.any(rest, axis=0)]] |= DIVERTED
        kind = self.admission.time_type
        if kind is not None:
            self.hygiene.rules.read(kind, self.admission.newest)

    def _slots(self, blocks: tuple[QueryBlock, ...]) -> list[Int32s]:
        """Return slots for all rows of all blocks, ascending in the order that they came in."""
        if len(blocks) == 1:
            return [self.catalog.add(blocks[0].ids)]
        if not blocks:
            return []
        order = np.argsort(np.concatenate([block.row for block in blocks]), kind="stable")
        ids = pa.concat_arrays([block.ids for block in blocks])
        slots = np.empty(order.size, np.int32)
        slots[order] = self.catalog.add(ids.take(pa.array(order)))
        return np.split(slots, np.cumsum([len(block) for block in blocks])[:-1])

    def _seeds(self, block: QueryBlock) -> Uint64s:
        """Return a number for each attribute of a block that stands for its name and the kind."""
        words = (f"{block.kind} {self.stream.attributes[a]}" for a in block.attributes)
        hashes = [blake2b(word.encode(), digest_size=8).digest() for word in words]
        return np.array([int.from_bytes(digest) for digest in hashes], np.uint64)

    def _resume(self, slots: Int32s) -> None:
        resumed = self.catalog.resume(slots)
        self._new.append(resumed)
        self.settle()
        for kind, index in self.indexes.items():
            wanted = self.of_kind(resumed, kind)
            index.resume(wanted)
            for rows in index.layers.find(wanted):
                index.revive(rows)

    def settle(self) -> None:
        """Put pending registrations into the indexes."""
        self._number_waiting()
        pending = list(self._pending.items())
        self._pending.clear()
        for (kind, _), parts in pending:
            rows = (parts[0] if len(parts) == 1 else joined(parts)).without_dropped(
                self.catalog.flags
            )
            if len(rows):
                self.indexes[kind].add(rows, self.catalog.flags)

    # -- events -------------------------------------------------------------------------------

    def process(self, batch: pa.RecordBatch | pa.Table) -> pa.Table:
        """Take in a batch of events; return the notices that it and the changes before it cause.

        Raises
        ------
        InvalidBatchError
            If a column is missing or of a wrong type; nothing has changed then.
        """
        return self.process_parts([decode(batch, self.stream)])

    def process_parts(self, parts: Sequence[Arrivals], order: Int64s | None = None) -> pa.Table:
        """Take in a batch that is decoded already, in parts that arrived in this order.

        Parameters
        ----------
        order : int64, optional
            The order in which the rows of all parts, one behind the other, are to be taken.
        """
        self._number_waiting()  # lives begin before the events
        for arrivals in parts:
            self.keys.check(arrivals.key)
            self.admission.check_time(arrivals.time_type)
            self._check_spans(arrivals.time_type)
            self.set_time_type(arrivals.time_type)
        with self._changing():
            return self._step(self._arrived(parts, order))

    def _arrived(self, parts: Sequence[Arrivals], order: Int64s | None) -> Events:
        """Return the good rows of all parts as one, in order."""
        first = self.admission.arrived
        arrived = [self._arrive(arrivals) for arrivals in parts]
        if len(arrived) != 1:
            arrived = [join_events([self.admission.no_events(), *arrived])]
        events = arrived[0]
        if order is not None:
            rank = np.empty(order.size, np.int64)
            rank[order] = np.arange(order.size)
            events = events.take(np.argsort(rank[events.arrived - first]))
        return events

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Note if something fails in between: then nobody knows what has changed, and what not."""
        try:
            yield
        except BaseException:
            self.torn = True
            raise

    def _check_spans(self, kind: pa.DataType) -> None:
        """Raise if a query's spans can't be told in times of this type."""
        if self.stream.time is None or not self.hygiene.active or pa.types.is_null(kind):
            return
        found = self.hygiene.rules.misfit(kind)
        if found is not None:
            slot, reason = found
            raise InvalidBatchError(
                f"query {self.catalog.names.strings()[slot].as_py()!r}: {reason}. Deregister it;"
                " until then batches are refused whole"
            )

    def set_time_type(self, kind: pa.DataType) -> None:
        """Fix the type of the stream's times, once it is known."""
        known = self.admission.time_type
        self.admission.set_time_type(kind)
        found = self.admission.time_type
        if known is None and found is not None:
            self.hygiene.set_time_type(found, self.admission.dtype())

    def advance(self, newest: int | float) -> pa.Table:
        """Move the newest time seen without an event; return the notices that this causes."""
        self._number_waiting()  # lives begin before time moves
        with self._changing():
            self.admission.advance(newest)
            return self._step(self.admission.no_events())

    def flush(self) -> pa.Table:
        """Let out everything that the grace holds back; return the notices."""
        self.admission.flushing = True
        try:
            with self._changing():
                return self._step(self.admission.no_events())
        finally:
            self.admission.flushing = False

    def expire(self, keys: Int32s) -> pa.Table:
        """Forget keys now; return their leaves."""
        with self._changing():
            announced = self._announce()
            nothing = self.admission.accept_nothing()
            keys = keys[self.keys.seen[keys] != 0]
            when = self.keys.last_time[keys]
            return self._finish(announced, nothing, [], keys, when)

    def _step(self, arrivals: Events) -> pa.Table:
        announced = self._announce()
        accepted = self.admission.admit(arrivals)
        self._refuse_late(accepted.late)
        answered = self._answer(accepted)
        self.admission.remember(accepted)
        self.events += accepted.grouped.position.size
        if self._keep_accepted:
            self.accepted = accepted.events.take(accepted.grouped.position >> 1)
        return self._finish(announced, accepted, answered, *self.admission.silent_keys())

    def _finish(
        self,
        announced: list[Told],
        accepted: Accepted,
        answered: list[Told],
        silent_key: Int32s,
        silent_time: Array,
    ) -> pa.Table:
        """Let silent keys expire, apply the rules of queries, and return the notices."""
        silent = self._expire(silent_key, silent_time)
        done = np.concatenate([index.done() for index in self.indexes.values()])
        if not self.hygiene.active:
            self._note_ended(done)
            return self._write([*announced, *answered, *silent])
        self.begin_lives()
        limit = self.admission.now
        keys = len(self.keys)
        step = StepRecord(
            announced,
            answered,
            silent,
            accepted,
            silent_key,
            silent_time,
            limit,
            keys,
            done,
            self.tells_all_ends,
        )
        told, ended = tidied(step, self.hygiene, self.catalog.kind, self.catalog.flags, _OUTCOMES)
        self._note_ended(ended)
        return self._write(told)

    def _note_ended(self, ended: Int32s) -> None:
        """Drop queries that have ended by themselves."""
        if ended.size:
            self.ended.update(self.catalog.names.strings().take(pa.array(ended)).to_pylist())
            self._drop(ended)

    def begin_lives(self) -> None:
        """Let the lives of queries begin that waited for the first event, if it has come."""
        rules, kind = self.hygiene.rules, self.admission.time_type
        began = self.admission.began
        if rules.waits_for_first_event and began is not None and kind is not None:
            rules.begin(kind, began)

    def _arrive(self, arrivals: Arrivals) -> Events:
        n = len(arrivals)
        first = self.admission.arrived
        self.admission.arrived += n
        key, time, values, weight = arrivals.key, arrivals.time, arrivals.values, arrivals.weight
        position = np.arange(first, first + n)
        if arrivals.refused.any():
            self._refuse(arrivals, position)
            good = np.flatnonzero(arrivals.refused == FINE)
            key = None if key is None else key.take(pa.array(good))
            time = None if time is None else time[good]
            values = np.ascontiguousarray(values[:, good])
            weight = None if weight is None else weight[good]
            position = position[good]
        numbers = self.keys.numbers(key, position.size)
        return self.admission.arrivals(
            numbers, time, values, weight, position, arrivals.oldest, arrivals.newest
        )

    def _refuse(self, arrivals: Arrivals, position: Int64s) -> None:
        bad = np.flatnonzero(arrivals.refused != FINE)
        where = pa.array(bad)
        key = pa.nulls(bad.size, pa.string()) if arrivals.key is None else arrivals.key.take(where)
        if pa.types.is_dictionary(key.type):
            key = key.dictionary_decode()
        time = np.zeros(bad.size, np.int64) if arrivals.time is None else arrivals.time[bad]
        self.dead_letters.add(
            Letters(
                position[bad],
                arrivals.refused[bad],
                arrivals.culprit[bad],
                key,
                self._as_time(time),
                arrivals.values[:, bad],
                None if arrivals.text is None else arrivals.text.take(where),
            )
        )

    def _refuse_late(self, late: Events) -> None:
        if len(late):
            self.dead_letters.add(
                Letters(
                    late.arrived,
                    np.full(len(late), LATE, np.uint8),
                    np.full(len(late), -1, np.int8),
                    self.keys.arrow().take(pa.array(late.key)),
                    self._as_time(late.time),
                    late.values,
                )
            )

    # -- notices ------------------------------------------------------------------------------

    def _announce(self) -> list[Told]:
        """Return what the keys in sight mean for new and resumed queries."""
        self.settle()
        if not self._new:
            return []
        seen = np.flatnonzero(self.keys.seen[: len(self.keys)]).astype(np.int32)
        events = self.admission.last_events(seen)
        told = self._ask("announce", events)
        self.catalog.announced(np.concatenate(self._new))
        self._new = []
        return told

    def _expire(self, keys: Int32s, when: Array) -> list[Told]:
        """Forget keys, and return what it means that they are gone since then."""
        if not keys.size:
            return []
        told = self._ask("expire", replace(self.admission.last_events(keys), time=when))
        self.keys.seen[keys] = 0
        return told

    def _ask(self, question: str, events: Events) -> list[Told]:
        """Return what each kind answers about keys, given by their last events."""
        found: list[tuple[int, Matches | Crossings]] = []
        for kind, index in self.indexes.items():
            part = getattr(index, question)(events.key, events.values, self.catalog.flags)
            if part is not None and part.keys.size:
                # The index gives rows; a position is twice the row, plus one.
                position = (part.keys >> PLACE_SHIFT) * 2 + 1
                keys = position << PLACE_SHIFT | (part.keys & ((1 << PLACE_SHIFT) - 1))
                found.append((_OUTCOMES.first[kind], Crossings(keys)))
        if not found:
            return []
        ordered = in_order(len(events), np.empty(0, np.int64), found)
        return [Told(ordered, ordered.keys >> 33, events)]

    def _answer(self, accepted: Accepted) -> list[Told]:
        """Return what the accepted events mean."""
        step = Step(
            accepted.grouped,
            accepted.fresh,
            self.keys.seen,
            self.keys.last,
            self.catalog.flags,
            self.catalog.all_live,
            accepted.events.weight,
        )
        found = [
            (_OUTCOMES.first[kind], part)
            for kind, index in self.indexes.items()
            for part in index.process(step)
        ]
        if not found:
            return []
        rows = len(accepted.events) - accepted.expired_row.size
        ordered = in_order(rows, accepted.grouped.position, found)
        position = ordered.keys >> 32
        row = position >> 1
        if accepted.expired_row.size:
            ended = rows + np.searchsorted(accepted.expired_row, row)
            row = np.where(position & 1 == 0, ended, row)
        totals, answers = totals_in_order(ordered, found), answers_in_order(ordered, found)
        return [Told(ordered, row, accepted.events, totals=totals, answers=answers)]

    def _write(self, told: list[Told]) -> pa.Table:
        if not told:
            return self.schema().empty_table()
        all_told = join_told(told)
        names = Names(
            self.catalog.names.strings(),
            self.keys.arrow(),
            self.catalog.digests(all_told.ordered.keys & 0xFFFFFFFF),
            self.keys.digests(all_told.events.key[all_told.row].astype(np.int64)),
            self.catalog.texts.strings(),
            self.catalog.owner,
            self.catalog.labels,
        )
        self.notices += all_told.row.size
        rounds = None
        if all_told.totals is not None:
            rounds = self._rounds(all_told.ordered.keys & 0xFFFFFFFF, all_told.totals)
        return write_notices(all_told, names, _OUTCOMES, self.schema(), rounds)

    def _rounds(self, slots: Int64s, totals: Int64s) -> Int64s:
        """Return how many times what each query asked for its total covers; 0 without one."""
        told = np.flatnonzero(totals)
        asked = self.indexes[Threshold.kind].numbers(slots[told].astype(np.int32))["total"]
        rounds = np.zeros_like(totals)
        rounds[told] = totals[told] // asked
        return rounds

    def schema(self) -> pa.Schema:
        """Return the schema of the notices."""
        return notice_schema(
            self.stream,
            self.admission.time_type or pa.null(),
            pa.string() if self.keys.type in (None, pa.null()) else self.keys.type,
            labelled=self.labelled,
        )

    def _as_time(self, times: Array) -> pa.Array:
        return as_time(times, self.admission.time_type or pa.null())

    # -- upkeep -------------------------------------------------------------------------------

    def due_merge(self) -> DueMerge | None:
        """Return a large merge to be run off the hot path, or None."""
        flags = self.catalog.flags
        sweeping = self.catalog.dropped >= self._sweep_at
        for kind, index in self.indexes.items():
            merge = index.layers.due_merge(flags)
            if merge is None and sweeping:
                merge = index.layers.due_sweep(flags)
            if merge is not None:
                return DueMerge(kind, merge)
        if sweeping:  # nothing left to sweep; look again after as many drops as half of what lives
            living = len(self.catalog) - self.catalog.dropped
            self._sweep_at = self.catalog.dropped + max(SWEEP, living // 2)
        return None

    def compact(self) -> None:
        """Forget dropped queries for good, where they outnumber the others by far."""
        living = len(self.catalog) - self.catalog.dropped
        if self.catalog.dropped < max(COMPACT, 2 * living):
            return
        self.settle()
        slots = self.catalog.compact()
        for index in self.indexes.values():
            index.renumber(slots)
        self.hygiene.renumber(slots)
        self.announce_again()
        self._sweep_at = 1

    def install(self, due: DueMerge, merged: Any) -> None:  # noqa: ANN401 - the kind's segment type
        """Put the result of a merge in the place of its parts."""
        self.indexes[due.kind].layers.install(due.merge, merged)

    def abandon(self, due: DueMerge) -> None:
        """Give up a merge that failed; its parts stay as they are."""
        self.indexes[due.kind].layers.abandon(due.merge)

    def explain(self, query_id: str) -> tuple[str, Explained]:
        """Return the kind of a live query, and how it is evaluated."""
        self.settle()
        slot = int(self._slots_of(pa.array([str(query_id)], pa.string()))[0])
        kind = _KIND_NAMES[self.catalog.kind[slot]]
        explained = self.indexes[kind].explain(slot)
        if explained is None:
            raise UnknownQueryError(f"query {query_id!r} is in no index")
        return kind, explained

    def progress(self, query_id: str) -> int:
        """Return how much weight a live threshold query has seen."""
        slots = self._slots_of(pa.array([str(query_id)], pa.string()))
        kind = _KIND_NAMES[self.catalog.kind[slots[0]]]
        if kind != Threshold.kind:
            raise InvalidQueryError(
                f"query {query_id!r} is a {kind} query; only threshold queries make progress"
            )
        index = self.indexes[kind]
        total, left = index.numbers(slots)["total"], index.state(slots)["left"]
        return int(total[0] - left[0])

    def blocks(self) -> Iterator[tuple[QueryBlock, Int32s]]:
        """Yield all queries that are not dropped, with their slots."""
        self.settle()
        ids, keys = self.catalog.names.strings(), self.keys.arrow()
        for kind, index in self.indexes.items():
            for rows in index.rows(self.catalog.flags):
                flags = self.catalog.flags[rows.slot]
                block = QueryBlock(
                    kind=kind,
                    row=rows.slot.astype(np.int64),
                    ids=ids.take(pa.array(rows.slot)),
                    keys=keys.take(pa.array(rows.key)) if rows.shape.keyed else None,
                    attributes=rows.shape.attributes,
                    low=rows.low,
                    high=rows.high,
                    options={
                        name: flags & OPTION_FLAGS[name] != 0 for name in KINDS[kind].spec.options
                    },
                    owner=self.catalog.texts_of("owner", rows.slot),
                    labels=self.catalog.texts_of("labels", rows.slot),
                    spans=self.hygiene.rules.spans(rows.slot, KINDS[kind].spec.spans),
                    numbers=index.numbers(rows.slot),
                )
                yield block, rows.slot

    def live_ids(self) -> pa.Array:
        """Return the ids of all live queries, paused ones included, in order of registration."""
        self._number_waiting()
        live = np.flatnonzero(self.catalog.flags[: len(self.catalog)])
        return self.catalog.names.strings().take(pa.array(live))

    def paused_ids(self) -> pa.Array:
        """Return the ids of all paused queries."""
        flags = self.catalog.flags[: len(self.catalog)]
        return self.catalog.names.strings().take(pa.array(np.flatnonzero(flags & PAUSED)))

    # -- what other runtimes and snapshots set -------------------------------------------------

    def has_announced(self) -> None:
        """Take it that all announcements that are due were made elsewhere."""
        self.settle()
        if self._new:
            self.catalog.announced(np.concatenate(self._new))
            self._new = []
        for index in self.indexes.values():
            index.forget_announcements()

    def announce_again(self) -> None:
        """Take up the announcements that are still due from the flags of the queries."""
        new = np.flatnonzero(self.catalog.flags[: len(self.catalog)] & NEW).astype(np.int32)
        self._new = [new] if new.size else []
        for index in self.indexes.values():
            index.forget_announcements()
            for rows in index.layers.find(new):
                index.revive(rows)


def _check_spans(query: Query, kind: pa.DataType) -> None:
    """Raise if a query's spans can't be told in times of this type."""
    for name in query.spans:
        column = column_of_spans([getattr(query, name)])
        if column is not None and column.in_units(kind)[1][0]:
            raise InvalidQueryError(
                f"query {query.id!r}: {misfit(name, getattr(query, name), kind)}"
            )


def already_live(query_id: str) -> DuplicateQueryError:
    """Return the error for an id that is taken."""
    return DuplicateQueryError(
        f"a query with the id {query_id!r} is live already; deregister it first,"
        " or choose another id"
    )
