"""The queries of a shard: what changes do to them before the next events."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from everquery.core.arrays import Bools, Int32s
from everquery.errors import InvalidQueryError, UnknownQueryError
from everquery.index.flags import DIVERTED, NEW, PAUSED, REPLACED, SPANNED, option_flags
from everquery.index.rows import NO_KEY, Rows, Shape, joined
from everquery.index.sort_keys import check_slots
from everquery.kinds import KINDS
from everquery.queries import Query
from everquery.queries.block import TEXTS, QueryBlock, blocks_of_queries, check_fit
from everquery.queries.changes import Change, Deregister, Pause, Register, RegisterBlocks, Resume
from everquery.shard.contents import Contents
from everquery.shard.integrity import Integrity
from everquery.shard.new_queries import already_live, check_spans, seeds_of, slots_for
from everquery.shard.replacing import Compared, check_kinds, check_once, compare, hand_on, rows_of
from everquery.state.keys import type_of_key
from everquery.state.rules import SPANS

_ANY_FLAG = 0xFFFF


class QuerySet:
    """All queries of a shard.

    Single registrations wait, and are numbered and indexed together when something needs them.

    Parameters
    ----------
    contents : Contents
    integrity : Integrity
    """

    def __init__(self, contents: Contents, integrity: Integrity) -> None:
        self._contents = contents
        self._integrity = integrity
        self.ended: set[str] = set()  # queries that ended here, and still live in the log
        self._waiting: dict[str, Query] = {}
        self._waiting_owners: Counter[str] = Counter()
        self._pending: defaultdict[tuple[str, Shape], list[Rows]] = defaultdict(list)
        self._new: list[Int32s] = []
        self._leaving: list[Int32s] = []  # to end as soon as they are announced

    # -- changes ------------------------------------------------------------------------------

    def apply(self, change: Change, *, following: bool = False) -> None:
        """Change the query set; see `Shard.apply`."""
        match change:
            case Register(mode="register"):
                self._wait(change.queries, following=following)
            case RegisterBlocks(mode="register"):
                self.number_waiting()
                self._register(change.blocks)
            case Register() | RegisterBlocks():
                if not following:
                    self.check(change)
                blocks = self._blocks_of(change)
                self.leave(blocks) if change.mode == "leave" else self.replace(blocks)
            case Deregister():
                ids = self._known(change.ids, told=True) if following else change.ids
                slots = self.slots_of(ids)
                self.drop(slots if slots.size == 1 else np.unique(slots))
            case Pause():
                ids = self._known(change.ids) if following else change.ids
                self._pause(self.slots_of(ids))
            case Resume():
                ids = self._known(change.ids) if following else change.ids
                self._resume(self.slots_of(ids))

    def check(self, change: Change) -> None:
        """Raise what `apply` would raise, and change no query."""
        match change:
            case Register():
                self._fresh(change.queries, replacing=change.mode != "register")
                if change.mode != "register":
                    blocks = self._blocks_of(change)
                    check_kinds(blocks, self.compare(blocks), self._contents)
            case RegisterBlocks():
                self.number_waiting()
                self._check_blocks(change.blocks, replacing=change.mode != "register")
            case Deregister() | Pause() | Resume():
                self.slots_of(change.ids)

    def check_fit(self, queries: tuple[Query, ...]) -> None:
        """Raise if queries could not be here together, whatever their ids are."""
        self._fresh(queries, replacing=True)

    def end(self, slots: Int32s) -> None:
        """Drop queries that have ended by themselves."""
        if slots.size:
            names = self._contents.catalog.names.strings().take(pa.array(slots))
            self.ended.update(names.to_pylist())
            self.drop(slots)

    def drop(self, slots: Int32s) -> None:
        """End queries."""
        contents = self._contents
        by_kind = contents.by_kind(slots)
        if any(index.must_know_of_drops for index, _ in by_kind):
            self.settle()  # such an index must have all that were registered before
        for index, dropped in by_kind:
            index.drop(dropped)
        contents.catalog.drop(slots)
        contents.hygiene.drop(slots)

    def _pause(self, slots: Int32s) -> None:
        contents = self._contents
        for index, paused in contents.by_kind(slots):
            index.pause(paused)
            if index.predecessors is not None:
                index.predecessors.forget(paused)
        contents.catalog.pause(slots)
        contents.hygiene.pause(slots)

    def _resume(self, slots: Int32s) -> None:
        contents = self._contents
        resumed = contents.catalog.resume(slots)
        self._new.append(resumed)
        self.settle()
        for index, wanted in contents.by_kind(resumed):
            index.resume(wanted)
            for rows in index.layers.find(wanted):
                index.revive(rows)

    def _known(self, ids: pa.Array, *, told: bool = False) -> pa.Array:
        """Return ids of a log without those that are not live here.

        They are of queries that ended here before the log said so, or that were registered in a
        row of the log that is lost.
        """
        ids = self._not_ended(ids, told=told)
        try:
            self.slots_of(ids)
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

    # -- registration -------------------------------------------------------------------------

    def _wait(self, queries: tuple[Query, ...], *, following: bool) -> None:
        """Check queries, and let them wait to be numbered and indexed together."""
        self._waiting.update(self._fresh(queries, following=following))
        self._waiting_owners.update(query.owner for query in queries if query.owner is not None)
        keys = self._contents.keys
        for query in queries:
            if query.key is not None and keys.type is None:
                keys.type = type_of_key(query.key)

    def _fresh(
        self, queries: tuple[Query, ...], *, following: bool = False, replacing: bool = False
    ) -> dict[str, Query]:
        """Return queries by id; raise if one does not fit or is not new."""
        contents = self._contents
        fresh: dict[str, Query] = {}
        key_type, time_type = contents.keys.type, contents.admission.time_type
        for query in queries:
            check_fit(query, contents.stream)
            if not following and time_type is not None:
                check_spans(query, time_type)
            if query.key is not None:
                key_type = contents.keys.check_query_key(query.key, key_type)
            if query.id in fresh:
                raise InvalidQueryError(f"the id {query.id!r} occurs twice; nothing is registered")
            taken = query.id in self._waiting or contents.catalog.is_live(query.id)
            if taken and not replacing:
                raise already_live(query.id)
            fresh[query.id] = query
        check_slots(len(contents.catalog) + len(self._waiting) + len(fresh))
        return fresh

    def number_waiting(self) -> None:
        """Give the queries that wait their slots."""
        if self._waiting:
            waiting, self._waiting = self._waiting, {}
            try:
                self._register(blocks_of_queries(list(waiting.values()), self._contents.stream))
            except BaseException:
                self._waiting = {**waiting, **self._waiting}  # nothing that was taken is lost
                raise
            self._waiting_owners.clear()

    def _check_blocks(self, blocks: tuple[QueryBlock, ...], *, replacing: bool = False) -> None:
        contents = self._contents
        check_slots(len(contents.catalog) + sum(map(len, blocks)))
        if replacing:
            check_once(blocks)
            check_kinds(blocks, self.compare(blocks), contents)
        for block in blocks:
            taken = contents.catalog.live(block.ids)
            if taken.any() and not replacing:
                raise already_live(block.ids[int(np.argmax(taken))].as_py())
            if block.keys is not None:
                contents.keys.check_query_keys(block.keys)

    def _register(self, blocks: tuple[QueryBlock, ...]) -> None:
        self._check_blocks(blocks)
        with self._integrity.changing():
            self._number(blocks)

    def _number(self, blocks: tuple[QueryBlock, ...]) -> list[Int32s]:
        """Give queries their slots, and note what they say."""
        contents = self._contents
        numbers = [
            np.full(len(block), NO_KEY, np.int32)
            if block.keys is None
            else contents.keys.number_of(block.keys)
            for block in blocks
        ]
        slots = slots_for(blocks, contents.catalog)
        for block, key, slot in zip(blocks, numbers, slots, strict=True):
            self._describe(block, slot)
            if block.spans:
                self._note_spans(slot, block, key)
            shape = Shape(block.attributes, block.keys is not None)
            self._pending[block.kind, shape].append(Rows(shape, slot, key, block.low, block.high))
            self._new.append(slot)
        return slots

    def _describe(self, block: QueryBlock, slot: Int32s) -> None:
        """Note what queries that have slots say, apart from their rules."""
        contents = self._contents
        flags = option_flags(KINDS[block.kind].spec.options)
        contents.catalog.describe(
            slot,
            kind=contents.number_of(block.kind),
            seeds=seeds_of(block, contents.stream),
            keys=block.keys,
            low=block.low,
            high=block.high,
            options={flags[name]: chosen for name, chosen in block.options.items()},
            numbers=block.numbers,
        )
        contents.indexes[block.kind].describe(slot, block.numbers)
        contents.catalog.belong(slot, block.texts())

    def _note_spans(self, slot: Int32s, block: QueryBlock, key: Int32s) -> None:
        contents = self._contents
        home = np.zeros_like(key) if contents.stream.key is None else key
        contents.hygiene.rules.add(slot, block.spans, home)
        # Of those that only end, notices need no detour before the step in which they do.
        for name, column in block.spans.items():
            if name != "ttl":
                flag = DIVERTED if name in SPANS else SPANNED
                contents.catalog.flags[slot[column.given()]] |= flag
        kind = contents.admission.time_type
        if kind is not None:
            contents.hygiene.rules.read(kind, contents.admission.newest)

    def settle(self) -> None:
        """Put pending registrations into the indexes."""
        self.number_waiting()
        pending = list(self._pending.items())
        self._pending.clear()
        flags = self._contents.catalog.flags
        for (kind, _), parts in pending:
            rows = (parts[0] if len(parts) == 1 else joined(parts)).without_dropped(flags)
            if len(rows):
                self._contents.indexes[kind].add(rows, flags)

    # -- replacement --------------------------------------------------------------------------

    def compare(self, blocks: tuple[QueryBlock, ...]) -> list[Compared]:
        """Tell how queries stand to the live ones with their ids."""
        self.number_waiting()
        catalog = self._contents.catalog
        compared = []
        for block in blocks:
            slot = catalog.live_slots(block.ids)
            found = self.blocks(kind=block.kind, slots=slot[slot >= 0])
            compared.append(compare(block, slot, found))
        return compared

    def replace(self, blocks: tuple[QueryBlock, ...], *, rebasing: bool = False) -> None:
        """Let queries take the place of live ones with their ids; others just begin.

        Parameters
        ----------
        rebasing : bool
            Those that just begin are told to have been registered: the log does not say which of
            them took the place of one that was never here.
        """
        compared = self.compare(blocks)
        self._forget_ended(blocks)
        with self._integrity.changing():
            for block, each in zip(blocks, compared, strict=True):
                self._relabel(block, each)
            fresh = rows_of(blocks, [~each.same for each in compared])
            olds = [each.slot[~each.same] for each in compared if not each.same.all()]
            for block, old, new in zip(fresh, olds, self._number(fresh), strict=True):
                live = old >= 0
                self._contents.catalog.flags[new[live | (not rebasing)]] |= REPLACED
                self._end_replaced(block.kind, old[live], new[live])

    def leave(self, blocks: tuple[QueryBlock, ...]) -> None:
        """Let live queries end because others with their ids begin in other shards."""
        compared = self.compare(blocks)
        self._forget_ended(blocks)
        catalog = self._contents.catalog
        with self._integrity.changing():
            blocks = rows_of(blocks, [each.live for each in compared])
            olds = [each.slot[each.live] for each in compared if each.live.any()]
            for block, old in zip(blocks, olds, strict=True):
                if self._contents.indexes[block.kind].predecessors is None:
                    self.drop(old)
                    continue
                # What is told, is told in the name of queries that live until then.
                new = catalog.add(block.ids)
                self._describe(block, new)
                catalog.flags[new] |= REPLACED
                self._end_replaced(block.kind, old, new)
                self._new.append(new)
                self._leaving.append(new)

    def _blocks_of(self, change: Register | RegisterBlocks) -> tuple[QueryBlock, ...]:
        if isinstance(change, RegisterBlocks):
            return change.blocks
        return blocks_of_queries(change.queries, self._contents.stream)

    def _forget_ended(self, blocks: tuple[QueryBlock, ...]) -> None:
        """Forget that queries ended by themselves: the log has others under their ids now."""
        if self.ended:
            self.ended.difference_update(name for block in blocks for name in block.ids.to_pylist())

    def _relabel(self, block: QueryBlock, compared: Compared) -> None:
        rows = np.flatnonzero(compared.same & ~compared.labelled)
        if rows.size:
            self._contents.catalog.relabel(compared.slot[rows], block.take(rows).texts())

    def _end_replaced(self, kind: str, old: Int32s, new: Int32s) -> None:
        same_kind = self._contents.catalog.kind[old] == self._contents.number_of(kind)
        hand_on(self._contents, kind, old[same_kind], new[same_kind])
        self.drop(np.unique(old))

    # -- announcements ------------------------------------------------------------------------

    @property
    def has_news(self) -> bool:
        """Whether keys inside are still to be reported to new or resumed queries."""
        return bool(self._new)

    def announced(self) -> None:
        """Note that the keys inside were reported."""
        if self._new:
            self._contents.catalog.announced(np.concatenate(self._new))
            self._new = []
        for slots in self._leaving:
            self.drop(slots[self._contents.catalog.flags[slots] != 0])
        self._leaving.clear()

    def announced_elsewhere(self) -> None:
        """Forget all announcements that are due: they were made where state was saved."""
        self.settle()
        self.announced()
        for index in self._contents.indexes.values():
            index.forget_announcements()
            if index.predecessors is not None:
                index.predecessors.clear()

    def announce_again(self) -> None:
        """Take up the announcements that are still due from the flags of the queries."""
        catalog = self._contents.catalog
        new = np.flatnonzero(catalog.flags[: len(catalog)] & NEW).astype(np.int32)
        self._new = [new] if new.size else []
        for index in self._contents.indexes.values():
            index.forget_announcements()
            for rows in index.layers.find(new):
                index.revive(rows)

    # -- what it knows ------------------------------------------------------------------------

    def __len__(self) -> int:
        """Return how many slots there are, also of dropped queries."""
        return len(self._contents.catalog)

    @property
    def dropped(self) -> int:
        """How many slots are those of dropped queries."""
        return self._contents.catalog.dropped

    @property
    def living(self) -> int:
        """How many live queries have a slot."""
        return len(self) - self.dropped

    def paused(self, slots: Int32s) -> Bools:
        """Tell which queries are paused."""
        paused: Bools = self._contents.catalog.flags[slots] & PAUSED != 0
        return paused

    def live(self, ids: pa.Array) -> Bools:
        """Tell which ids are those of live queries."""
        self.number_waiting()
        return self._contents.catalog.live(ids)

    def parts_of(self, name: str) -> pa.Array:
        """Return the ids of the live queries that were registered as a composite with this id."""
        self.number_waiting()
        catalog = self._contents.catalog
        return catalog.names.strings().take(pa.array(catalog.parts_of(name)))

    def live_of(self, owner: str) -> int:
        """Return how many live queries an owner has."""
        return self._contents.catalog.live_of(owner) + self._waiting_owners[owner]

    def owners(self, ids: pa.Array) -> pa.Array:
        """Return whose live queries these are; null for those without owner, and for others."""
        self.number_waiting()
        slots = self._contents.catalog.live_slots(ids)
        owners = self._contents.catalog.texts_of("owner", slots)
        if owners is None:
            return pa.nulls(len(ids), pa.string())
        return pc.if_else(pa.array(slots >= 0), owners, pa.scalar(None, pa.string()))

    def slots_of(self, ids: pa.Array) -> Int32s:
        """Return the slots of live queries; raise `UnknownQueryError` if one is not live."""
        # Ending one query must not cost a bulk step for others that wait.
        if self._waiting and (len(ids) != 1 or ids[0].as_py() in self._waiting):
            self.number_waiting()
        return self._contents.catalog.slots(ids)

    def live_ids(self) -> pa.Array:
        """Return the ids of all live queries, paused ones included, in order of registration."""
        self.number_waiting()
        return self._ids(_ANY_FLAG)

    def paused_ids(self) -> pa.Array:
        """Return the ids of all paused queries."""
        return self._ids(PAUSED)

    def _ids(self, flags: int) -> pa.Array:
        catalog = self._contents.catalog
        found = np.flatnonzero(catalog.flags[: len(catalog)] & flags)
        return catalog.names.strings().take(pa.array(found))

    def blocks(
        self, *, kind: str | None = None, slots: Int32s | None = None
    ) -> Iterator[tuple[QueryBlock, Int32s]]:
        """Yield all queries that are not dropped, with their slots.

        Parameters
        ----------
        kind : str, optional
            Only those of this kind.
        slots : int32, optional
            Only these of them; that needs no index of those that wait for one.
        """
        if slots is None:
            self.settle()
        catalog, hygiene = self._contents.catalog, self._contents.hygiene
        ids, keys = catalog.names.strings(), self._contents.keys.arrow()
        for name in self._contents.indexes if kind is None else (kind,):
            spec, index = KINDS[name].spec, self._contents.indexes[name]
            found = index.rows(catalog.flags) if slots is None else self._find(name, slots)
            for rows in found:
                flags = catalog.flags[rows.slot]
                block = QueryBlock(
                    kind=name,
                    row=rows.slot.astype(np.int64),
                    ids=ids.take(pa.array(rows.slot)),
                    keys=keys.take(pa.array(rows.key)) if rows.shape.keyed else None,
                    attributes=rows.shape.attributes,
                    low=rows.low,
                    high=rows.high,
                    options={
                        option: flags & flag != 0
                        for option, flag in option_flags(spec.options).items()
                    },
                    **{text: catalog.texts_of(text, rows.slot) for text in TEXTS},
                    spans=hygiene.rules.spans(rows.slot, spec.spans),
                    numbers=index.numbers(rows.slot),
                )
                yield block, rows.slot

    def _find(self, kind: str, slots: Int32s) -> Iterator[Rows]:
        """Yield the rows of live queries, in the index or on their way there."""
        yield from self._contents.indexes[kind].layers.find(slots)
        for (name, _), parts in self._pending.items():
            for rows in parts if name == kind else ():
                picked = np.flatnonzero(np.isin(rows.slot, slots))
                if picked.size:
                    yield rows.take(picked)
