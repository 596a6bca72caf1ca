"""What travels between the stages: tables as bytes, in Arrow's stream format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import pyarrow as pa
import pyarrow.ipc

Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)


def table_of_bytes(data: bytes | pa.Buffer) -> pa.Table:
    """Return the table that `everquery.core.arrow_bytes.table_bytes` wrote, without copying it."""
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        return reader.read_all()


def cut(rows: Rows, most_bytes: int) -> Iterator[Rows]:
    """Yield runs of rows of at most so many bytes each; a row that has more by itself comes alone.

    Columns must not have dictionaries, which every run has as a whole.
    """
    size = rows.nbytes
    if size <= most_bytes or rows.num_rows <= 1:
        yield rows
        return
    some = max(1, rows.num_rows * most_bytes // size)
    for begin in range(0, rows.num_rows, some):
        yield from cut(rows.slice(begin, some), most_bytes)  # rows are not all as wide
