"""What dead letters must be: a small Arrow stream of known columns, which nothing unpacks."""

from __future__ import annotations

import struct

import pyarrow as pa
import pyarrow.ipc

from everquery.shard.checks.invariants import Column, Contents, refuse
from everquery.state.dead_letters import KEPT
from everquery.state.events import REASONS
from everquery.stream import Stream

LETTERS = {
    "dead_letters.kept": Column("uint8", ("letter bytes",)),
    "dead_letters.counts": Column("int64", ("reasons",), least=0, below=2**62),
}


def check_letters(contents: Contents, stream: Stream, time: pa.DataType | None) -> None:
    """Raise if counts or kept letters can't be."""
    contents.check(LETTERS)
    if contents.sizes["reasons"] > len(REASONS):
        refuse(
            f"events are refused for {contents.sizes['reasons']} reasons; {len(REASONS)} are known"
        )
    content = contents["dead_letters.kept"].tobytes()
    try:
        _check_unpacked(content)
        with pa.ipc.open_stream(content) as reader:
            _check_schema(reader.schema, stream, time)
            for batch in reader:
                if batch.num_rows > KEPT:
                    refuse(f"it keeps {batch.num_rows} dead letters in a row")
                batch.validate(full=True)
    except (pa.ArrowException, OSError, struct.error, UnicodeError) as error:
        refuse(f"dead letters can't be read ({str(error)[:200]})")


def _check_unpacked(content: bytes) -> None:
    """Raise if a message's body is compressed: what it says of its size would be allocated."""
    for message in pa.ipc.MessageReader.open_stream(content):
        if message.type == "dictionary":
            refuse("dead letters have dictionaries")
        if message.type == "record batch" and _has_field(message.metadata.to_pybytes(), (2, 3)):
            refuse("dead letters are compressed")


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


def _check_schema(schema: pa.Schema, stream: Stream, time: pa.DataType | None) -> None:
    """Raise if columns are not those that `everquery.state.dead_letters` keeps."""
    names = ["position", "reason", "detail", "key", "time", *stream.attributes]
    if schema.names != names:
        refuse("dead letters have other columns")
    allowed = {
        "position": (pa.int64(),),
        "reason": (pa.string(),),
        "detail": (pa.string(),),
        "key": (pa.string(), pa.large_string(), pa.int64(), pa.null()),
        "time": (pa.null(), pa.int64()) if time is None else (pa.null(), time),
    }
    for field in schema:
        if field.type not in allowed.get(field.name, (pa.float64(),)):
            refuse(f"dead letters have {field.name!r} as {field.type}")
