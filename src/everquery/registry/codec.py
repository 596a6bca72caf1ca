"""Changes as bytes: what a row of the log holds.

A few queries are JSON, as a user wrote them; many are columns in Arrow's format.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import fields
from datetime import timedelta
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.ipc

from everquery.errors import RegistryError
from everquery.queries import Interval, Query
from everquery.queries.block import QueryBlock
from everquery.queries.changes import Change, Deregister, Pause, Register, RegisterBlocks, Resume
from everquery.queries.spans import SpanColumn
from everquery.stream import Stream

CHUNK = 131_072  # queries in a row of the log

_APART = ("id", "box")  # fields that are written in their own way

_BY_IDS: dict[str, type[Deregister | Pause | Resume]] = {
    "deregister": Deregister,
    "pause": Pause,
    "resume": Resume,
}


T = TypeVar("T")

EncodedRow = tuple[str, int, bytes]
"""Operation, how many queries it names, payload."""


def encode_change(
    change: Change, stream: Stream, *, queries: int | None = None
) -> Iterator[EncodedRow]:
    """Yield the rows of the log that hold a change, each of which names at most so many queries.

    Without a limit, only tables of queries are cut, by `CHUNK`.
    """
    match change:
        case Register():
            for some in _runs(change.queries, queries):
                rows = [_spec_as_json(query) for query in some]
                yield "register", len(rows), json.dumps(rows).encode()
        case RegisterBlocks():
            for blocks in _chunks(change.blocks, queries or CHUNK):
                size = sum(len(block) for block in blocks)
                yield "register blocks", size, _pack([_block_bytes(b, stream) for b in blocks])
        case Deregister() | Pause() | Resume():
            operation = next(name for name, kind in _BY_IDS.items() if isinstance(change, kind))
            for ids in _runs(change.ids.to_pylist(), queries):
                yield operation, len(ids), json.dumps(ids).encode()


def decode_change(
    operation: str, payload: bytes, stream: Stream, kinds: dict[str, type[Query]]
) -> Change:
    """Return the change of a row of the log."""
    if operation == "register":
        return Register(tuple(_spec_of_json(row, kinds) for row in json.loads(payload)))
    if operation == "register blocks":
        return RegisterBlocks(tuple(_block_of_bytes(part, stream) for part in _unpack(payload)))
    if operation in _BY_IDS:
        return _BY_IDS[operation](pa.array(json.loads(payload), pa.string()))
    raise RegistryError(
        f"the registry holds a change {operation!r} that this everquery does not know; upgrade it"
    )


def _spec_as_json(query: Query) -> dict[str, Any]:
    spec: dict[str, Any] = {"kind": query.kind, "id": query.id}
    if query.boxed:
        spec["box"] = {name: [end.lo, end.hi, end.closed] for name, end in query.box.items()}
    for name, default in _further_fields(type(query)):
        value = getattr(query, name)
        if value != default:
            if name == "labels":
                value = dict(value)
            elif isinstance(value, timedelta):
                value = {"microseconds": value // timedelta(microseconds=1)}
            spec[name] = value
    return spec


_FURTHER_FIELDS: dict[type[Query], tuple[tuple[str, Any], ...]] = {}


def _further_fields(spec: type[Query]) -> tuple[tuple[str, Any], ...]:
    """Return the fields that are written where they are not the default, with that."""
    if spec not in _FURTHER_FIELDS:
        further = [field for field in fields(spec) if field.name not in _APART]
        _FURTHER_FIELDS[spec] = tuple((field.name, field.default) for field in further)
    return _FURTHER_FIELDS[spec]


def _spec_of_json(spec: dict[str, Any], kinds: dict[str, type[Query]]) -> Query:
    kind = kinds.get(spec.pop("kind"))
    if kind is None:
        raise RegistryError("the registry holds a kind of query that this everquery lacks; upgrade")
    if kind.boxed:
        spec["box"] = {name: Interval(*ends) for name, ends in spec["box"].items()}
    for name in kind.spans:
        if isinstance(spec.get(name), dict):
            spec[name] = timedelta(**spec[name])
    return kind(**spec)


def _runs(values: Sequence[T], most: int | None) -> Iterator[Sequence[T]]:
    """Yield runs of at most so many values; none, if there is no value."""
    for first in range(0, len(values), most or max(1, len(values))):
        yield values[first : first + most] if most else values


def _chunks(blocks: tuple[QueryBlock, ...], most: int) -> Iterator[list[QueryBlock]]:
    """Yield blocks cut so that each list holds a run of at most so many rows."""
    last = max((int(block.row[-1]) for block in blocks), default=-1)
    for first in range(0, last + 1, most):
        cut = []
        for block in blocks:
            begin, end = np.searchsorted(block.row, [first, first + most])
            if end > begin:
                cut.append(block.slice(int(begin), int(end)))
        if cut:
            yield cut


def _block_bytes(block: QueryBlock, stream: Stream) -> bytes:
    columns: dict[str, Any] = {"id": block.ids}
    first, last = int(block.row[0]), int(block.row[-1])
    if last - first >= len(block):  # else they are all the rows from the first to the last
        columns["row"] = block.row
    if block.keys is not None:
        columns["key"] = block.keys
    for i, attribute in enumerate(block.attributes):
        columns[f"{attribute}.low"] = block.low[i]
        columns[f"{attribute}.high"] = block.high[i]
    for name in ("owner", "labels"):
        if getattr(block, name) is not None:
            columns[name] = getattr(block, name)
    columns.update({f"option.{name}": values for name, values in block.options.items()})
    columns.update({f"number.{name}": values for name, values in block.numbers.items()})
    for name, spans in block.spans.items():
        columns[f"span.{name}.amount"] = spans.amount
        columns[f"span.{name}.unit"] = spans.unit
    names = [stream.attributes[a] for a in block.attributes]
    meta = {"kind": block.kind, "attributes": json.dumps(names), "first row": str(first)}
    table = pa.table(columns).replace_schema_metadata(meta)
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def _block_of_bytes(data: bytes, stream: Stream) -> QueryBlock:
    with pa.ipc.open_stream(data) as reader:
        table = reader.read_all().combine_chunks()
    meta = table.schema.metadata
    names = json.loads(meta[b"attributes"])
    attributes = tuple(stream.attributes.index(name) for name in names)
    columns = {name: table.column(name).chunk(0) for name in table.column_names}
    first = int(meta[b"first row"])
    row = np.asarray(columns["row"]) if "row" in columns else np.arange(first, first + len(table))
    stored = [name.removesuffix(".low") for name in columns if name.endswith(".low")]
    return QueryBlock(
        kind=meta[b"kind"].decode(),
        row=row,
        ids=columns["id"],
        keys=columns.get("key"),
        attributes=attributes,
        low=np.stack([np.asarray(columns[f"{a}.low"]) for a in stored]),
        high=np.stack([np.asarray(columns[f"{a}.high"]) for a in stored]),
        options=_prefixed(columns, "option."),
        owner=columns.get("owner"),
        labels=columns.get("labels"),
        spans=_spans_of(columns),
        numbers=_prefixed(columns, "number."),
    )


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


def _pack(parts: list[bytes]) -> bytes:
    sizes = struct.pack(f"<I{len(parts)}Q", len(parts), *(len(part) for part in parts))
    return b"".join((sizes, *parts))


def _unpack(payload: bytes) -> Iterator[bytes]:
    (count,) = struct.unpack_from("<I", payload)
    sizes = struct.unpack_from(f"<{count}Q", payload, 4)
    at = 4 + 8 * count
    for size in sizes:
        yield payload[at : at + size]
        at += size
