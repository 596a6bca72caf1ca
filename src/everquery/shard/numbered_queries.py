"""The queries of a shard: those that wait for a slot, those that have one, and what they say."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from everquery.core.arrays import Bools, Floats, Int32s
from everquery.core.encoded_names import encode, encode_one
from everquery.errors import InvalidQueryError
from everquery.index.flags import DIVERTED, PAUSED, SPANNED, option_flags
from everquery.index.kind import NO_SLOTS
from everquery.index.rows import NO_KEY, Rows, Shape, joined
from everquery.index.sort_keys import check_slots
from everquery.kinds import KINDS
from everquery.queries import Query
from everquery.queries.block import (
    TEXTS,
    QueryBlock,
    blocks_of_queries,
    box_of_one,
    check_fit,
)
from everquery.shard.contents import Contents
from everquery.shard.integrity import Integrity
from everquery.shard.new_queries import already_live, check_spans, is_plain, seeds_of, slots_for
from everquery.shard.replacing import Compared, check_kinds, check_once, compare
from everquery.state.keys import type_of_key
from everquery.state.rules import BASED, SPANS

_ANY_FLAG = 0xFFFF


class NumberedQueries:
    """All queries of a shard, as they are numbered and indexed.

    Single registrations wait, and are numbered and indexed together when something needs them.

    Parameters
    ----------
    contents : Contents
    integrity : Integrity
    """

    def __init__(self, contents: Contents, integrity: Integrity) -> None:
        self._contents = contents
        self._integrity = integrity
        self._waiting: dict[str, Query] = {}
        self._waiting_owners: Counter[str] = Counter()
        self._pending: defaultdict[tuple[str, Shape], list[Rows]] = defaultdict(list)
        self._new: list[Int32s] = []
        self.kinds_seen: tuple[str, ...] = ()  # those of all queries that have been here

    # -- registration -------------------------------------------------------------------------

    def _wait(self, queries: tuple[Query, ...], *, following: bool) -> None:
        """Check queries, and let them wait to be numbered and indexed together."""
        self._waiting.update(self._fresh(queries, following=following))
        keys = self._contents.keys
        for query in queries:
            if query.owner is not None:
                self._waiting_owners[query.owner] += 1
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
                check_spans(query, time_type, contents.stream)
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
            queries, stream = list(waiting.values()), self._contents.stream
            try:  # they were checked when they came
                if len(queries) == 1 and is_plain(queries[0]):
                    box = box_of_one(queries[0], stream)
                    with self._integrity.changing():
                        self._number_one(queries[0], box)
                else:
                    blocks = blocks_of_queries(queries, stream)
                    with self._integrity.changing():
                        self._number(blocks)
            except BaseException:
                self._waiting = {**waiting, **self._waiting}  # nothing that was taken is lost
                raise
            self._waiting_owners.clear()

    def _check_blocks(self, blocks: tuple[QueryBlock, ...], *, replacing: bool = False) -> None:
        self._check_room(blocks)
        if replacing:
            check_once(blocks)
            check_kinds(blocks, self._contents)
            return
        for block in blocks:
            taken = self._contents.catalog.live(block.ids)
            if taken.any():
                raise already_live(block.ids[int(np.argmax(taken))].as_py())

    def _check_room(self, blocks: tuple[QueryBlock, ...]) -> None:
        """Raise if there are too many queries for a shard, or if keys are of another type."""
        check_slots(len(self._contents.catalog) + sum(map(len, blocks)))
        for block in blocks:
            if block.keys is not None:
                self._contents.keys.check_query_keys(block.keys)

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
            self._let_wait(block.kind, Rows(shape, slot, key, block.low, block.high))
        return slots

    def _number_one(self, query: Query, box: tuple[tuple[int, ...], Floats, Floats]) -> None:
        """Do what `_number` does for a query that is plain, without columns of one row each."""
        contents = self._contents
        attributes, low, high = box
        key = NO_KEY if query.key is None else contents.keys.number_of_one(query.key)
        slot = contents.catalog.add(encode_one(query.id))
        flags = option_flags(query.options)
        options = sum(flag for name, flag in flags.items() if getattr(query, name))
        contents.catalog.describe(
            slot,
            kind=contents.number_of(query.kind),
            seeds=seeds_of(query.kind, attributes, contents.stream),
            keys=None if query.key is None else encode_one(query.key),
            low=low,
            high=high,
            options=np.array([options], np.uint16),
            numbers={},
        )
        contents.indexes[query.kind].describe(slot, {})
        self.see(query.kind)
        contents.catalog.belong(slot, {})
        shape = Shape(attributes, query.key is not None)
        self._let_wait(query.kind, Rows(shape, slot, np.array([key], np.int32), low, high))

    def _hold_back(self, slots: Sequence[Int32s]) -> list[tuple[str, Rows]]:
        """Take queries out of those that wait to be indexed; return them with their kinds."""
        wanted = np.concatenate([*slots, NO_SLOTS])
        if not wanted.size:
            return []
        held = []
        for (kind, _), parts in self._pending.items():
            for place, rows in enumerate(parts):
                chosen = np.isin(rows.slot, wanted)
                held.append((kind, rows.take(np.flatnonzero(chosen))))
                parts[place] = rows.take(np.flatnonzero(~chosen))
        return held

    def _let_wait(self, kind: str, rows: Rows) -> None:
        """Let queries that have slots wait to be indexed and announced."""
        self._pending[kind, rows.shape].append(rows)
        self._new.append(rows.slot)

    def see(self, kind: str) -> None:
        """Let notices have the columns of a kind from now on."""
        if kind not in self.kinds_seen:
            self.kinds_seen = (*self.kinds_seen, kind)

    def _describe(self, block: QueryBlock, slot: Int32s) -> None:
        """Note what queries that have slots say, apart from their rules."""
        contents = self._contents
        spec = KINDS[block.kind].spec
        flags = option_flags(spec.options)
        options = np.zeros(len(block), np.uint16)
        for name, chosen in block.options.items():
            options[chosen] |= flags[name]
        contents.catalog.describe(
            slot,
            kind=contents.number_of(block.kind),
            seeds=seeds_of(block.kind, block.attributes, contents.stream),
            keys=None if block.keys is None else encode(block.keys),
            low=block.low,
            high=block.high,
            options=options,
            numbers=block.numbers,
            added={each.name for each in spec.numbers if each.added},
        )
        contents.indexes[block.kind].describe(slot, block.numbers)
        self.see(block.kind)
        contents.catalog.belong(slot, block.texts())

    def _note_spans(self, slot: Int32s, block: QueryBlock, key: Int32s) -> None:
        contents = self._contents
        home = np.zeros_like(key) if contents.stream.key is None else key
        contents.hygiene.rules.add(slot, block.spans, home)
        # Of those that only end, notices need no detour before the step in which they do; and of
        # those that wait for keys, only the deadlines take it.
        for name, column in block.spans.items():
            if name not in BASED:
                flag = DIVERTED if name in SPANS else SPANNED
                contents.catalog.flags[slot[column.given()]] |= flag
        kind = contents.admission.time_type
        if kind is not None:
            contents.hygiene.rules.read(kind, contents.admission.newest)

    def settle(self) -> None:
        """Put pending registrations into the indexes."""
        self.number_waiting()
        if not self._pending:
            return
        pending = list(self._pending.items())
        self._pending.clear()
        flags = self._contents.catalog.flags
        for (kind, _), parts in pending:
            rows = (parts[0] if len(parts) == 1 else joined(parts)).without_dropped(flags)
            if len(rows):
                self._contents.indexes[kind].add(rows, flags)

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
