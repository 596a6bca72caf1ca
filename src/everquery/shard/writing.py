"""Notices as Arrow tables: one id each, no strings copied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from everquery.core.arrays import Array, Bools, Bytes, Floats, Int32s, Int64s, Uint64s
from everquery.core.crew import ALONE, Crew
from everquery.core.times import as_time
from everquery.kinds import KINDS, Kind
from everquery.shard.constant_columns import Nothing
from everquery.shard.notice_columns import NO_DIGEST, NO_KEY, UNKNOWN, write_columns
from everquery.shard.outcomes import OutcomeTable, columns_of
from everquery.shard.record import Notices
from everquery.state.accepted import Events
from everquery.state.catalog import Catalog
from everquery.state.keys import KeyTable
from everquery.stream import OWNER_COLUMNS, Stream

_INT32, _INT64, _FLOAT64, _ID = pa.int32(), pa.int64(), pa.float64(), pa.binary(16)
_INT32S, _INT64S, _UINT64S, _FLOATS = map(np.dtype, ("int32", "int64", "uint64", "float64"))
WORTH = 16_384  # notices that are worth a thread
_NO_SALT = np.empty(0, np.uint64)
_NONE_HELD, _NO_KEYS = Nothing(_INT64), Nothing(_INT32)


def notice_schema(
    stream: Stream,
    time_type: pa.DataType,
    key_type: pa.DataType,
    *,
    labelled: bool = False,
    carried: Sequence[str] = (),
    kinds: Mapping[str, Kind] = KINDS,
) -> pa.Schema:
    """Return the schema of a stream's notices.

    Parameters
    ----------
    labelled : bool
        Whether they tell owner and labels too.
    carried : names of columns of events that are added to them
    """
    text = pa.dictionary(pa.int32(), pa.string())
    word = pa.dictionary(pa.int8(), pa.string())
    names = figure_names(stream, carried, kinds)
    return pa.schema(
        [
            ("query_id", text),
            ("kind", word),
            ("event", word),
            ("key", pa.dictionary(pa.int32(), key_type)),
            ("time", time_type),
            ("seq", pa.int64()),
            ("reason", word),
            *((name, pa.float64()) for name in stream.attributes),
            ("held_back", pa.int64()),
            *((names[name], column.type) for name, column in columns_of(kinds).items()),
            *((name, text) for name in OWNER_COLUMNS if labelled),
            ("notice_id", pa.binary(16)),
        ]
    )


def figure_names(
    stream: Stream, carried: Sequence[str] = (), kinds: Mapping[str, Kind] = KINDS
) -> dict[str, str]:
    """Return what the columns of kinds are called; some names may be taken by columns of events."""
    taken = {*stream.attributes, *carried}
    names = {}
    for name in columns_of(kinds):
        names[name] = in_full(name, kinds) if name in taken else name
    return names


def in_full(name: str, kinds: Mapping[str, Kind] = KINDS) -> str:
    """Return what a column of a kind is called where its name is taken: the kind comes first."""
    for kind, found in kinds.items():
        if any(column.name == name for column in found.index.columns):
            return f"{kind}_{name}"
    raise KeyError(name)


@dataclass(frozen=True, slots=True)
class Names:
    """What notices are written with: names and digests of queries and keys, owners, labels."""

    catalog: Catalog
    keys: KeyTable


def write_notices(
    notices: Notices,
    names: Names,
    outcomes: OutcomeTable,
    figures: Mapping[str, str],
    schema: pa.Schema,
    crew: Crew = ALONE,
) -> pa.Table:
    """Return notices as a table; `figures` has the names of the kinds' columns."""
    n = len(notices)
    room = _Room(n, notices.events)
    seen = _write(notices, names, outcomes, room, crew)
    if notices.held is None:
        held = _NONE_HELD.column(n)
    else:
        held = pa.array(notices.held, mask=notices.held == 0)
    kind, event, reason = outcomes.words(notices.code, seen)
    columns = [
        pa.DictionaryArray.from_arrays(
            room.column("slot", _INT32), names.catalog.names.strings(), safe=False
        ),
        kind,
        event,
        _keys(room, names.keys.arrow(), seen),
        _times(room, schema.field("time").type),
        room.column("seq", _INT64),
        reason,
        *(room.values(a, bool(seen[UNKNOWN + a])) for a in range(len(notices.events.values))),
        held,
    ]
    for name in figures:
        if name in notices.figures:
            mask = outcomes.lacks(name, notices.code)
            columns.append(_figures(notices.figures[name], mask))
        else:
            columns.append(outcomes.nothing[name].column(n))
    if schema.get_field_index(OWNER_COLUMNS[0]) >= 0:
        texts = names.catalog.texts.strings()
        places = names.catalog.owner, names.catalog.labels
        columns += [_texts(codes, notices.slot, texts) for codes in places]
    columns.append(room.column("ids", _ID))
    return pa.Table.from_arrays(columns, schema=schema)


class _Room:
    """Memory of Arrow's for the columns of notices; what it has given back, it gives out again."""

    def __init__(self, n: int, events: Events) -> None:
        self.n = n
        self._buffers: dict[str, pa.Buffer] = {}
        self.slot: Int32s = self._of("slot", _INT32S, n)
        self.key: Int32s = self._of("key", _INT32S, n)
        self.time: Array = self._of("time", events.time.dtype, n)
        self.seq: Int64s = self._of("seq", _INT64S, n)
        attributes = len(events.values)
        self.known: Floats = self._of("values", _FLOATS, attributes * n).reshape(attributes, n)
        self.ids: Uint64s = self._of("ids", _UINT64S, 2 * n)

    def _of(self, name: str, kind: np.dtype[Any], size: int) -> Array:
        buffer = self._buffers[name] = pa.allocate_buffer(kind.itemsize * size)
        return np.frombuffer(buffer, kind, size)

    def column(self, name: str, kind: pa.DataType, valid: pa.Buffer | None = None) -> pa.Array:
        """Return a column of a type; `valid` has the bits of those that are not null."""
        return pa.Array.from_buffers(kind, self.n, [valid, self._buffers[name]])

    def values(self, attribute: int, unknown: bool) -> pa.Array:
        """Return the values of an attribute, null where they are NaN."""
        if unknown:
            return pa.array(self.known[attribute], from_pandas=True)
        part = self._buffers["values"].slice(8 * self.n * attribute, 8 * self.n)
        return pa.Array.from_buffers(_FLOAT64, self.n, [None, part])


def _write(
    notices: Notices, names: Names, outcomes: OutcomeTable, room: _Room, crew: Crew
) -> Bytes:
    """Write the columns that follow from queries and events; return what `write_columns` saw.

    A key's first notice finds that it has no digest yet: then all is written again.
    """
    events = notices.events
    salt = _NO_SALT if notices.salt is None else notices.salt
    pieces = crew.pieces(len(notices), WORTH)
    queries, keys = names.catalog.digests(), names.keys.digests(None)

    def write(piece: tuple[int, int]) -> Bytes:
        begin, end = piece
        seen = np.zeros(UNKNOWN + len(events.values), np.uint8)
        write_columns(
            begin,
            end,
            notices.slot,
            notices.row,
            notices.code,
            salt,
            outcomes.hashes,
            queries,
            keys,
            names.keys.keyed,
            events.key,
            events.time,
            events.seq,
            events.values,
            room.slot,
            room.key,
            room.time,
            room.seq,
            room.known,
            room.ids,
            seen,
        )
        return seen

    def write_all() -> Bytes:
        first, *others = crew.map(write, pieces)
        for other in others:
            first |= other
        return first

    seen = write_all()
    if seen[NO_DIGEST]:
        keys = names.keys.digests(events.key[notices.row].astype(np.int64))
        seen = write_all()
    return seen


def _keys(room: _Room, names: pa.Array, seen: Bytes) -> pa.Array:
    """Return the column of keys; the ends of queries are about none."""
    if names.null_count:  # a stream without keys
        return pa.DictionaryArray.from_arrays(_NO_KEYS.column(room.n), names, safe=False)
    valid = pa.array(room.key >= 0).buffers()[1] if seen[NO_KEY] else None
    return pa.DictionaryArray.from_arrays(room.column("key", _INT32, valid), names, safe=False)


def _times(room: _Room, kind: pa.DataType) -> pa.Array:
    if pa.types.is_null(kind) or pa.types.is_date32(kind):
        return as_time(room.time, kind)
    return room.column("time", kind)


def _texts(codes: Int32s, slot: Int64s, texts: pa.Array) -> pa.Array:
    """Return the owners or labels of queries, by their places among all texts."""
    picked = np.full(slot.size, -1, np.int32)
    known = slot < codes.size
    picked[known] = codes[slot[known]]
    indices = pa.array(picked, mask=picked < 0)
    return pa.DictionaryArray.from_arrays(indices, texts, safe=False)


def _figures(column: Array, mask: Bools | None) -> pa.Array:
    """Return figures, null where there is no number, as the mean of nothing is."""
    if column.dtype == np.float64:
        unknown = np.isnan(column)
        if unknown.any():
            mask = unknown if mask is None else mask | unknown
    return pa.array(column, mask=mask)
