"""Events from records whose values are JSON objects: one record is one event, whatever it holds.

Values are joined to lines and read in bulk, where each is surely one line. What can't be read so is
halved until little is left, which is read one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from everquery.core.python_values import exact_number, unread_column
from everquery.errors import InvalidStreamError
from everquery.sources.json_lines import count_objects, may_be_rounded, objects_in_bulk
from everquery.sources.json_values import UNFIT, Fit, Unfit, fit_of, members_of, text_of_value
from everquery.sources.text_values import single_array
from everquery.state.events import UNREADABLE, UNREADABLE_TYPE
from everquery.stream import Stream

FEW = 64  # records that are not worth another attempt in bulk
NO_RECORD = "a record"  # what is told of one that is no object


@dataclass(frozen=True, slots=True)
class _Part:
    """Some records as columns, and of the stream's columns the texts that do not fit them."""

    columns: dict[str, pa.Array]
    unread: dict[str, pa.Array]


@dataclass(frozen=True)
class JsonRecords:
    """Turns values of records into events.

    Attributes
    ----------
    stream : Stream
    schema : Arrow schema
        The columns to read, among them all of the stream's, and their types.
    zone : str
        That of times that are written without one.

    Examples
    --------
    >>> import everquery as eq
    >>> stream = eq.Stream("trades", attributes=["price"])
    >>> records = JsonRecords(stream, pa.schema([("price", pa.float64())]))
    >>> records.read([b'{"price": 1.5}', None, b'{"price": "high"}']).to_pylist()
    [{'price': 1.5, 'everquery unreadable': []},
     {'price': None, 'everquery unreadable': [('price', 'a record')]},
     {'price': None, 'everquery unreadable': [('price', 'high')]}]
    """

    stream: Stream
    schema: pa.Schema
    zone: str = "UTC"

    def __post_init__(self) -> None:
        for field in self.schema:
            if fit_of(field.type, self.zone) is None:
                raise InvalidStreamError(
                    f"column {field.name!r} has type {field.type}, which is not read from JSON"
                    " here; strings, numbers, booleans, timestamps, dates and bytes are"
                )

    @cached_property
    def _fits(self) -> dict[str, Fit]:
        fits = {field.name: fit_of(field.type, self.zone) for field in self.schema}
        return {name: fit for name, fit in fits.items() if fit is not None}

    @cached_property
    def _read_as(self) -> pa.Schema:
        """The types in which Arrow reads: of times and dates the text, of bytes none."""
        kinds = [
            pa.string() if pa.types.is_temporal(field.type) else field.type for field in self.schema
        ]
        return pa.schema(list(zip(self.schema.names, kinds, strict=True)))

    @cached_property
    def _exact(self) -> list[str]:
        """The columns of which no integer may be rounded."""
        names = [name for name in self.stream.attributes if name in self.schema.names]
        return [name for name in names if pa.types.is_float64(self.schema.field(name).type)]

    def read(self, values: Sequence[bytes | None]) -> pa.Table:
        """Return an event for each value; what does not fit its column is in `UNREADABLE`."""
        parts = list(self._parts(values))
        columns = {
            name: pa.concat_arrays([part.columns[name] for part in parts])
            if parts
            else pa.nulls(0, self.schema.field(name).type)
            for name in self.schema.names
        }
        texts = {}
        for name in dict.fromkeys(name for part in parts for name in part.unread):
            none = [pa.nulls(len(part.columns[name]), pa.string()) for part in parts]
            pairs = zip(parts, none, strict=True)
            texts[name] = pa.concat_arrays([part.unread.get(name, empty) for part, empty in pairs])
        told = pa.nulls(len(values), UNREADABLE_TYPE)
        return pa.table(
            {**columns, UNREADABLE: unread_column(len(values), texts) if texts else told}
        )

    def _parts(self, values: Sequence[bytes | None]) -> Iterator[_Part]:
        if not values:
            return
        part = self._in_bulk(values) if len(values) > FEW else None
        if part is not None:
            yield part
        elif len(values) <= FEW:
            yield self._one_by_one(values)
        else:
            half = len(values) // 2
            yield from self._parts(values[:half])
            yield from self._parts(values[half:])

    # -- in bulk ------------------------------------------------------------------------------

    def _in_bulk(self, values: Sequence[bytes | None]) -> _Part | None:
        """Return records by Arrow's reader; None if some may have to be read otherwise."""
        if any(map(pa.types.is_binary, self.schema.types)):
            return None
        absent = [row for row, value in enumerate(values) if value is None]
        block = b"\n".join([b"{}" if value is None else value for value in values])
        # As many objects as line breaks and one: no value has a line break in it, or is empty.
        if count_objects(block) != len(values):
            return None
        columns = objects_in_bulk(block, len(values), self._read_as)
        if columns is None or any(may_be_rounded(columns[name]) for name in self._exact):
            return None
        unread: dict[str, pa.Array] = {}
        for field in self.schema:
            if pa.types.is_temporal(field.type):
                texts = columns[field.name]
                columns[field.name] = self._times(texts, field)
                if columns[field.name].null_count > texts.null_count:
                    failed = pc.and_(columns[field.name].is_null(), texts.is_valid())
                    unread[field.name] = pc.if_else(failed, texts, pa.scalar(None, pa.string()))
        if absent:
            lost = np.zeros(len(values), np.bool_)
            lost[absent] = True
            first = self.stream.columns()[0]
            before = unread.get(first, pa.nulls(len(values), pa.string()))
            unread[first] = pc.if_else(pa.array(lost), pa.scalar(NO_RECORD), before)
        kept = {name: texts for name, texts in unread.items() if name in self.stream.columns()}
        return _Part(columns, kept)

    def _times(self, texts: pa.Array, field: pa.Field) -> pa.Array:
        """Return texts as times or dates; null where they are none."""
        found = _usual_times(texts, field.type, self.zone)
        if found is None:
            distinct = texts.dictionary_encode()
            fit = self._fits[field.name]
            values = [fit(text, text) for text in distinct.dictionary.to_pylist()]
            found = _column(values, field.type).take(distinct.indices)
        return found

    # -- one by one ---------------------------------------------------------------------------

    def _one_by_one(self, values: Sequence[bytes | None]) -> _Part:
        rows = [_object(value) for value in values]
        of_stream = self.stream.columns()
        columns, unread = {}, {}
        for name, fit in self._fits.items():
            exact = name in self._exact
            fitted: list[object] = []
            texts: list[str | None] = []
            for row in rows:
                value, written = (None, "") if row is None else row.get(name, (None, ""))
                fits = None if value is None else fit(value, written)
                if exact and type(value) is int and exact_number(value) is None:
                    fits = UNFIT
                fitted.append(fits)
                texts.append(text_of_value(value, written) if fits is UNFIT else None)
                if row is None and name == of_stream[0]:
                    texts[-1] = NO_RECORD
            columns[name] = _column(fitted, self.schema.field(name).type)
            if name in of_stream and texts.count(None) < len(texts):
                unread[name] = pa.array(texts, pa.string())
        return _Part(columns, unread)


def _object(value: bytes | None) -> dict[str, tuple[object, str]] | None:
    if value is None:
        return None
    try:
        return members_of(value.decode())
    except UnicodeDecodeError:
        return None


def _column(values: Sequence[object], kind: pa.DataType) -> pa.Array:
    """Return fitted values as a column of a type; null where one does not fit."""
    fine = [None if isinstance(value, Unfit) else value for value in values]
    if pa.types.is_timestamp(kind):
        return pa.array(fine, pa.int64()).cast(kind)
    if pa.types.is_date32(kind):
        return pa.array(fine, pa.int32()).cast(kind)
    return pa.array(fine, kind)


def _usual_times(texts: pa.Array, kind: pa.DataType, zone: str) -> pa.Array | None:
    """Return times that are all written as ``2026-01-05T09:30:00``, with zone or without.

    None if one is written in another way, which Arrow may take for another time than Spark does.
    """
    if not pa.types.is_timestamp(kind):
        return None
    marks = pc.utf8_slice_codeunits(texts, 13, 17, 3)
    if pc.all(pc.equal(marks, "::")).as_py() is False:
        return None
    try:
        if kind.tz is None:
            return texts.cast(kind)
        if not _is_zoned(texts):
            plain = texts.cast(pa.timestamp("us"))
            return single_array(pa.chunked_array([_in_zone(plain, zone)])).cast(kind)
        return texts.cast(kind)
    except pa.ArrowException:
        return None


def _is_zoned(texts: pa.Array) -> bool:
    """Tell whether the first of some times has a zone."""
    first = next((text.as_py() for text in texts if text.is_valid), "Z")
    return first.endswith("Z") or any(sign in first[19:] for sign in "+-")


def _in_zone(plain: pa.Array, zone: str) -> pa.Array:
    if zone in ("UTC", "Z", "GMT", "Etc/UTC"):
        return plain.cast(pa.timestamp("us", "UTC"))
    return pc.assume_timezone(plain, zone, ambiguous="earliest", nonexistent="raise")
