"""Many queries as bytes: their columns in Arrow's format, packed and compressed.

The bytes come from a database that others may have written to, so nothing in them is believed:
sizes are bounded by what is really there before memory is taken for them, and the columns by the
checks of `everquery.registry.block_checks`.
"""

from __future__ import annotations

import contextlib
import json
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc

from everquery.errors import RegistryError
from everquery.queries import Query
from everquery.queries.block import TEXTS, QueryBlock
from everquery.queries.known import KNOWN
from everquery.queries.spans import SpanColumn
from everquery.registry.block_checks import check_blocks
from everquery.stream import NAMELESS, Stream

CODEC = "lz4"
EMPTY_BOXES = "empty boxes"  # in the metadata of blocks that say which boxes are empty
MOST_TIMES = 256  # LZ4 makes nothing smaller than a 255th
_UNREADABLE = (
    *(pa.ArrowException, OSError, ValueError, KeyError, TypeError, OverflowError),
    *(RecursionError, struct.error),
)
_MESSAGE_HEADER, _BATCH_COMPRESSION = 2, 3  # fields of Arrow's Message and RecordBatch
_COUNT, _SIZES = struct.Struct("<I"), struct.Struct("<QQ")

_STRINGS = ("id", *TEXTS)
_NUMBERS = {"i": pa.int64(), "f": pa.float64()}


def pack_blocks(blocks: list[QueryBlock], stream: Stream) -> bytes:
    """Return blocks as bytes: how many, their packed and plain sizes, and each compressed."""
    return pack_tables([_table(block, stream) for block in blocks])


def pack_tables(tables: list[pa.Table]) -> bytes:
    """Return tables of queries as bytes."""
    plain = [_table_bytes(table) for table in tables]
    packed = [pa.compress(part, codec=CODEC, asbytes=True) for part in plain]
    sizes = (_SIZES.pack(len(a), len(b)) for a, b in zip(packed, plain, strict=True))
    return b"".join((_COUNT.pack(len(packed)), *sizes, *packed))


def unpack_blocks(payload: bytes, stream: Stream) -> tuple[QueryBlock, ...]:
    """Return the blocks that bytes hold.

    Raises
    ------
    RegistryError
        If they hold none that could have been registered.
    """
    try:
        blocks = tuple(_block_of_bytes(part, stream) for part in _parts(payload))
    except _UNREADABLE as error:
        lines = str(error).splitlines() or [type(error).__name__]
        raise RegistryError(f"its columns can't be read: {lines[0]}") from error
    check_blocks(blocks, stream)
    return blocks


def _parts(payload: bytes) -> Iterator[pa.Buffer]:
    """Yield the parts of a payload, each as large as it says it is."""
    whole = memoryview(payload)
    if len(whole) < _COUNT.size:
        raise ValueError("they are cut")
    (count,) = _COUNT.unpack_from(whole)
    at = _COUNT.size + count * _SIZES.size
    if not count or at > len(whole):
        raise ValueError(f"they should be of {count:,} parts, and are not")
    sizes = [_SIZES.unpack_from(whole, _COUNT.size + i * _SIZES.size) for i in range(count)]
    if at + sum(packed for packed, _ in sizes) != len(whole):
        raise ValueError(f"they have {len(whole):,} bytes, and should have another number")
    for packed, plain in sizes:
        if plain > MOST_TIMES * packed:
            raise ValueError(f"{packed:,} bytes can't hold {plain:,} bytes of columns")
        yield pa.decompress(whole[at : at + packed], decompressed_size=plain, codec=CODEC)
        at += packed


def _table(block: QueryBlock, stream: Stream) -> pa.Table:
    columns: dict[str, Any] = {"id": block.ids}
    first, last = int(block.row[0]), int(block.row[-1])
    if last - first >= len(block):  # else they are all the rows from the first to the last
        columns["row"] = block.row
    if block.keys is not None:
        columns["key"] = block.keys
    for i, attribute in enumerate(block.attributes):
        columns[f"{attribute}.low"] = block.low[i]
        columns[f"{attribute}.high"] = block.high[i]
    columns.update(block.texts())
    columns.update({f"option.{name}": values for name, values in block.options.items()})
    added = {each.name for each in KNOWN[block.kind].spec.numbers if each.added}
    columns.update(
        {
            f"number.{name}": values
            for name, values in block.numbers.items()
            if name not in added or values.any()
        }
    )
    for name, spans in block.spans.items():
        columns[f"span.{name}.amount"] = spans.amount
        columns[f"span.{name}.unit"] = spans.unit
    names = [stream.places[a] for a in block.attributes]
    meta = {
        "kind": block.kind,
        "attributes": json.dumps(names),
        "first row": str(first),
        EMPTY_BOXES: "1",
    }
    return pa.table(columns).replace_schema_metadata(meta)


def _table_bytes(table: pa.Table) -> pa.Buffer:
    """Return a table in Arrow's format, not compressed."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _block_of_bytes(data: pa.Buffer, stream: Stream) -> QueryBlock:
    _check_messages(data)
    with pa.ipc.open_stream(data) as reader:
        meta = reader.schema.metadata or {}
        kind = meta[b"kind"].decode()
        if kind not in KNOWN:
            raise ValueError(f"they are of the kind {kind!r}, which this everquery lacks")
        names = json.loads(meta[b"attributes"])
        attributes = tuple(stream.attributes.index(name) if name else NAMELESS for name in names)
        _check_schema(reader.schema, KNOWN[kind].spec, stored := _places(reader.schema))
        columns = _columns(reader)
    size = len(columns["id"])
    first = int(meta[b"first row"])
    low = np.stack([np.asarray(columns[f"{a}.low"]) for a in stored])
    high = np.stack([np.asarray(columns[f"{a}.high"]) for a in stored])
    unlimited = np.all((low == -np.inf) & np.isnan(high)) and KNOWN[kind].spec.boxed
    if unlimited and attributes == (0,) and EMPTY_BOXES.encode() not in meta:
        # Empty boxes were once written as ranges without limits of the first attribute.
        attributes = (NAMELESS,)
    row = np.asarray(columns["row"]) if "row" in columns else np.arange(first, first + size)
    return QueryBlock(
        kind=kind,
        row=row,
        ids=columns["id"],
        keys=columns.get("key"),
        attributes=attributes,
        low=low,
        high=high,
        options=_prefixed(columns, "option."),
        **{name: columns.get(name) for name in TEXTS},
        spans=_spans_of(columns),
        numbers={
            **{each.name: each.column_of([None] * size) for each in KNOWN[kind].spec.numbers},
            **_prefixed(columns, "number."),
        },
    )


def _check_messages(data: pa.Buffer) -> None:
    """Raise if Arrow would unpack something: a few bytes may say that they stand for 100 GB."""
    for message in pa.ipc.MessageReader.open_stream(data):
        if message.type not in ("schema", "record batch"):
            raise ValueError(f"there is no place for a {message.type}")
        if message.type == "record batch" and _is_compressed(message.metadata.to_pybytes()):
            raise ValueError("their buffers are compressed once more")


def _is_compressed(metadata: bytes) -> bool:
    """Tell whether the header of a record batch, a flatbuffer, names a compression."""

    def offset(table: int, field: int) -> int:
        vtable = table - struct.unpack_from("<i", metadata, table)[0]
        at = 4 + 2 * field
        if at >= struct.unpack_from("<H", metadata, vtable)[0]:
            return 0
        return int(struct.unpack_from("<H", metadata, vtable + at)[0])

    (message,) = struct.unpack_from("<I", metadata)
    at = message + offset(message, _MESSAGE_HEADER)
    batch = at + struct.unpack_from("<I", metadata, at)[0]
    return offset(batch, _BATCH_COMPRESSION) != 0


def _columns(reader: pa.RecordBatchReader) -> dict[str, pa.Array]:
    """Return the columns of the one batch that there is, with nothing beyond their buffers."""
    batches = []
    for batch in reader:
        # Length and buffers are compared here, and texts looked through, before all else.
        batch.validate(full=True)
        batches.append(batch)
        if len(batches) > 1:
            raise ValueError("they are of more than one batch")
    if not batches or not batches[0].num_rows:
        raise ValueError("they hold no query")
    columns = dict(zip(reader.schema.names, batches[0].columns, strict=True))
    for name, column in columns.items():
        if column.null_count and name not in TEXTS:
            raise ValueError(f"the column {name!r} has nulls")
    return columns


def _places(schema: pa.Schema) -> list[str]:
    return [name.removesuffix(".low") for name in schema.names if name.endswith(".low")]


def _check_schema(schema: pa.Schema, spec: type[Query], stored: list[str]) -> None:
    """Raise if columns are not those of such queries, each once and of its type."""
    types = {
        **{name: pa.string() for name in _STRINGS},
        **{f"{place}.{end}": pa.float64() for place in stored for end in ("low", "high")},
        **{f"option.{name}": pa.bool_() for name in spec.options},
        **{f"number.{each.name}": _NUMBERS[each.dtype.kind] for each in spec.numbers},
        **{f"span.{name}.amount": pa.int64() for name in spec.spans},
        **{f"span.{name}.unit": pa.uint8() for name in spec.spans},
        "row": pa.int64(),
    }
    for column in schema:
        fits = column.type == types.get(column.name)
        if column.name == "key":
            fits = column.type in (pa.string(), pa.int64())
        if not fits or schema.names.count(column.name) > 1:
            raise ValueError(f"there is no column {column.name!r} of type {column.type}")
    optional = {*TEXTS, "row", *(name for name in types if name.startswith("span."))}
    optional |= {f"number.{each.name}" for each in spec.numbers if each.added}
    for name in types.keys() - optional - set(schema.names):
        raise ValueError(f"the column {name!r} is missing")


def _prefixed(columns: dict[str, pa.Array], prefix: str) -> dict[str, Any]:
    """Return the columns whose names begin with a prefix, without it."""
    return {
        name.removeprefix(prefix): np.asarray(values)
        for name, values in columns.items()
        if name.startswith(prefix)
    }


def _spans_of(columns: dict[str, pa.Array]) -> dict[str, SpanColumn]:
    named = [name.split(".")[1] for name in columns if name.startswith("span.")]
    return {
        name: SpanColumn(
            np.array(columns[f"span.{name}.amount"]), np.array(columns[f"span.{name}.unit"])
        )
        for name in dict.fromkeys(named)
    }


def attributes_of_parts(payload: bytes) -> set[str]:
    """Return the attributes that queries name, as far as the bytes can be read."""
    named: set[str] = set()
    with contextlib.suppress(*_UNREADABLE):
        for data in _parts(payload):
            _check_messages(data)
            with pa.ipc.open_stream(data) as reader:
                meta = reader.schema.metadata or {}
            named.update(map(str, json.loads(meta[b"attributes"])))
    return named - {""}


def ids_of_parts(payload: bytes) -> list[str]:
    """Return the ids of the parts of a damaged payload that can still be read."""
    found: list[str] = []
    parts = _parts(payload)
    while True:
        try:
            data = next(parts)
        except StopIteration:
            return found
        except _UNREADABLE:
            return found  # where the next one begins is not known
        with contextlib.suppress(*_UNREADABLE):
            _check_messages(data)
            with pa.ipc.open_stream(data) as reader:
                batch = next(iter(reader))
            ids = batch.column("id")
            ids.validate(full=True)
            found += [each for each in ids.to_pylist() if isinstance(each, str)]
