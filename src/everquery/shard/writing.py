"""Notices as Arrow tables: one id each, no strings copied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from everquery.core.arrays import Array, Bools, Bytes, Int32s, Int64s
from everquery.core.crew import ALONE, Crew
from everquery.core.times import as_time
from everquery.shard.constant_columns import Nothing
from everquery.shard.layout import Layout
from everquery.shard.notice_columns import NO_DIGEST, NO_KEY, UNKNOWN, Begins, write_columns
from everquery.shard.outcomes import OutcomeTable
from everquery.shard.record import Notices
from everquery.state.catalog import Catalog
from everquery.state.keys import KeyTable

_INT32, _INT64, _FLOAT64, _ID = pa.int32(), pa.int64(), pa.float64(), pa.binary(16)
_NULL, _DATE32 = pa.null(), pa.date32()
_TEXT, _NUMBER = pa.dictionary(_INT32, pa.string()), pa.dictionary(_INT32, _INT64)
_INT32S, _FLOATS = np.dtype(np.int32), np.dtype(np.float64)
KIND = Begins._fields.index("kind")
WORTH = 16_384  # notices that are worth a thread
_NO_SALT = np.empty(0, np.uint64)
_NONE_HELD, _NO_KEYS = Nothing(_INT64), Nothing(_INT32)


@dataclass(frozen=True, slots=True)
class Names:
    """What notices are written with: names and digests of queries and keys, owners, labels."""

    catalog: Catalog
    keys: KeyTable


def write_notices(
    notices: Notices, names: Names, outcomes: OutcomeTable, layout: Layout, crew: Crew = ALONE
) -> pa.Table:
    """Return notices as a table."""
    n = len(notices)
    room = _Room(n, len(notices.events.values))
    seen = _write(notices, names, outcomes, room, crew)
    begins = room.begins
    if notices.held is None:
        held = _NONE_HELD.column(n)
    else:
        held = pa.array(notices.held, mask=notices.held == 0)
    kind, event, reason = (
        writer.column(notices.code, room.part(begin, n))
        for writer, begin in zip(outcomes.writers(seen), begins[KIND:], strict=False)
    )
    columns = [
        room.names(begins.slot, _TEXT, names.catalog.names.strings()),
        kind,
        event,
        _keys(room, names.keys.arrow(), seen),
        _times(room, notices.events.time.dtype, layout.time_type),
        room.column(begins.seq, _INT64, 8),
        reason,
        *(room.values(a, bool(seen[UNKNOWN + a])) for a in range(len(notices.events.values))),
        held,
    ]
    for name in layout.figures:
        if name in notices.figures:
            mask = outcomes.lacks(name, notices.code)
            columns.append(_figures(notices.figures[name], mask))
        else:
            columns.append(outcomes.nothing[name].column(n))
    if layout.labelled:
        texts = names.catalog.texts.strings()
        places = names.catalog.owner, names.catalog.labels
        columns += [_texts(codes, notices.slot, texts) for codes in places]
    columns.append(room.column(begins.ids, _ID, 16))
    return pa.Table.from_arrays(columns, schema=layout.schema)


class _Room:
    """One piece of Arrow's memory for all columns that `write_columns` writes.

    What it has given back, it gives out again; and one array is passed to the loop, not nine.
    """

    def __init__(self, n: int, attributes: int) -> None:
        self.n = n
        self.begins = Begins.of(n, attributes)
        self._buffer = pa.allocate_buffer(self.begins.end)
        self.all: Bytes = np.frombuffer(self._buffer, np.uint8)

    def part(self, begin: int, size: int) -> pa.Buffer:
        """Return some bytes."""
        return self._buffer.slice(begin, size)

    def column(self, begin: int, kind: pa.DataType, width: int) -> pa.Array:
        """Return a column of a type of so many bytes."""
        part = self._buffer.slice(begin, width * self.n)
        return pa.Array.from_buffers(kind, self.n, [None, part])

    def names(
        self, begin: int, kind: pa.DataType, names: pa.Array, valid: pa.Buffer | None = None
    ) -> pa.Array:
        """Return a column of names, given by number; `valid` has the bits, if some are null."""
        part = self._buffer.slice(begin, 4 * self.n)
        return pa.DictionaryArray.from_buffers(kind, self.n, [valid, part], names)

    def numbers(self, begin: int, kind: np.dtype[Any]) -> Array:
        """Return a column as an array."""
        return self.all[begin : begin + kind.itemsize * self.n].view(kind)

    def values(self, attribute: int, unknown: bool) -> pa.Array:
        """Return the values of an attribute, null where they are NaN."""
        begin = self.begins.values + 8 * self.n * attribute
        if unknown:
            return pa.array(self.numbers(begin, _FLOATS), from_pandas=True)
        return self.column(begin, _FLOAT64, 8)


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
    begins = tuple(room.begins)  # of a named one Numba looks up the class at every call

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
            outcomes.words,
            begins,
            room.all,
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
    kind = _NUMBER if names.type == _INT64 else _TEXT
    valid = None
    if seen[NO_KEY]:
        valid = pa.array(room.numbers(room.begins.key, _INT32S) >= 0).buffers()[1]
    return room.names(room.begins.key, kind, names, valid)


def _times(room: _Room, dtype: np.dtype[Any], kind: pa.DataType) -> pa.Array:
    if kind == _NULL:
        return pa.nulls(room.n)
    if kind == _DATE32:
        return as_time(room.numbers(room.begins.time, dtype), kind)
    return room.column(room.begins.time, kind, 8)


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
