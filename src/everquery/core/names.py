"""Names to small numbers and back: query ids and keys, a million of them in a few flat arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa

from everquery.core.arrays import Array, Bools, Bytes, Int32s, Int64s, Uint64s, resized, total_bytes
from everquery.core.encoded_names import Encoded, encode, encode_one, load_names
from everquery.core.framing import DamagedError
from everquery.core.hashing import fill_digests, no_digests, random_key
from everquery.core.name_loops import ABSENT, fill_names, hash_names, intern_names, refill

FEW = 32  # names that are read one by one
MOST_BYTES = 2**31 - 1  # Arrow strings have 32-bit offsets

_STRING, _INT64 = pa.string(), pa.int64()


def repeated(names: pa.Array) -> Bools:
    """Tell which names occur earlier in the same array; nulls do not.

    Comparing the hashes finds out that no name does at a tenth of the cost of numbering them.
    """
    encoded = encode(names)
    hashes = np.empty(len(encoded), np.uint64)
    hash_names(encoded.data, encoded.starts, random_key(), hashes)
    if not _any_equal(hashes[encoded.valid]):
        return np.zeros(len(encoded), np.bool_)
    numbers = NameTable().add(encoded)
    first = np.full(numbers.max(initial=ABSENT) + 2, ABSENT, np.int64)  # the last is for nulls
    first[numbers[::-1]] = np.arange(numbers.size)[::-1]
    found: Bools = (first[numbers] != np.arange(numbers.size)) & (numbers >= 0)
    return found


def _any_equal(hashes: Uint64s) -> bool:
    """Tell whether two hashes are equal: they would be in one bucket, where one is the last."""
    buckets = 1 << (4 * hashes.size).bit_length()
    place = (hashes & np.uint64(buckets - 1)).astype(np.int64)
    last = np.empty(buckets, np.int32)
    last[place] = np.arange(hashes.size, dtype=np.int32)
    others = np.flatnonzero(last[place] != np.arange(hashes.size, dtype=np.int32))
    if (hashes[others] == hashes[last[place[others]]]).any():
        return True
    rest = np.sort(hashes[others])  # of three in a bucket, two that are not the last
    return bool((rest[1:] == rest[:-1]).any())


class NameTable:
    """Numbers for names, from 0 in the order of their arrival; they never change.

    Arrow arrays of the names share the table's memory: a growing table only ever appends, so a
    dictionary that was handed out stays as it was.

    Attributes
    ----------
    hashes : uint64, by number
        Under a secret of this table's own: of use only here.
    """

    CACHES: ClassVar[tuple[str, ...]] = ("_strings", "_integers")  # that no copy of it needs
    _strings: pa.Array | None = None
    _integers: pa.Array | None = None

    def __init__(self) -> None:
        self._key = random_key()
        self._digests = no_digests(0)
        self._table: Int32s = np.full(64, ABSENT, np.int32)
        self._offsets: Int32s = np.zeros(33, np.int32)
        self._heap: Bytes = np.empty(512, np.uint8)
        self.hashes: Uint64s = np.empty(32, np.uint64)
        self._count = 0
        self._one: Int32s = np.empty(1, np.int32)  # for one name at a time

    def __len__(self) -> int:
        return self._count

    def find(self, names: Encoded) -> Int32s:
        """Return the number of each name, `ABSENT` where it has none."""
        if not self._count:
            return np.full(len(names), ABSENT, np.int32)
        out = np.empty(len(names), np.int32)
        self._run(names, 0, False, False, out)
        return out

    def find_one(self, name: str | int) -> int:
        """Return the number of a name, or `ABSENT`; without the cost of an Arrow array.

        Raises
        ------
        OverflowError
            If it is an integer of more than 64 bits.
        """
        self._run(encode_one(name), 0, False, False, self._one)
        return int(self._one[0])

    def texts(self, numbers: Int32s | Sequence[int]) -> list[str]:
        """Return names that are text; a few one by one, without the cost of an Arrow array."""
        if len(numbers) <= FEW:
            heap, at = self._heap.data, self._offsets.item
            return [str(heap[at(number) : at(number + 1)], "utf-8") for number in numbers]
        names: list[str] = self.strings().take(pa.array(numbers)).to_pylist()
        return names

    def add(self, names: Encoded, *, renew: bool = False) -> Int32s:
        """Return the number of each name, a new one where it has none (or always, with `renew`)."""
        out = np.empty(len(names), np.int32)
        done = 0
        while True:
            done = self._run(names, done, True, renew, out)
            if done == len(names):
                return out
            rest = int(names.starts[-1] - names.starts[done])
            self._grow(len(names) - done, rest, int(names.starts[done + 1] - names.starts[done]))

    def strings(self) -> pa.Array:
        """Return all names as an Arrow array that shares the table's memory."""
        if self._strings is None or len(self._strings) != self._count:
            buffers = [None, pa.py_buffer(self._offsets), pa.py_buffer(self._heap)]
            self._strings = pa.Array.from_buffers(_STRING, self._count, buffers)
        return self._strings

    def integers(self) -> pa.Array:
        """Return all names that are 64-bit integers as an Arrow array that shares memory."""
        if self._integers is None or len(self._integers) != self._count:
            buffers = [None, pa.py_buffer(self._heap)]
            self._integers = pa.Array.from_buffers(_INT64, self._count, buffers)
        return self._integers

    def digests(
        self, wanted: Int64s | None, person: Uint64s, salts: Uint64s | None = None
    ) -> Array:
        """Return strong hashes by number, of which the wanted ones are there.

        Parameters
        ----------
        wanted : int64, or None
            Negative ones stand for none. None asks for those that have been wanted before; others
            are zeros.
        person, salts
            See `fill_digests`; always the same for a number.
        """
        if self._digests.shape[0] < self._count:
            room = self.hashes.size
            self._digests = np.concatenate(
                [self._digests, no_digests(room - self._digests.shape[0])]
            )
        if wanted is None:
            return self._digests
        salted = np.empty(0, np.uint64) if salts is None else salts
        fill_digests(wanted, self._heap, self._offsets, salted, person, self._digests)
        return self._digests

    def save(self, name: str, arrays: dict[str, Array], kept: Array | None = None) -> None:
        """Put the kept names, given in ascending order, into a snapshot's arrays."""
        offsets, heap = self._offsets[: self._count + 1], self._heap
        if kept is not None and kept.size and kept[-1] - kept[0] + 1 == kept.size:
            offsets = offsets[kept[0] : kept[-1] + 2]  # all of a stretch: nothing to be copied
        elif kept is not None:
            held = encode(self.strings().take(pa.array(kept)))
            offsets, heap = held.starts.astype(np.int32), held.data
        arrays[f"{name}.starts"] = offsets - offsets[0]
        arrays[f"{name}.data"] = heap[offsets[0] : offsets[-1]]

    @classmethod
    def load(cls, name: str, arrays: dict[str, Array]) -> NameTable:
        """Return the names of a snapshot, numbered as they were kept.

        Raises
        ------
        DamagedError
            If one occurs twice.
        """
        names = load_names(name, arrays)
        table, n = cls(), len(names)
        places = max(table._table.size, 1 << (2 * n).bit_length())
        table._table = np.full(places, ABSENT, np.int32)
        table.hashes = np.empty(n, np.uint64)
        table._offsets, table._heap = arrays[f"{name}.starts"], names.data.copy()
        table._count = n
        found = fill_names(
            names.data, names.starts, table._heap, table._key, table._table, table.hashes
        )
        if found < n:
            raise DamagedError(f"the {name} have one twice")
        return table

    def name_bytes(self) -> int:
        """Return the bytes of the names themselves and their offsets."""
        return total_bytes(self._offsets, self._heap)

    def table_bytes(self) -> int:
        """Return the bytes of what finds a name."""
        return total_bytes(self._table, self.hashes)

    def _run(self, names: Encoded, first: int, adding: bool, renew: bool, out: Int32s) -> int:
        done, self._count = intern_names(
            names.data,
            names.starts,
            names.valid,
            first,
            adding,
            renew,
            self._table,
            self.hashes,
            self._offsets,
            self._heap,
            self._count,
            self._key,
            out,
        )
        return int(done)

    def _grow(self, names: int, size: int, first: int) -> None:
        """Make room for more: half as much again, or what is asked if that is little.

        Parameters
        ----------
        names, size, first : how many names are to come, their bytes, and the bytes of the first
        """
        used = int(self._offsets[self._count])
        if self._count == self.hashes.size:
            room = self._count + max(self._count // 2, min(names, 1 << 20))
            self.hashes = resized(self.hashes, room)
            self._offsets = resized(self._offsets, room + 1)
        if 2 * self._count >= self._table.size:
            old = self._table
            self._table = np.full(2 * old.size, ABSENT, np.int32)
            refill(self._table, self.hashes, self._count, old)
        room = used + max(used // 2, min(size, 1 << 24), first, 1_024)
        if room > self._heap.size:
            if used + size > MOST_BYTES:
                raise OverflowError("more than 2 GiB of names; spread them over several shards")
            self._heap = resized(self._heap, min(room, MOST_BYTES))
