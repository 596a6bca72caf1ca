"""Marks as files: what was known of keys and time before a chunk, and the steps of the chunk."""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc

from everquery.core.arrow_bytes import checked_table, table_bytes
from everquery.core.framing import pieces, unpack, view
from everquery.history.chunk import Chunk
from everquery.shard.past import Mark, mark_from, mark_parts

NAMES, TIMES = "names", "times"  # the latter as they are in the chunk, not before it


def write_mark(
    path: Path,
    header: dict[str, Any],
    chunk: Chunk,
    names: pa.Array,
    time_type: pa.DataType,
) -> None:
    """Write the mark of a chunk, its steps, and the names of the keys that they number."""
    values, contents = mark_parts(chunk.mark)
    contents[NAMES] = table_bytes(pa.table({"key": names}))
    contents[TIMES] = pa.schema([("time", time_type)]).serialize().to_pybytes()
    contents["lengths"] = chunk.lengths
    contents["flushing"] = np.array([moment.flushing for moment in chunk.moments], np.uint8)
    for field in ("newest", "began"):
        said = [getattr(moment, field) for moment in chunk.moments]
        dtype = np.float64 if any(isinstance(each, float) for each in said) else np.int64
        contents[field] = np.array([0 if each is None else each for each in said], dtype)
        contents[f"{field}.known"] = np.array([each is not None for each in said], np.uint8)
    for at, (_, keys) in chunk.special.items():
        contents[f"special {at}"] = keys
    special = {str(at): did for at, (did, _) in chunk.special.items()}
    told = {**header, "holds": "history", "mark": values, "special": special}
    with path.open("wb") as file:
        for piece in pieces(told, contents):
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())


def read_header(path: Path) -> dict[str, Any]:
    """Return what a mark says of its chunk, without reading all of it."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        whole = memoryview(content)
        try:
            header = dict(view(whole)[0])
        finally:
            whole.release()
    if header.get("holds") != "history":
        raise ValueError("it holds something else")
    return header


def read_mark(path: Path) -> tuple[Mark, pa.Array, dict[str, Any]]:
    """Return a mark, the names of the keys by the numbers in it, and what it says of the steps."""
    header, arrays, strings = unpack(path.read_bytes())
    names = checked_table(strings[NAMES], "keys")["key"].combine_chunks()
    steps: dict[str, Any] = {
        name: arrays.pop(name)
        for name in ("lengths", "flushing", "newest", "newest.known", "began", "began.known")
    }
    kind = pa.ipc.read_schema(pa.py_buffer(strings[TIMES])).field("time").type
    steps["time_type"] = None if pa.types.is_null(kind) else kind
    steps["special"] = {
        int(at): (did, arrays.pop(f"special {at}")) for at, did in header["special"].items()
    }
    return mark_from(header["mark"], arrays, strings), names, {**header, **steps}
