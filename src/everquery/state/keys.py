"""The stream table: what a shard remembers of each key."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow as pa

from everquery.core.arrays import (
    Array,
    Bools,
    Bytes,
    Floats,
    Int32s,
    Int64s,
    resized,
    total_bytes,
)
from everquery.core.encoded_names import encode, load_names
from everquery.core.framing import DamagedError
from everquery.core.hashing import no_digests, person_of
from everquery.core.name_loops import ABSENT
from everquery.core.names import NameTable
from everquery.core.parts import Saved
from everquery.errors import InvalidBatchError, InvalidQueryError
from everquery.queries.spec import Key
from everquery.state.sights import Sights

_STRINGS, _INTEGERS = person_of("everquery key"), person_of("everquery number")
_STRING, _INTEGER = pa.string(), pa.int64()
_NO_KEY, _NO_DIGEST = pa.nulls(1, _STRING), no_digests(1)  # of a stream without keys
TYPES = {None: None, "string": _STRING, "int64": _INTEGER, "null": pa.null()}
MOST_RECENT = 100_000  # some 10 MB
MOST_LOOKED_UP = 2_048  # keys that are looked up one by one
COLUMNS = ("seen", "next_seq", "last_time", "last")


class KeyTable:
    """Each key's number, whether it is in sight, and its last accepted event.

    Attributes
    ----------
    seen : uint8, shape (room,)
        1 for a key with an event since its last expiry.
    next_seq : int64, shape (room,)
        How many events of the key were accepted; the `seq` of the next.
    last_time : int64 or float64, shape (room,)
    last : float64, shape (attributes, room)
        NaN where a value was unknown.
    sights : Sights
        Earlier events, of keys whose last one lacks values.
    """

    CACHES: ClassVar[tuple[str, ...]] = ("_recent",)  # that no copy of the table needs
    _recent: dict[Key, int] | None = None  # the numbers of keys that came one by one

    def __init__(self, attributes: int, *, keyed: bool) -> None:
        self._names = NameTable()
        self.keyed = keyed
        self.type: pa.DataType | None = None if keyed else pa.null()
        self.seen: Bytes = np.zeros(16, np.uint8)
        self.next_seq: Int64s = np.zeros(16, np.int64)
        self.last_time: Array = np.zeros(16, np.int64)
        self.last: Floats = np.zeros((attributes, 16))
        self.sights = Sights(attributes)

    def __len__(self) -> int:
        return len(self._names) if self.keyed else 1

    def digests(self, numbers: Int64s | None) -> Array:
        """Return strong hashes of keys by number, the same in every run, of which these are there.

        A negative number stands for no key; None asks for those that have been asked for before.
        """
        if not self.keyed:
            return _NO_DIGEST
        return self._names.digests(numbers, _INTEGERS if self.type == _INTEGER else _STRINGS)

    def number_of(self, keys: pa.Array) -> Int32s:
        """Return the number of each key of a query, new ones where needed."""
        return self._numbers(keys, InvalidQueryError)

    def number_of_one(self, key: Key) -> int:
        """Return the number of a query's key, a new one where needed."""
        number = self.known_number(key)
        if number == ABSENT:
            return int(self.number_of(pa.array([key], type_of_key(key)))[0])
        return number

    def numbers(self, keys: pa.Array | pa.ChunkedArray | None, n: int) -> Int32s:
        """Return the number of each event's key, new ones where needed; none is null."""
        if keys is None:
            return np.zeros(n, np.int32)
        if isinstance(keys, pa.ChunkedArray):  # dictionaries of their own, from several threads
            parts = [
                self._numbers(chunk.dictionary, InvalidBatchError)[np.asarray(chunk.indices)]
                for chunk in keys.chunks
            ]
            return np.concatenate(parts)
        return self._numbers(keys, InvalidBatchError)

    def _numbers(
        self, keys: pa.Array, error: type[InvalidBatchError | InvalidQueryError]
    ) -> Int32s:
        if not len(keys):
            return np.empty(0, np.int32)  # of no keys, the type says nothing
        if not pa.types.is_dictionary(keys.type):
            self._expect(keys.type, error)
            if len(keys) <= MOST_LOOKED_UP:
                numbers = self._names.add(encode(keys))
                self._make_room()
                return numbers
            # Arrow finds a batch's distinct keys twice as fast as our own table would.
            keys = keys.dictionary_encode()
        self._expect(keys.type.value_type, error)
        distinct = self._names.add(encode(keys.dictionary))
        self._make_room()
        found: Int32s = distinct[np.asarray(keys.indices)]
        return found

    def check(self, keys: pa.Array | None) -> None:
        """Raise if keys of this type can't be of this stream; change nothing."""
        if keys is None or self.type is None or keys.type == self.type:
            return
        if keys.null_count < len(keys):
            kind = keys.type.value_type if pa.types.is_dictionary(keys.type) else keys.type
            if family_of_key(kind) != self.type:
                raise self._mismatch(kind, InvalidBatchError)

    def check_query_key(self, key: Key, known: pa.DataType | None) -> pa.DataType:
        """Return the type of a query's key; raise if keys are known to be of another type."""
        kind = type_of_key(key)
        if known is not None and known is not kind and known != kind:
            raise self._mismatch(kind, InvalidQueryError, known)
        return kind

    def check_query_keys(self, keys: pa.Array) -> None:
        """Raise if keys of queries are of another type than the stream's keys."""
        if self.type is not None and family_of_key(keys.type) != self.type:
            raise self._mismatch(keys.type, InvalidQueryError)

    def find(self, key: Key) -> int:
        """Return the number of a key, or -1."""
        wanted = pa.array([key])
        if not self.keyed or self.type != family_of_key(wanted.type):
            return ABSENT
        return int(self._names.find(encode(wanted))[0])

    def numbers_of_names(self, names: pa.Array) -> Int32s:
        """Return the numbers of keys, given as `arrow` gives them, or -1."""
        if not self.keyed:
            return np.zeros(max(1, len(names)), np.int32)
        if not len(names) or self.type != family_of_key(names.type):
            return np.full(len(names), ABSENT, np.int32)
        return self._names.find(encode(names)).astype(np.int32)

    def known_number(self, key: Key) -> int:
        """Return the number of a key, given as what keys of this stream are, or -1.

        It is looked for in Python's own table first: that takes a twentieth of the time.
        """
        number = self._recent_number(key)
        if number == ABSENT and self.keyed and type_of_key(key) == self.type:
            try:
                number = self._names.find_one(key)
            except OverflowError:
                return ABSENT  # no key could be this
            if number != ABSENT:
                self._note_recent(key, number)
        return number

    def _recent_number(self, key: Key) -> int:
        return ABSENT if self._recent is None else self._recent.get(key, ABSENT)

    def _note_recent(self, key: Key, number: int) -> None:
        if self._recent is None or len(self._recent) >= MOST_RECENT:
            self._recent = {}
        self._recent[key] = number

    def forget_all(self) -> None:
        """Forget all keys, of which no event was accepted."""
        self.keep(np.empty(0, np.int64))

    def had_events(self) -> Bools:
        """Tell of which keys events were accepted: their `seq` must go on from where it was."""
        had: Bools = self.next_seq[: len(self)] > 0
        return had

    def set_back(self, time: int | float) -> None:
        """Let no key's last event be after a time."""
        np.minimum(self.last_time, self.last_time.dtype.type(time), out=self.last_time)
        self.sights.set_back(time)

    def keep(self, numbers: Int64s) -> Int32s:
        """Forget all keys but some, given in ascending order; return the new number of each.

        The order of the others stays; those that are forgotten have `ABSENT`.
        """
        self._recent = None
        after = np.full(len(self), ABSENT, np.int32)
        after[numbers] = np.arange(numbers.size)
        names = NameTable()
        names.add(encode(self.arrow().take(pa.array(numbers))))
        self._names = names
        room = max(16, numbers.size)
        for name in COLUMNS:
            setattr(self, name, resized(getattr(self, name)[..., numbers], room))
        self.sights.keep(numbers)
        return after

    def arrow(self) -> pa.Array:
        """Return all keys, in the order of their numbers, sharing memory."""
        if not self.keyed:
            return _NO_KEY
        if self.type == _INTEGER:
            return self._names.integers()
        return self._names.strings()

    def save(self, numbers: Int32s, first: int, saved: Saved) -> None:
        """Save all that is known of some keys, and the names of keys from a number on."""
        saved.values["key_type"] = None if self.type is None else str(self.type)
        if self.keyed:
            new = np.arange(first, len(self._names), dtype=np.int64)
            self._names.save("names", saved.arrays, new)
        for name in COLUMNS:
            saved.arrays[name] = getattr(self, name)[..., numbers]
        self.sights.save(numbers, self.last_time.dtype, saved)

    def load(self, numbers: Int32s, first: int, saved: Saved) -> None:
        """Take over what `save` saved; the keys before the first new name are here already."""
        self.type = TYPES[saved.values["key_type"]] or self.type
        if self.keyed:
            found = self._names.add(load_names("names", saved.arrays))
            if not np.array_equal(found, np.arange(first, first + found.size)):
                raise DamagedError("keys are not those that were there before")
            self._make_room()
        for name in COLUMNS:
            getattr(self, name)[..., numbers] = saved.arrays[name]
        self.sights.load(numbers, saved)

    def nbytes(self) -> int:
        """Return the bytes of all arrays, names included."""
        names = self._names.name_bytes() + self._names.table_bytes()
        known = total_bytes(self.seen, self.next_seq, self.last_time, self.last)
        return names + known + self.sights.nbytes()

    def _expect(
        self, kind: pa.DataType, error: type[InvalidBatchError | InvalidQueryError]
    ) -> None:
        if kind == self.type:
            return
        family = family_of_key(kind)
        if self.type is None:
            self.type = family
        elif self.type != family:
            raise self._mismatch(kind, error)

    def _mismatch(
        self,
        kind: pa.DataType,
        error: type[InvalidBatchError | InvalidQueryError],
        expected: pa.DataType | None = None,
    ) -> InvalidBatchError | InvalidQueryError:
        known = "integers" if (expected or self.type) == pa.int64() else "strings"
        return error(f"keys of this stream are {known} so far, and now come as {kind}; keep to one")

    def _make_room(self) -> None:
        if len(self._names) > self.seen.size:
            size = max(len(self._names), 2 * self.seen.size)
            self.seen = resized(self.seen, size)
            self.next_seq = resized(self.next_seq, size)
            self.last_time = resized(self.last_time, size)
            self.last = resized(self.last, size)


def type_of_key(key: Key) -> pa.DataType:
    """Return the type that a key is kept as."""
    return _STRING if isinstance(key, str) else _INTEGER


def family_of_key(kind: pa.DataType) -> pa.DataType:
    """Return the type that keys of this type are kept as."""
    return _INTEGER if pa.types.is_integer(kind) else _STRING
