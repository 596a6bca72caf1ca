"""Snapshots as bytes: a versioned header and plain arrays, nothing that could run."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from datetime import timedelta
from hashlib import blake2b
from typing import Any

import numpy as np

from everquery.core.arrays import Array
from everquery.errors import SnapshotError
from everquery.stream import Stream

FORMAT = "everquery-snapshot"
VERSION = 3  # 3: where time began
_ARRAYS = "arrays"
_DIGEST_BYTES = 16
_DTYPES = ("|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f4", "<f8")
_MOST_AXES = 2
_MOST_PLACES = 2**40


def stream_header(stream: Stream) -> dict[str, Any]:
    """Return a stream's definition as plain values."""
    values = asdict(stream)
    for span in ("grace", "expire_after"):
        if isinstance(values[span], timedelta):
            values[span] = {"microseconds": values[span] // timedelta(microseconds=1)}
    return {name: list(value) if name == "attributes" else value for name, value in values.items()}


def check_stream(header: object, stream: Stream) -> None:
    """Raise if a snapshot is of another stream than this one."""
    if not isinstance(header, dict):
        raise _damaged("it does not say of which stream it is")
    said = differences(header, stream)
    if said:
        raise SnapshotError(
            f"the snapshot is of another stream ({said});"
            " restore it into an engine of its own stream. The engine is as it was"
        )


def differences(header: dict[str, Any], stream: Stream) -> str:
    """Return in what a stream's header and a stream differ; empty if in nothing."""
    ours = stream_header(stream)
    different = [name for name in ours if ours[name] != header.get(name)]
    return "; ".join(f"{name}: {header.get(name)!r}, here {ours[name]!r}" for name in different)


def pack(header: Mapping[str, Any], arrays: Mapping[str, Array]) -> bytes:
    """Return a header and arrays as bytes: a checksum, the header as JSON, the arrays' bytes."""
    listed = [[name, array.dtype.str, array.shape] for name, array in arrays.items()]
    known = {"format": FORMAT, "version": VERSION, **header, _ARRAYS: listed}
    text = json.dumps(known, sort_keys=True).encode()
    content = b"".join(
        (len(text).to_bytes(8, "little"), text, *(array.tobytes() for array in arrays.values()))
    )
    return _digest(content) + content


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=_DIGEST_BYTES).digest()


def unpack(snapshot: bytes) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return header and arrays of a snapshot.

    Raises
    ------
    SnapshotError
        If the bytes are no snapshot, are damaged, or were written by a newer version.
    """
    if not isinstance(snapshot, (bytes, bytearray, memoryview)):
        raise SnapshotError(
            f"a snapshot is bytes, not {type(snapshot).__name__}; give what Engine.snapshot"
            " returned. The engine is as it was"
        )
    whole = bytes(snapshot)
    digest, content = whole[:_DIGEST_BYTES], whole[_DIGEST_BYTES:]
    if digest != _digest(content):
        raise SnapshotError(
            "these bytes are no everquery snapshot, or a damaged one (their checksum is wrong);"
            " restore from another one. The engine is as it was"
        )
    size = int.from_bytes(content[:8], "little")
    header = _read_header(content[8 : 8 + size])
    arrays: dict[str, Array] = {}
    at = 8 + size
    listed = header.pop(_ARRAYS, None)
    for entry in listed if isinstance(listed, list) else [None]:
        name, dtype, shape = _read_entry(entry)
        end = at + math.prod(shape) * dtype.itemsize
        if name in arrays or end > len(content):
            raise _damaged(f"array {name!r} is there twice, or longer than the snapshot")
        flat = np.frombuffer(content[at:end], dtype)
        arrays[name] = flat.reshape(shape).copy()  # one's own, to be written to
        at = end
    if at != len(content):
        raise _damaged(f"it has {len(content) - at} bytes that belong to no array")
    return header, arrays


def _read_header(text: bytes) -> dict[str, Any]:
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        raise _damaged("its header can't be read") from None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise SnapshotError("these bytes are no everquery snapshot. The engine is as it was")
    version = header.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise _damaged(f"its version is {str(version)[:80]!r}")
    if version > VERSION:
        raise SnapshotError(
            f"the snapshot has version {version}, and this everquery reads up to"
            f" {VERSION}; upgrade everquery to restore it. The engine is as it was"
        )
    return header


def _read_entry(entry: object) -> tuple[str, np.dtype[Any], tuple[int, ...]]:
    """Return name, type and shape of an array, as the header lists them."""
    if isinstance(entry, list) and len(entry) == 3:
        name, kind, shape = entry
        if isinstance(name, str) and kind in _DTYPES and _is_shape(shape):
            return name, np.dtype(kind), tuple(shape)
    raise _damaged(f"{repr(entry)[:80]} is no array")


def _is_shape(shape: object) -> bool:
    return (
        isinstance(shape, list)
        and 0 < len(shape) <= _MOST_AXES
        and all(type(size) is int and 0 <= size <= _MOST_PLACES for size in shape)
    )


def _damaged(reason: str) -> SnapshotError:
    return SnapshotError(
        f"the snapshot is damaged or forged: {reason}; restore from another one. The engine is as"
        " it was"
    )
