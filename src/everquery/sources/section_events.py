"""The events of sections of files, in types that are fixed before.

Columns are of one type whatever a section holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from everquery.core.python_values import unread_column
from everquery.core.soundness import plain
from everquery.errors import InvalidBatchError, UnreadableFileError
from everquery.sources.files import EventFile
from everquery.sources.formats import TEXTS, TITLES, Unreadable, explained, packing_of
from everquery.sources.sections import WHOLE, Section
from everquery.sources.text_events import TextEvents, columns_here
from everquery.sources.text_values import cast_texts, single_array, unread
from everquery.state.events import UNREADABLE, UNREADABLE_TYPE, unread_values
from everquery.stream import Stream


def types_of(path: Path, stream: Stream, *, integer_keys: bool = False) -> pa.Schema:
    """Return the types of a stream's columns, by the beginning of a file.

    Attributes in text are floats: whether all are integers nobody knows before the end.
    """
    file = EventFile(path, stream, integer_keys=integer_keys)
    first = next(iter(file.pieces()), None)
    if first is None:
        raise UnreadableFileError(f"{path} has no event, so the types of its columns are unknown")
    text = file.format in TEXTS
    fields = []
    for name in stream.columns():
        at = first.batch.schema.get_field_index(name)
        kind = pa.null() if at < 0 else first.batch.schema.field(at).type
        if name in (stream.key, stream.time):
            fields.append((name, _fixed_type(kind)))
        else:
            unknown = text or pa.types.is_null(kind)
            fields.append((name, pa.float64() if unknown else _fixed_type(kind)))
    found = pa.schema(fields)
    for name in found.names:
        if pa.types.is_null(found.field(name).type):
            raise InvalidBatchError(
                f"the first values of column {name!r} in {path} are all empty or can't be read,"
                " so its type is unknown"
            )
    return found


def _fixed_type(kind: pa.DataType) -> pa.DataType:
    """Return the type that all values of a column are brought to."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_integer(kind):
        return pa.int64()
    if pa.types.is_floating(kind):
        return pa.float64()
    return pa.timestamp("us", kind.tz) if pa.types.is_timestamp(kind) else kind


def read_section(
    section: Section, stream: Stream, schema: pa.Schema, *, integer_keys: bool = False
) -> Iterator[pa.Table]:
    """Yield the events of a section, in the types of a schema; keys may be dictionary-encoded.

    A value that does not fit its column is null, and a line that can't be read a row of nulls. The
    column `UNREADABLE` says which these are: the runtime refuses them, and counts them.

    Raises
    ------
    UnreadableFileError
        If the file is not what it was when its sections were found, or becomes another meanwhile;
        or if other columns than the stream's are wanted, and it is not Parquet.
    InvalidBatchError
        If it lacks a column that the stream needs.
    """
    section.check_unchanged()
    _check_columns(section, stream, schema)
    unreadable = Unreadable()
    for table in _tables(section, stream, schema, unreadable, integer_keys=integer_keys):
        with explained(section.path):
            typed = _typed(table, schema, stream.key)
        yield typed
    section.check_unchanged()
    if unreadable.count:
        columns = {field.name: pa.nulls(unreadable.count, field.type) for field in schema}
        lost = pa.repeat(pa.scalar("a line", pa.string()), unreadable.count)
        columns[UNREADABLE] = unread_column(unreadable.count, {stream.columns()[0]: lost})
        yield pa.table(columns)


def _check_columns(section: Section, stream: Stream, schema: pa.Schema) -> None:
    others = [name for name in schema.names if name not in stream.columns()]
    if others and section.form != "parquet":
        raise UnreadableFileError(
            f"column {others[0]!r} is wanted of {section.path}, which is {TITLES[section.form]}:"
            f" of that, only the columns of stream {stream.name!r} are read; write it as Parquet"
        )


def _typed(table: pa.Table, schema: pa.Schema, key: str | None) -> pa.Table:
    """Return events in the types of a schema."""
    columns, texts = {}, {}
    for field in schema:
        if table.schema.get_field_index(field.name) < 0:
            columns[field.name] = pa.nulls(table.num_rows, field.type)
            continue
        if field.name == key and _is_encoded(table.column(key).type, field.type):
            columns[key] = table.column(key)
            continue
        before = plain(single_array(table.column(field.name)))
        columns[field.name] = _fitted(before, field.type)
        failed = unread(before, columns[field.name])
        if failed is not None:
            texts[field.name] = failed
    for name, (rows, found) in unread_values(table).items():
        place = np.full(table.num_rows, -1)
        place[rows] = np.arange(rows.size)
        earlier = found.take(pa.array(place, mask=place < 0))
        texts[name] = pc.coalesce(earlier, texts[name]) if name in texts else earlier
    columns[UNREADABLE] = pa.nulls(table.num_rows, UNREADABLE_TYPE)
    if texts:
        columns[UNREADABLE] = unread_column(table.num_rows, texts)
    return pa.table(columns)


def _is_encoded(kind: pa.DataType, wanted: pa.DataType) -> bool:
    """Tell whether a column has the wanted values, each distinct one once."""
    return bool(pa.types.is_dictionary(kind) and kind.value_type == wanted)


def _tables(
    section: Section,
    stream: Stream,
    schema: pa.Schema,
    unreadable: Unreadable,
    *,
    integer_keys: bool,
) -> Iterator[pa.Table]:
    path = Path(section.path)
    if section.form in WHOLE or packing_of(path) is not None:
        events = EventFile(path, stream, integer_keys=integer_keys)
        for piece in events.pieces():
            yield pa.table(piece.batch)
        unreadable.count += events.unreadable.count
        return
    if section.form == "parquet":
        # Each distinct key is looked up once, so keys stay encoded as they are in the file.
        texts = stream.key is not None and pa.types.is_string(schema.field(stream.key).type)
        encoded = [stream.key] if texts else None
        with explained(path):
            metadata = pq.read_metadata(path, memory_map=True)
            here = metadata.schema.to_arrow_schema().names
        columns_here(stream, here, section.path)
        names = [name for name in schema.names if name in here]
        with (
            explained(path),
            pq.ParquetFile(
                path, metadata=metadata, memory_map=True, read_dictionary=encoded
            ) as file,
        ):
            table = file.read_row_groups(
                range(section.begin, section.end), columns=names, use_threads=False
            )
            table.validate(full=True)
            yield table
        return
    with explained(path), path.open("rb") as text:
        header = text.readline() if section.form == "csv" and section.begin else b""
        text.seek(section.begin)
        block = header + text.read(section.end - section.begin)
    reader = TextEvents(section.form, stream, unreadable, integer_keys=integer_keys)
    yield reader.read(block, section.path)


def _fitted(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a column in the type that was finished; null where a value does not fit."""
    if array.type == kind:
        return array
    if pa.types.is_temporal(kind) and pa.types.is_temporal(array.type):
        return array.cast(kind, safe=False)  # finer than microseconds Spark has no times
    if pa.types.is_temporal(kind) != pa.types.is_temporal(array.type):
        return pa.nulls(len(array), kind)
    return cast_texts(array, kind)
