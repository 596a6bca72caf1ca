"""What travels between the stages: tables as bytes, in Arrow's stream format."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.ipc


def table_bytes(table: pa.Table | pa.RecordBatch) -> bytes:
    """Return a table as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write(table)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def table_of_bytes(data: bytes) -> pa.Table:
    """Return the table that `table_bytes` wrote, without copying it."""
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        return reader.read_all()
