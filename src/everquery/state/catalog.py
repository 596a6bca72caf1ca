"""The queries of a shard by slot: ids, flags, kinds, and what their notice ids are made of."""

from __future__ import annotations

from collections.abc import Mapping, Set

import numpy as np
import pyarrow as pa

from everquery.core.arrays import (
    Array,
    Bools,
    Bytes,
    Floats,
    Int32s,
    Int64s,
    Uint64s,
    resized,
    total_bytes,
)
from everquery.core.encoded_names import Encoded, encode, encode_one
from everquery.core.hashing import person_of
from everquery.core.jit import kernel
from everquery.core.mixing import hash_bytes, scramble
from everquery.core.name_loops import ABSENT
from everquery.core.names import NameTable
from everquery.errors import UnknownQueryError
from everquery.index.flags import LIVE, NEW, PAUSED, REPLACED, RESUMED, Flags
from everquery.queries.block import TEXTS

_ANNOUNCED = ~np.uint16(NEW | RESUMED | REPLACED)
_DROPPED = 0  # the slot of all dropped queries, after a compaction
SEED = np.uint64(0xA0761D6478BD642F)
_ODD = np.uint64(0x9E3779B97F4A7C15)
_PERSON = person_of("everquery query")


@kernel
def describe_queries(
    data: Bytes,
    starts: Int64s,
    seeds: Uint64s,
    low: Floats,
    high: Floats,
    slots: Int32s,
    kind: int,
    options: Flags,
    columns: tuple[Flags, Bytes, Uint64s],
) -> None:
    """Write flags and kind of queries that begin, and a 64-bit hash of what each says.

    Parameters
    ----------
    data, starts : the keys of the queries; all empty for queries without key
    seeds : of kind and attributes
    columns : flags, kinds and hashes by slot
    """
    flags, kinds, prints = columns
    bits = np.empty(2, np.float64)
    for i in range(slots.size):
        mixed = hash_bytes(data, starts[i], starts[i + 1], seeds[0])
        for a in range(low.shape[0]):
            bits[0] = low[a, i] + 0.0  # -0.0 and 0.0 are one value
            bits[1] = high[a, i] + 0.0
            words = bits.view(np.uint64)
            mixed = scramble(mixed ^ scramble(words[0] ^ seeds[a]))
            mixed = scramble(mixed ^ scramble(words[1] + seeds[a]))
        slot = slots[i]
        flags[slot] = options[i] | np.uint16(LIVE | NEW)
        kinds[slot] = kind
        prints[slot] = mixed


class Catalog:
    """A slot for every query ever registered here, numbered in order of registration.

    Attributes
    ----------
    flags : uint16, shape (room,)
        See `everquery.index.flags`; 0 for a query that was deregistered.
    kind : uint8, shape (room,)
    prints : uint64, shape (room,)
        A hash of what the query says; with its id, the query's part of notice ids.
    """

    def __init__(self) -> None:
        self.names = NameTable()
        self.flags: Flags = np.zeros(32, np.uint16)
        self.kind: Bytes = np.zeros(32, np.uint8)
        self.prints: Uint64s = np.zeros(32, np.uint64)
        self.texts = NameTable()  # owners, labels as JSON, composites, zones, plans, each once
        self.owner: Int32s = np.empty(0, np.int32)
        self.labels: Int32s = np.empty(0, np.int32)
        self.part_of: Int32s = np.empty(0, np.int32)
        self.zone: Int32s = np.empty(0, np.int32)
        self.plan: Int32s = np.empty(0, np.int32)
        self.owned: Int64s = np.empty(0, np.int64)  # live queries by owner, a place in the texts
        self.dropped = 0
        self.paused = 0

    def __len__(self) -> int:
        return len(self.names)

    @property
    def all_live(self) -> bool:
        """Whether every slot is a live query that is not paused."""
        return not self.dropped and not self.paused

    def live(self, ids: pa.Array) -> Bools:
        """Tell which ids are those of live queries, paused ones included."""
        slots = self.names.find(encode(ids))
        live: Bools = (slots != ABSENT) & (self.flags[slots] != 0)
        return live

    def live_slots(self, ids: pa.Array) -> Int32s:
        """Return the slots of the live queries with these ids, `ABSENT` where there is none."""
        slots = self.names.find(encode(ids))
        slots[(slots == ABSENT) | (self.flags[slots] == 0)] = ABSENT
        return slots

    def is_live(self, query_id: str) -> bool:
        """Tell whether an id is that of a live query."""
        slot = self.names.find_one(query_id)
        return slot != ABSENT and bool(self.flags[slot])

    def slot(self, query_id: str) -> int:
        """Return the slot of a live query; an unknown id raises, as with `slots`."""
        slot = self.names.find_one(query_id)
        if slot == ABSENT or not self.flags[slot]:
            raise self._unknown(query_id)
        return int(slot)

    def _unknown(self, query_id: str) -> UnknownQueryError:
        return UnknownQueryError(
            f"no live query has the id {query_id!r}; nothing has changed"
            f" ({len(self) - self.dropped:,} queries are live)"
        )

    def slots(self, ids: pa.Array) -> Int32s:
        """Return the slots of live queries.

        Raises
        ------
        UnknownQueryError
            If one of them is not live.
        """
        if len(ids) == 1 and ids.null_count == 0:
            slots = np.array([self.names.find_one(ids[0].as_py())], np.int32)
        else:
            slots = self.names.find(encode(ids))
        missing = (slots == ABSENT) | (self.flags[slots] == 0)
        if missing.any():
            raise self._unknown(ids[int(np.argmax(missing))].as_py())
        return slots

    def add(self, ids: Encoded) -> Int32s:
        """Give each query a slot, in the order of the ids; `describe` says what it is."""
        slots = self.names.add(ids, renew=True)
        if len(self) > self.flags.size:
            size = max(len(self), self.flags.size * 3 // 2)
            self.flags = resized(self.flags, size)
            self.kind = resized(self.kind, size)
            self.prints = resized(self.prints, size)
        return slots

    def describe(
        self,
        slots: Int32s,
        *,
        kind: int,
        seeds: Uint64s,
        keys: Encoded | None,
        low: Floats,
        high: Floats,
        options: Flags,
        numbers: Mapping[str, Array],
        added: Set[str] = frozenset(),
    ) -> None:
        """Note of queries that begin what their kind is, their options, and their fingerprint.

        Numbers that were `added` later say nothing where they are 0.
        """
        if keys is None:
            data, starts = encode_one("").data, np.zeros(slots.size + 1, np.int64)
        else:
            data, starts = keys.data, keys.starts
        columns = self.flags, self.kind, self.prints
        describe_queries(data, starts, seeds, low, high, slots, kind, options, columns)
        if numbers:
            prints = self.prints[slots]
            for name, values in numbers.items():
                mixed = prints * _ODD + (values.view(np.uint64) ^ SEED)
                prints = np.where(values == 0, prints, mixed) if name in added else mixed
            self.prints[slots] = prints
        self._digest(slots.astype(np.int64))

    def digests(self) -> Array:
        """Return strong hashes of queries, by slot: their part of notice ids."""
        return self.names.digests(None, _PERSON, self.prints)

    def _digest(self, slots: Int64s) -> None:
        """Make the digests of queries: in bulk, they take a sixth of what each alone would."""
        self.names.digests(slots, _PERSON, self.prints)

    def belong(self, slots: Int32s, given: Mapping[str, pa.Array]) -> None:
        """Note what queries have as texts: see `TEXTS`."""
        for name in TEXTS:
            texts = given.get(name)
            column: Int32s = getattr(self, name)
            if texts is None and not column.size:
                continue  # no query has any so far
            if column.size < self.flags.size:
                column = resized(column, self.flags.size, ABSENT)
                setattr(self, name, column)
            column[slots] = ABSENT if texts is None else self.texts.add(encode(texts))
            if name == "owner" and texts is not None:
                self._own(column[slots], 1)

    def relabel(self, slots: Int32s, given: Mapping[str, pa.Array]) -> None:
        """Give queries other owners and labels; their other texts are given, too."""
        self._own(self.owner[slots[slots < self.owner.size]], -1)
        self.belong(slots, given)

    def _own(self, owners: Int32s, change: int) -> None:
        """Count queries that owners have more, or fewer."""
        if self.owned.size < len(self.texts):
            self.owned = resized(self.owned, 2 * len(self.texts))
        np.add.at(self.owned, owners[owners != ABSENT], change)

    def live_of(self, owner: str) -> int:
        """Return how many live queries an owner has."""
        place = self.texts.find_one(owner)
        return int(self.owned[place]) if 0 <= place < self.owned.size else 0

    def parts_of(self, composite: str) -> Int64s:
        """Return the slots of the live queries that are parts of a composite."""
        place = self.texts.find_one(composite)
        if place == ABSENT:
            return np.empty(0, np.int64)
        slots = np.flatnonzero(self.part_of == place)
        live: Int64s = slots[self.flags[slots] != 0]
        return live

    def composites(self) -> pa.Array:
        """Return the ids of all composites that have live parts."""
        n = min(self.part_of.size, len(self))
        places = np.unique(self.part_of[:n][self.flags[:n] != 0])
        return self.texts.strings().take(pa.array(places[places != ABSENT]))

    def texts_of(self, name: str, slots: Int32s) -> pa.Array | None:
        """Return texts of queries, one of `TEXTS`; None if no query has any."""
        column: Int32s = getattr(self, name)
        if not column.size:
            return None
        codes = resized(column, max(column.size, self.flags.size), ABSENT)[slots]
        return self.texts.strings().take(pa.array(codes, mask=codes == ABSENT))

    def drop(self, slots: Int32s) -> None:
        """End queries for ever."""
        if self.paused:
            self.paused -= int(np.count_nonzero(self.flags[slots] & PAUSED))
        if self.owner.size:
            self._own(self.owner[slots[slots < self.owner.size]], -1)
        self.flags[slots] = 0
        self.dropped += slots.size

    def pause(self, slots: Int32s) -> None:
        """Let queries emit nothing until they are resumed."""
        running = np.unique(slots[self.flags[slots] & PAUSED == 0])
        self.flags[running] |= PAUSED
        self.paused += running.size

    def resume(self, slots: Int32s) -> Int32s:
        """Let paused queries emit again; return those that were paused."""
        resumed: Int32s = np.unique(slots[self.flags[slots] & PAUSED != 0])
        self.flags[resumed] = (self.flags[resumed] & ~np.uint16(PAUSED)) | NEW | RESUMED
        self.paused -= resumed.size
        return resumed

    def announced(self, slots: Int32s) -> None:
        """Note that the keys inside were reported."""
        self.flags[slots] &= _ANNOUNCED

    def compact(self) -> Int32s:
        """Forget dropped queries for good; return the new slot of each old one.

        All dropped slots become one, so that rows of theirs that are still in an index keep a flag
        to be refused by; the order of the others stays.
        """
        kept = np.concatenate([[_DROPPED], np.flatnonzero(self.flags[: len(self)])])
        slots = np.zeros(len(self), np.int32)
        slots[kept[1:]] = np.arange(1, kept.size)
        names = NameTable()
        names.add(encode(pa.array([""])))  # no query's id is empty
        names.add(encode(self.names.strings().take(pa.array(kept[1:]))))
        self.names = names
        for name in ("flags", "kind", "prints"):
            column = getattr(self, name)[kept]
            column[0] = 0
            setattr(self, name, column)
        for name in TEXTS:
            column = getattr(self, name)
            if column.size:
                column = resized(column, max(column.size, slots.size), ABSENT)[kept]
                column[0] = ABSENT
                setattr(self, name, column)
        self._digest(np.arange(len(self)))
        self._forget_texts()
        self.dropped = 1
        return slots

    def _forget_texts(self) -> None:
        """Forget texts that no query has any more; the others get new numbers."""
        columns = {name: getattr(self, name) for name in TEXTS}
        used = np.unique(np.concatenate(list(columns.values())))
        used = used[used != ABSENT]
        number = np.full(len(self.texts) + 1, ABSENT, np.int32)  # the last stands for none
        number[used] = np.arange(used.size)
        texts = NameTable()
        texts.add(encode(self.texts.strings().take(pa.array(used))))
        self.texts = texts
        for name, column in columns.items():
            setattr(self, name, number[column])
        self.owned = np.zeros(0, np.int64)
        self._own(self.owner, 1)

    def count(self, kind: int) -> int:
        """Return how many queries of a kind are live."""
        n = len(self)
        return int(np.count_nonzero((self.kind[:n] == kind) & (self.flags[:n] & LIVE != 0)))

    def kept(self) -> Int64s:
        """Return the slots of all live queries; a query's place in it is its rank."""
        return np.flatnonzero(self.flags[: len(self)])

    def save(self, arrays: dict[str, Array]) -> None:
        """Save ids, fingerprints, owners and labels of all live queries, by rank."""
        kept = self.kept()
        self.names.save("ids", arrays, kept)
        arrays["prints"] = self.prints[kept]
        self.texts.save("texts", arrays)
        for name in TEXTS:
            column = getattr(self, name)
            if column.size:
                known = kept[kept < column.size]
                arrays[name] = resized(column[known], kept.size, ABSENT)

    def load(self, arrays: dict[str, Array], flags: Array, kind: Bytes) -> None:
        """Take over queries, in slots without gaps."""
        self.names = NameTable.load("ids", arrays)
        for name, column in (("flags", flags), ("kind", kind), ("prints", arrays["prints"])):
            setattr(self, name, resized(column, max(32, column.size)))
        self._digest(np.arange(len(self)))
        self.texts = NameTable.load("texts", arrays)
        if len(self.texts):
            for name in TEXTS:
                setattr(self, name, arrays.get(name, np.empty(0, np.int32)))
            self._own(self.owner, 1)
        self.paused = int(np.count_nonzero(self.flags[: len(self)] & PAUSED))

    def nbytes(self) -> int:
        """Return the bytes of all arrays but the ids themselves."""
        columns: list[Array] = [self.flags, self.kind, self.prints, self.owned]
        columns += [getattr(self, name) for name in TEXTS]
        texts = self.texts.name_bytes() + self.texts.table_bytes()
        return self.names.table_bytes() + texts + total_bytes(*columns)
