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


def plain_schema(notices: pa.Schema) -> pa.Schema:
    """Return the schema of notices that leave the process: without dictionaries, one position."""
    fields = [pa.field(field.name, _plain(field.type)) for field in notices]
    return pa.schema([*fields, pa.field("log_position", pa.int64())])


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    return pa.int64() if pa.types.is_null(kind) else kind  # the times of a stream without


def plain_notices(notices: pa.Table, position: int, schema: pa.Schema) -> pa.Table:
    """Return notices for other processes, and the version of the query set that they are of."""
    columns = [notices.column(name).cast(schema.field(name).type) for name in notices.column_names]
    columns.append(pa.repeat(pa.scalar(position, pa.int64()), notices.num_rows))
    return pa.Table.from_arrays(columns, schema=schema)
