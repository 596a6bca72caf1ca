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

from everquery.errors import SnapshotError
from everquery.index.arrays import Array
from everquery.stream import Stream

FORMAT = "everquery-snapshot"
VERSION = 3  # 3: where time began
_ARRAYS = "arrays"
_DIGEST_BYTES = 16


def stream_header(stream: Stream) -> dict[str, Any]:
    """Return a stream's definition as plain values."""
    values = asdict(stream)
    for span in ("grace", "expire_after"):
        if isinstance(values[span], timedelta):
            values[span] = {"microseconds": values[span] // timedelta(microseconds=1)}
    return {name: list(value) if name == "attributes" else value for name, value in values.items()}


def check_stream(header: dict[str, Any], stream: Stream) -> None:
    """Raise if a snapshot is of another stream than this one."""
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
    digest, content = snapshot[:_DIGEST_BYTES], snapshot[_DIGEST_BYTES:]
    if digest != _digest(content):
        raise SnapshotError(
            "these bytes are no everquery snapshot, or a damaged one (their checksum is wrong);"
            " restore from another one. The engine is as it was"
        )
    size = int.from_bytes(content[:8], "little")
    header: dict[str, Any] = json.loads(content[8 : 8 + size])
    if header.get("format") != FORMAT:
        raise SnapshotError("these bytes are no everquery snapshot. The engine is as it was")
    if header["version"] > VERSION:
        raise SnapshotError(
            f"the snapshot has version {header['version']}, and this everquery reads up to"
            f" {VERSION}; upgrade everquery to restore it. The engine is as it was"
        )
    arrays: dict[str, Array] = {}
    at = 8 + size
    for name, kind, shape in header.pop(_ARRAYS):
        count = math.prod(shape)
        flat = np.frombuffer(content, np.dtype(kind), count, at)
        arrays[name] = flat.reshape(shape).copy()  # one's own, to be written to
        at += flat.nbytes
    return header, arrays
