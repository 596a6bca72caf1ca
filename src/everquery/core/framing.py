"""State as bytes: a header in JSON, plain arrays and byte strings by name, and checksums.

A frame is a digest of the header, the header's length, the header, and the arrays, which begin at
multiples of 8 bytes. The header lists the arrays, and has a checksum of each. A frame that is to be
mapped, not read, has none, and its arrays begin at multiples of 64 bytes. Nothing in a frame could
run, and no size in it is believed before it is compared with the bytes that are there.

Checksums find damage, not forgery: whoever forges arrays can forge any sum of them, so that the
parts of the state check what they load. CRC-32 by zlib takes in 4.1 GB a second; SHA-256 takes
1.8 (with the processor's help) and BLAKE2b 0.9, as long as writing a snapshot takes otherwise.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt

from everquery.errors import SnapshotError

FORMAT = "everquery-frame"
VERSION = 2
ALIGNED, MAPPED_ALIGNED = 8, 64  # bytes; the latter as wide as anything that loops read at once

Array = npt.NDArray[Any]
Content = Array | bytes

_ARRAYS, _SUMS = "arrays", "sums"
_BYTES = "bytes"
_DIGEST_BYTES = 16
_LENGTH_BYTES = 8
_HEAD = _DIGEST_BYTES + _LENGTH_BYTES
_DTYPES = ("|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f4", "<f8")
_MOST_AXES = 2
_MOST_PLACES = 2**40


class DamagedError(SnapshotError):
    """Saved state can't be what everquery wrote. Says only what is wrong with it."""


class NewerError(SnapshotError):
    """Saved state is of a version, or has a part, that this everquery does not know."""


def pack(header: Mapping[str, Any], contents: Mapping[str, Content]) -> bytes:
    """Return a header and what goes with it as one frame."""
    return b"".join(pieces(header, contents))


def pieces(
    header: Mapping[str, Any], contents: Mapping[str, Content], *, summed: bool = True
) -> Iterator[bytes | memoryview]:
    """Yield the bytes of a frame, piece by piece, without a copy of large arrays.

    Parameters
    ----------
    header : mapping
        Plain values that JSON can hold.
    summed : bool
        Whether the arrays get checksums. A frame without can be opened only by `view`.
    """
    bodies = [_bytes_of(content) for content in contents.values()]
    known = {
        **header,
        "format": FORMAT,
        "version": VERSION,
        _ARRAYS: [_entry(name, content) for name, content in contents.items()],
        _SUMS: _sums(bodies) if summed else None,
    }
    text = json.dumps(known, sort_keys=True).encode()
    head = len(text).to_bytes(_LENGTH_BYTES, "little") + text
    yield _digest(head)
    yield head
    at = _DIGEST_BYTES + len(head)
    aligned = ALIGNED if summed else MAPPED_ALIGNED
    for body in bodies:
        yield bytes(-at % aligned)
        yield body
        at += -at % aligned + len(body)


def unpack(frame: bytes | memoryview) -> tuple[dict[str, Any], dict[str, Array], dict[str, bytes]]:
    """Return the header, the arrays and the byte strings of a frame; arrays may be written to.

    Raises
    ------
    DamagedError, NewerError
        If the bytes are no frame, do not fit their checksums, or were written by a newer version.
    """
    whole = memoryview(frame).cast("B")
    header, views = view(whole)
    bodies = [body for _, _, body in views.values()]
    if header.pop(_SUMS) != _sums(bodies):
        raise DamagedError("its checksum is wrong")
    arrays = {
        name: np.frombuffer(body, dtype).reshape(shape).copy()
        for name, (dtype, shape, body) in views.items()
        if dtype is not None
    }
    strings = {name: bytes(body) for name, (dtype, _, body) in views.items() if dtype is None}
    return header, arrays, strings


View = tuple[np.dtype[Any] | None, tuple[int, ...], memoryview]
"""The type of an array, or None for a byte string; its shape; and its bytes."""


def view(frame: memoryview) -> tuple[dict[str, Any], dict[str, View]]:
    """Return the header of a frame, and where its arrays are; checksums are not looked at."""
    size = int.from_bytes(frame[_DIGEST_BYTES:_HEAD], "little")
    begin = _HEAD + size
    if begin > len(frame) or _digest(frame[_DIGEST_BYTES:begin]) != frame[:_DIGEST_BYTES]:
        raise DamagedError("it is none at all, or its checksum is wrong")
    header = _read_header(bytes(frame[_HEAD:begin]))
    listed = header.pop(_ARRAYS, None)
    views: dict[str, View] = {}
    at, aligned = begin, MAPPED_ALIGNED if header[_SUMS] is None else ALIGNED
    for entry in listed if isinstance(listed, list) else [None]:
        name, dtype, shape = _read_entry(entry)
        at += -at % aligned
        end = at + math.prod(shape) * (1 if dtype is None else dtype.itemsize)
        if name in views or end > len(frame):
            raise DamagedError(f"array {name!r} is there twice, or longer than all that is there")
        views[name] = dtype, shape, frame[at:end]
        at = end
    if at != len(frame):
        raise DamagedError(f"it has {len(frame) - at} bytes that belong to no array")
    return header, views


def _entry(name: str, content: Content) -> list[Any]:
    if isinstance(content, bytes):
        return [name, _BYTES, [len(content)]]
    return [name, content.dtype.str, list(content.shape)]


def _bytes_of(content: Content) -> memoryview:
    if isinstance(content, bytes):
        return memoryview(content)
    return np.ascontiguousarray(content).reshape(-1).view(np.uint8).data


def _sums(bodies: list[memoryview]) -> list[int]:
    return [crc32(body) for body in bodies]


def _digest(content: bytes | memoryview) -> bytes:
    return blake2b(content, digest_size=_DIGEST_BYTES).digest()


def _read_header(text: bytes) -> dict[str, Any]:
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        raise DamagedError("its header can't be read") from None
    if not isinstance(header, dict) or header.pop("format", None) != FORMAT:
        raise DamagedError("it is of another format")
    version = header.pop("version", None)
    if not isinstance(version, int) or isinstance(version, bool) or version < VERSION:
        raise DamagedError(f"its version is {str(version)[:80]!r}")
    if version > VERSION:
        raise NewerError(f"has version {version}, and this everquery reads up to {VERSION}")
    header.setdefault(_SUMS, None)
    return header


def _read_entry(entry: object) -> tuple[str, np.dtype[Any] | None, tuple[int, ...]]:
    """Return name, type and shape of an array, as the header lists them."""
    if isinstance(entry, list) and len(entry) == 3:
        name, kind, shape = entry
        if isinstance(name, str) and _is_shape(shape):
            if kind == _BYTES and len(shape) == 1:
                return name, None, tuple(shape)
            if kind in _DTYPES:
                return name, np.dtype(kind), tuple(shape)
    raise DamagedError(f"{repr(entry)[:80]} is no array")


def _is_shape(shape: object) -> bool:
    return (
        isinstance(shape, list)
        and 0 < len(shape) <= _MOST_AXES
        and all(type(size) is int and 0 <= size <= _MOST_PLACES for size in shape)
    )
