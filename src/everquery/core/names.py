"""Names to small numbers and back: query ids and keys, a million of them in a few flat arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from everquery.core.arrays import Array, Bools, Bytes, Int32s, Int64s, Uint64s, resized, total_bytes
from everquery.core.framing import DamagedError
from everquery.core.hashing import fill_digests, no_digests, random_key, siphash, whole_word
from everquery.core.jit import kernel

ABSENT = -1
BLOCK = 64  # names whose cache misses overlap
FEW = 32  # names that are read one by one
MOST_BYTES = 2**31 - 1  # Arrow strings have 32-bit offsets

_PRIME = np.uint64(0x9E3779B97F4A7C15)
_PRIME_2 = np.uint64(0xC2B2AE3D27D4EB4F)
_SHIFT = np.uint64(29)
_SHIFT_2 = np.uint64(32)
_BYTE = np.uint64(8)


@kernel
def scramble(word: np.uint64) -> np.uint64:
    """Return a number in which every bit depends on all bits of `word`."""
    word = (word ^ (word >> _SHIFT_2)) * _PRIME
    word = (word ^ (word >> _SHIFT)) * _PRIME_2
    return word ^ (word >> _SHIFT_2)


@kernel
def hash_bytes(data: Bytes, begin: int, end: int, seed: np.uint64) -> np.uint64:
    """Return a 64-bit hash of ``data[begin:end]``; the same on every machine and in every run.

    Anybody can find names with equal hashes: it is for what one owner says of one query.
    """
    mixed = seed ^ (np.uint64(end - begin) * _PRIME)
    while begin < end:
        word = np.uint64(0)
        stop = min(begin + 8, end)
        for i in range(stop - 1, begin - 1, -1):
            word = (word << _BYTE) | np.uint64(data[i])
        mixed = (mixed ^ word) * _PRIME
        mixed ^= mixed >> _SHIFT
        begin = stop
    return scramble(mixed)


@kernel
def same_bytes(left: Bytes, a: int, right: Bytes, b: int, size: int) -> bool:
    """Tell whether `size` bytes from `a` and from `b` on are equal."""
    whole = size & ~7
    for i in range(0, whole, 8):
        if whole_word(left, a + i) != whole_word(right, b + i):
            return False
    for i in range(whole, size):
        if left[a + i] != right[b + i]:
            return False
    return True


@kernel
def intern_names(
    data: Bytes,
    starts: Int64s,
    valid: Bools,
    first: int,
    adding: bool,
    renewing: bool,
    table: Int32s,
    hashes: Uint64s,
    offsets: Int32s,
    heap: Bytes,
    count: int,
    key: Uint64s,
    out: Int32s,
) -> tuple[int, int]:
    """Find the numbers of names in an open-addressing table, and add those that are not there.

    Parameters
    ----------
    data, starts, valid : the names, one behind the other; where each begins; false for null
    first : the first name to look at
    adding, renewing : whether absent names are added, and present ones added anew
    table : numbers by hash, `ABSENT` in free places; a power of two of places
    hashes, offsets, heap, count : what is known of the names already numbered
    key : the secret of the table, for `siphash`
    out : the numbers; `ABSENT` for null, and for absent names when not adding

    Returns
    -------
    The first name that found no more room (or their number when all did), and the new count.
    """
    mask = np.uint64(table.size - 1)
    for i in range(first, out.size):
        if not valid[i]:
            out[i] = ABSENT
            continue
        begin = starts[i]
        size = starts[i + 1] - begin
        mixed = siphash(data, begin, begin + size, key)
        place = np.int64(mixed & mask)
        number = table[place]
        while number != ABSENT:
            known = offsets[number]
            if (
                hashes[number] == mixed
                and offsets[number + 1] - known == size
                and same_bytes(data, begin, heap, known, size)
            ):
                break
            place = np.int64((np.uint64(place) + np.uint64(1)) & mask)
            number = table[place]
        if number == ABSENT or renewing:
            if not adding:
                out[i] = ABSENT
                continue
            known = offsets[count]
            if count == hashes.size or 2 * count >= table.size or known + size > heap.size:
                return i, count
            for byte in range(size):
                heap[known + byte] = data[begin + byte]
            offsets[count + 1] = known + size
            hashes[count] = mixed
            table[place] = count
            number = count
            count += 1
        out[i] = number
    return out.size, count


@kernel
def hash_names(data: Bytes, starts: Int64s, key: Uint64s, out: Uint64s) -> None:
    """Write the keyed hash of each name."""
    for i in range(out.size):
        out[i] = siphash(data, starts[i], starts[i + 1], key)


@kernel
def fill_names(
    data: Bytes, starts: Int64s, heap: Bytes, key: Uint64s, table: Int32s, hashes: Uint64s
) -> int:
    """Give distinct names numbers, in an empty table; return how many come before a repeated one.

    In blocks, and in stages: all hashes, then all first places, then the names, because the cache
    misses of a block overlap.

    Parameters
    ----------
    data, starts, heap : the names, where each begins, and the table's copy of them
    table : `ABSENT` everywhere; at least twice as many places as there are names
    hashes : room for the names' hashes
    """
    mask = np.uint64(table.size - 1)
    met = np.empty(BLOCK, np.int32)
    for begin in range(0, hashes.size, BLOCK):
        end = min(begin + BLOCK, hashes.size)
        for i in range(begin, end):
            hashes[i] = siphash(data, starts[i], starts[i + 1], key)
        for i in range(begin, end):
            met[i - begin] = table[np.int64(hashes[i] & mask)]
        for i in range(begin, end):
            place = np.int64(hashes[i] & mask)
            number = met[i - begin]
            if number == ABSENT:
                number = table[place]  # one of this block may be there by now
            while number != ABSENT:
                known, size = starts[number], starts[i + 1] - starts[i]
                if (
                    hashes[number] == hashes[i]
                    and starts[number + 1] - known == size
                    and same_bytes(data, starts[i], heap, known, size)
                ):
                    return i
                place = np.int64((np.uint64(place) + np.uint64(1)) & mask)
                number = table[place]
            table[place] = i
    return hashes.size


@kernel
def refill(table: Int32s, hashes: Uint64s, count: int, old: Int32s) -> None:
    """Put the numbers that stand in the old table into a larger, empty one."""
    mask = np.uint64(table.size - 1)
    for i in range(old.size):
        if old[i] != ABSENT:
            place = np.int64(hashes[old[i]] & mask)
            while table[place] != ABSENT:
                place = np.int64((np.uint64(place) + np.uint64(1)) & mask)
            table[place] = old[i]


@dataclass(slots=True)  # frozen, it would take three times as long to make
class Encoded:
    """Names as bytes: what the kernels read.

    Attributes
    ----------
    data : uint8
    starts : int64, shape (n + 1,)
    valid : bool, shape (n,)
    """

    data: Bytes
    starts: Int64s
    valid: Bools

    def __len__(self) -> int:
        return int(self.valid.size)


def encode(names: pa.Array) -> Encoded:
    """Return the bytes of an Arrow array of strings or of 64-bit integers."""
    n = len(names)
    if names.null_count:
        valid = np.array(names.is_valid(), np.bool_)
    else:
        valid = _ALL_VALID[:n] if n <= _FEW else np.ones(n, np.bool_)
    buffers = names.buffers()
    kind = names.type
    if kind == _INT64:
        starts = _EIGHTS[: n + 1] if n <= _FEW else 8 * np.arange(n + 1)
        if names.offset:
            starts = starts + 8 * names.offset
        return Encoded(_bytes_of(buffers[1]), starts, valid)
    if n == 0:
        return Encoded(_bytes_of(None), np.zeros(1, np.int64), valid)
    if kind not in _TEXT_OFFSETS:
        raise TypeError(f"names are strings or 64-bit integers, not {kind}")
    offsets = np.dtype(_TEXT_OFFSETS[kind])  # the buffer may have some bytes more than these
    starts = np.frombuffer(buffers[1], offsets, n + 1, names.offset * offsets.itemsize)
    return Encoded(_bytes_of(buffers[2]), starts.astype(np.int64), valid)


def encode_one(name: str | int) -> Encoded:
    """Return the bytes of one name, without the cost of an Arrow array.

    Raises
    ------
    OverflowError
        If it is an integer of more than 64 bits.
    """
    if isinstance(name, str):
        data = np.frombuffer(name.encode(errors="surrogatepass"), np.uint8)
    else:
        data = np.frombuffer(name.to_bytes(8, "little", signed=True), np.uint8)
    return Encoded(data, np.array([0, data.size], np.int64), _ALL_VALID[:1])


def _bytes_of(buffer: pa.Buffer | None) -> Bytes:
    """Return a buffer's bytes, read only whatever Arrow says of it: one type, one compilation."""
    data = np.frombuffer(buffer if buffer is not None and buffer.size else b"", np.uint8)
    data.flags.writeable = False
    return data


def load_names(name: str, arrays: dict[str, Array]) -> Encoded:
    """Return names that `NameTable.save` put into arrays."""
    starts = arrays[f"{name}.starts"].astype(np.int64)
    data = arrays[f"{name}.data"]
    data.flags.writeable = False
    return Encoded(data, starts, np.ones(starts.size - 1, np.bool_))


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


_FEW = 2_048
_ALL_VALID, _EIGHTS = np.ones(_FEW, np.bool_), 8 * np.arange(_FEW + 1)  # nobody writes into these
_STRING, _INT64 = pa.string(), pa.int64()
_TEXT_OFFSETS = {_STRING: np.int32, pa.large_string(): np.int64}


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
