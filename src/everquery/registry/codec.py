"""Changes as bytes: what a row of the log holds.

A few queries are JSON, as a user wrote them; many are columns in Arrow's format.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import fields
from datetime import timedelta
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from everquery.errors import EverqueryError, RegistryError
from everquery.queries import Interval, Query
from everquery.queries.begin import Begin
from everquery.queries.block import QueryBlock, check_fit
from everquery.queries.changes import (
    MODES,
    Change,
    Deregister,
    Mode,
    Pause,
    Register,
    RegisterBlocks,
    Resume,
)
from everquery.queries.known import KNOWN
from everquery.queries.spec import LONGEST_ID, bad_text
from everquery.registry.block_codec import pack_blocks, unpack_blocks
from everquery.stream import Stream

CHUNK = 131_072  # queries in a row of the log
LOST = "lost"  # a row that a repair put in the place of a damaged one
TOGETHER = " +"  # ends an operation whose row is applied together with the next one, or not at all

_SPECS: dict[str, Mode] = {mode: mode for mode in MODES}
_BLOCKS: dict[str, Mode] = {f"{mode} blocks": mode for mode in MODES}
BEGIN = " since"  # ends an operation whose queries begin in the past, which its payload begins with
_LENGTH = 4  # bytes that say how long that is
_APART = ("id", "box")  # fields that are written in their own way

_BY_IDS: dict[str, type[Deregister | Pause | Resume]] = {
    "deregister": Deregister,
    "pause": Pause,
    "resume": Resume,
    # The queries that must have ended in a row that is lost: each is registered again later.
    LOST: Deregister,
}


T = TypeVar("T")


class UnknownOperationError(RegistryError):
    """A newer everquery wrote this row."""


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
                yield _with_begin(change, change.mode, len(rows), json.dumps(rows).encode())
        case RegisterBlocks():
            for blocks in _chunks(change.blocks, queries or CHUNK):
                size = sum(len(block) for block in blocks)
                packed = pack_blocks(blocks, stream)
                yield _with_begin(change, f"{change.mode} blocks", size, packed)
        case Deregister() | Pause() | Resume():
            operation = next(name for name, kind in _BY_IDS.items() if isinstance(change, kind))
            for ids in _runs(change.ids.to_pylist(), queries):
                yield operation, len(ids), json.dumps(ids).encode()


def _with_begin(
    change: Register | RegisterBlocks, operation: str, queries: int, payload: bytes
) -> EncodedRow:
    """Return a row that also says where in the past its queries begin, if they do."""
    if change.begin is None:
        return operation, queries, payload
    said = json.dumps(change.begin.as_json()).encode()
    return operation + BEGIN, queries, len(said).to_bytes(_LENGTH, "little") + said + payload


def _begin_of(operation: str, payload: bytes) -> tuple[Begin | None, str, bytes]:
    """Return where queries begin, and the operation and the payload without that."""
    if not operation.endswith(BEGIN):
        return None, operation, payload
    end = _LENGTH + int.from_bytes(payload[:_LENGTH], "little")
    try:
        begin = Begin.of_json(json.loads(payload[_LENGTH:end]))
    except (ValueError, RecursionError) as error:
        raise RegistryError(f"it does not say where queries begin: {error}") from error
    return begin, operation.removesuffix(BEGIN), payload[end:]


def decode_change(operation: str, payload: bytes, stream: Stream) -> Change:
    """Return the change of a row of the log.

    Raises
    ------
    RegistryError
        If the row holds none that could have been made on this stream.
    """
    begin, operation, payload = _begin_of(operation.removesuffix(TOGETHER), payload)
    if operation in _SPECS:
        queries = tuple(_read_specs(_read_json(payload), stream))
        return Register(queries, _SPECS[operation], begin)
    if operation in _BLOCKS:
        return RegisterBlocks(unpack_blocks(payload, stream), _BLOCKS[operation], begin)
    if operation in _BY_IDS:
        ids = _read_json(payload)
        for query_id in ids:
            reason = bad_text(query_id, "query id", LONGEST_ID)
            if reason:
                raise RegistryError(reason)
        return _BY_IDS[operation](pa.array(ids, pa.string()))
    raise UnknownOperationError(
        f"the registry holds a change {operation!r} that this everquery does not know; upgrade it"
    )


def holds_blocks(operation: str) -> bool:
    """Tell whether an operation's payload is columns, not JSON."""
    return operation.removesuffix(TOGETHER) in _BLOCKS


def holds_specs(operation: str) -> bool:
    """Tell whether an operation's payload is queries as JSON."""
    return operation.removesuffix(TOGETHER).removesuffix(BEGIN) in _SPECS


def names_in(change: Change) -> int:
    """Return how many queries a change names."""
    match change:
        case Register():
            return len(change.queries)
        case RegisterBlocks():
            return sum(len(block) for block in change.blocks)
        case _:
            return len(change.ids)


def _read_json(payload: bytes) -> list[Any]:
    try:
        read = json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise RegistryError(f"its JSON can't be read: {error}") from error
    if not isinstance(read, list):
        raise RegistryError("its JSON is no list")
    return read


def _read_specs(rows: list[Any], stream: Stream) -> Iterator[Query]:
    """Yield queries that fit the stream, each id once."""
    seen = set()
    for row in rows:
        try:
            query = _spec_of_json(row)
            check_fit(query, stream)
        except EverqueryError as error:
            raise RegistryError(str(error)) from error
        except (TypeError, ValueError, KeyError, AttributeError, ArithmeticError) as error:
            raise RegistryError(f"it holds no query: {type(error).__name__}: {error}") from error
        if query.id in seen:
            raise RegistryError(f"query {query.id!r} is there twice")
        seen.add(query.id)
        yield query


def _spec_as_json(query: Query) -> dict[str, Any]:
    spec: dict[str, Any] = {"kind": query.kind, "id": query.id}
    if query.boxed:
        spec["box"] = {name: [end.lo, end.hi, end.closed] for name, end in query.box.items()}
    for name, default in _further_fields(type(query)):
        value = getattr(query, name)
        if value != default:
            if name == "labels":
                value = dict(value)
            elif isinstance(value, Interval):
                value = [value.lo, value.hi, value.closed]
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


def _spec_of_json(spec: dict[str, Any]) -> Query:
    known = KNOWN.get(spec.pop("kind"))
    if known is None:
        raise RegistryError("the registry holds a kind of query that this everquery lacks; upgrade")
    kind = known.spec
    if kind.boxed:
        spec["box"] = {name: Interval(*ends) for name, ends in spec["box"].items()}
    if kind.value_range is not None and kind.value_range.name in spec:
        spec[kind.value_range.name] = Interval(*spec[kind.value_range.name])
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
