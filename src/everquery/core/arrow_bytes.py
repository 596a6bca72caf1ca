"""Small Arrow tables as bytes, in Arrow's stream format, read as if a stranger had written them."""

from __future__ import annotations

import struct

import pyarrow as pa
import pyarrow.ipc

from everquery.core.invariants import refuse


def table_bytes(table: pa.Table | pa.RecordBatch) -> bytes:
    """Return a table as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write(table)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def checked_table(content: bytes, what: str) -> pa.Table:
    """Return a table that was saved; raise if it can't be read, or is not plain.

    Parameters
    ----------
    what : str
        What its rows are, for the error.
    """
    try:
        _check_unpacked(content, what)
        with pa.ipc.open_stream(content) as reader:
            table = reader.read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError, struct.error, UnicodeError) as error:
        refuse(f"{what} can't be read ({str(error)[:200]})")
    return table


def _check_unpacked(content: bytes, what: str) -> None:
    """Raise if a message's body is compressed: what it says of its size would be allocated."""
    for message in pa.ipc.MessageReader.open_stream(content):
        if message.type == "dictionary":
            refuse(f"{what} have dictionaries")
        if message.type == "record batch" and _has_field(message.metadata.to_pybytes(), (2, 3)):
            refuse(f"{what} are compressed")


def _has_field(metadata: bytes, path: tuple[int, ...]) -> bool:
    """Tell whether a flatbuffer has a field, given by the numbers of the fields that lead to it."""
    (table,) = struct.unpack_from("<I", metadata, 0)
    for place, field in enumerate(path):
        back = struct.unpack_from("<i", metadata, table)[0]
        size = struct.unpack_from("<H", metadata, table - back)[0]
        at = 4 + 2 * field
        offset = struct.unpack_from("<H", metadata, table - back + at)[0] if at < size else 0
        if not offset:
            return False
        if place < len(path) - 1:
            table += offset + struct.unpack_from("<I", metadata, table + offset)[0]
    return True
