"""Ways to forge a snapshot: each changes it, and gives it a checksum that fits."""

from __future__ import annotations

import json
import math
import random
from hashlib import blake2b
from zlib import crc32

import numpy as np


def forged_with(content: bytes) -> bytes:
    """Return a header's length, the header and arrays behind a checksum that fits."""
    end = 8 + int.from_bytes(content[:8], "little")
    return blake2b(content[:end], digest_size=16).digest() + content


def parts_of(snapshot: bytes) -> tuple[dict, dict[str, np.ndarray]]:
    """Return header and arrays, without a look at whether they are right."""
    at = 24 + int.from_bytes(snapshot[16:24], "little")
    header = json.loads(snapshot[24:at])
    arrays = {}
    for name, kind, shape in header.pop("arrays"):
        at += -at % 8
        kind = "|u1" if kind == "bytes" else kind
        flat = np.frombuffer(snapshot[at:], np.uint8)[: math.prod(shape) * np.dtype(kind).itemsize]
        at += flat.size
        arrays[name] = flat.copy().view(kind).reshape(shape)
    return header, arrays


STRINGS = ("keys.time_type", "letters.kept")


def joined(header: dict, arrays: dict[str, np.ndarray], listed: list | None = None) -> bytes:
    """Return header and arrays as a snapshot; `listed` is what the header says of the arrays."""
    if listed is None:
        listed = listing(arrays)
    bodies = [array.tobytes() for array in arrays.values()]
    sums = [crc32(body) for body in bodies]
    text = json.dumps({**header, "arrays": listed, "sums": sums}, sort_keys=True).encode()
    content = len(text).to_bytes(8, "little") + text
    for body in bodies:
        content += bytes(-(16 + len(content)) % 8) + body
    return forged_with(content)


def listing(arrays: dict[str, np.ndarray]) -> list:
    """Return what a header says of arrays."""
    return [
        [name, "bytes" if name in STRINGS else array.dtype.str, list(array.shape)]
        for name, array in arrays.items()
    ]


def _flip(snapshot: bytes, chance: random.Random) -> bytes:
    header, arrays = parts_of(snapshot)
    names = [name for name, array in arrays.items() if array.size]
    for _ in range(chance.randrange(1, 4)):
        flat = arrays[chance.choice(names)].reshape(-1).view(np.uint8)
        flat[chance.randrange(flat.size)] ^= 1 << chance.randrange(8)
    return joined(header, arrays)


def _flip_header(snapshot: bytes, chance: random.Random) -> bytes:
    content = bytearray(snapshot[16:])
    size = 8 + int.from_bytes(content[:8], "little")
    content[chance.randrange(size)] ^= 1 << chance.randrange(8)
    return forged_with(bytes(content))


def _cut(snapshot: bytes, chance: random.Random) -> bytes:
    content = snapshot[16:]
    kept = chance.choice((chance.randrange(len(content)), len(content) - 1, 8, 0))
    return forged_with(content[:kept])


def _append(snapshot: bytes, chance: random.Random) -> bytes:
    return forged_with(snapshot[16:] + bytes(chance.choice((1, 8, 4_096))))


_WHOLE = (
    0,
    1,
    2,
    3,
    7,
    -1,
    -2,
    255,
    2**31 - 1,
    -(2**31),
    10**12,
    2**53,
    2**62,
    2**63 - 1,
    -(2**63),
)
_FLOATS = (0.0, -0.0, 1.0, -1.0, 1e-320, 1e308, -1e308, math.inf, -math.inf, math.nan, 0.5, 1e18)


def _extremes(snapshot: bytes, chance: random.Random) -> bytes:
    header, arrays = parts_of(snapshot)
    name = chance.choice([name for name, array in arrays.items() if array.size])
    array = arrays[name].reshape(-1)
    places = [chance.randrange(array.size) for _ in range(chance.choice((1, 1, 3, array.size)))]
    for place in places:
        if array.dtype.kind == "f":
            array[place] = chance.choice(_FLOATS)
        else:
            near = int(array[place]) + chance.choice((-1, 1, 8))
            value = chance.choice((*_WHOLE, near, near, array.size))
            array[place] = np.array([value % 2**64], np.uint64).astype(array.dtype)[0]
    return joined(header, arrays)


def _listed(snapshot: bytes, chance: random.Random) -> bytes:
    header, arrays = parts_of(snapshot)
    listed = listing(arrays)
    entry = chance.choice(listed)
    what = chance.randrange(4)
    if what == 0:
        entry[1] = chance.choice(
            ("<i4", "<i8", "<f8", "|u1", "<u8", "|O", "<U4", "|S8", "<m8[s]", "|b1", "<f4", ">i8",
             "<c16", "bytes", "|V8", "[('a', '<i8')]", "", 7, None)
        )  # fmt: skip
    elif what == 1:
        entry[2] = chance.choice(
            ([], [0], [-1], [2**40], [2**62, 4], [2, 2], [1] * 70, None, "x", [None], [1.5], [True],
             [entry[2][0] + 1], [entry[2][0] - 1], entry[2][::-1], [*entry[2], 1], [0, 2**62])
        )  # fmt: skip
    elif what == 2:
        other = chance.choice(listed)[0]
        entry[0] = chance.choice(
            (other, "", None, 3, "quantile.feed a b c d", "queries.rows99.slot", "future.x")
        )
    else:
        del entry[chance.randrange(3)]
    return joined(header, arrays, listed)


def _swap(snapshot: bytes, chance: random.Random) -> bytes:
    header, arrays = parts_of(snapshot)
    one, other = chance.sample(list(arrays), 2)
    same = [name for name in arrays if arrays[name].dtype == arrays[one].dtype and name != one]
    if same and chance.random() < 0.7:
        other = chance.choice(same)
    arrays[one], arrays[other] = arrays[other], arrays[one]
    return joined(header, arrays)


def _resize(snapshot: bytes, chance: random.Random) -> bytes:
    header, arrays = parts_of(snapshot)
    name = chance.choice(list(arrays))
    array = arrays[name]
    size = array.shape[-1]
    kept = chance.choice((0, max(size - 1, 0), size // 2, size + 1, 2 * size))
    arrays[name] = np.resize(array, (*array.shape[:-1], kept))
    return joined(header, arrays)


def _shuffle(snapshot: bytes, chance: random.Random) -> bytes:
    header, arrays = parts_of(snapshot)
    name = chance.choice(list(arrays))
    np.random.default_rng(chance.randrange(2**32)).shuffle(
        arrays[name], axis=-1 % max(arrays[name].ndim, 1)
    )
    return joined(header, arrays)


def _drop(snapshot: bytes, chance: random.Random) -> bytes:
    header, arrays = parts_of(snapshot)
    name = chance.choice(list(arrays))
    if chance.random() < 0.5:
        prefix = name.rsplit(".", 1)[0]
        arrays = {each: array for each, array in arrays.items() if not each.startswith(prefix)}
    else:
        del arrays[name]
    return joined(header, arrays)


_VALUES = (
    None, True, False, 0, 1, -1, 2**31, 2**62, 2**63, 2**64, -(2**63), 10**400, 1.5, math.nan,
    math.inf, "", "x", "\ud800", "string", "int64", "null", "range", "quantile", [], [1], [[]],
    {}, {"a": 1}, [["ann", 1]], [[None, -1]], [7, 7, 7],
)  # fmt: skip


def _field(snapshot: bytes, chance: random.Random) -> bytes:
    """Change something in the header, however deep."""
    header, arrays = parts_of(snapshot)
    at, key = header, chance.choice(list(header))
    while isinstance(at[key], (dict, list)) and at[key] and chance.random() < 0.8:
        at = at[key]
        key = chance.choice(list(at)) if isinstance(at, dict) else chance.randrange(len(at))
    if chance.random() < 0.15:
        del at[key]
    else:
        at[key] = chance.choice(_VALUES)
    return joined(header, arrays)


def _nest(snapshot: bytes, chance: random.Random) -> bytes:
    deep = b"[" * chance.choice((10, 900, 100_000, 2_000_000))
    text = chance.choice(
        (
            deep,
            b'{"a":' * 100_000,
            b'{"format": "everquery-frame", "version": 1}',
            b"null",
            b"[]",
            b"\xff",
        )
    )
    return forged_with(len(text).to_bytes(8, "little") + text)


WAYS = (
    _flip, _flip, _flip_header, _flip_header, _cut, _append, *(_extremes,) * 10, *(_listed,) * 3,
    _swap, _swap, *(_resize,) * 3, _shuffle, _shuffle, _drop, *(_field,) * 4, _nest,
)  # fmt: skip
