"""The columns of a table of queries: which there may be, and that they can be read."""

from __future__ import annotations

import difflib

import pyarrow as pa

from everquery.core.soundness import names_of, plain, unsound
from everquery.errors import InvalidTableError
from everquery.queries.spec import Query
from everquery.stream import Stream


def no_errors() -> pa.Table:
    """Return an empty table of errors."""
    fields = {"row": pa.int64(), "id": pa.string(), "reason": pa.string()}
    return pa.schema(list(fields.items())).empty_table()


def fail(message: str) -> InvalidTableError:
    """Return the error of a table as a whole."""
    return InvalidTableError(f"{message}. Nothing is registered", no_errors())


def read_columns(
    table: pa.Table | pa.RecordBatch, spec: type[Query], stream: Stream
) -> dict[str, pa.Array]:
    """Return the columns of a table of queries by name; texts and keys are of their type.

    Raises
    ------
    InvalidTableError
        If the table is empty, lacks a column, or has one that is broken or not known.
    """
    if not isinstance(table, (pa.Table, pa.RecordBatch)):
        raise fail(f"a table of queries is a pyarrow Table, not {type(table).__name__}")
    known = known_columns(spec, stream)
    columns = {}
    names = names_of(table.schema)
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            if name in spec.spans:
                hint = "; it needs a stream with a time column"
            raise fail(
                f"a table of {spec.kind} queries on stream {stream.name!r} has no column"
                f" {name!r}{hint} (it may have {', '.join(known)})"
            )
        if names.count(name) > 1:
            raise fail(f"column {name!r} occurs twice")
        columns[name] = _plain(table.column(name), name, table.num_rows)
    needed = ["id", *(number.name for number in spec.numbers if number.required)]
    needed += [*spec.required_spans, *spec.texts]
    if spec.about_attribute and len(stream.attributes) != 1:
        needed.append("attribute")
    for name in needed:
        if name not in columns:
            raise fail(f"the table has no column {name!r}; it has {', '.join(columns) or 'none'}")
    if table.num_rows == 0:
        raise fail("the table has no rows")
    texts = [number.name for number in spec.numbers if number.is_text]
    texts += ["id", "key", "attribute", "closed", "owner", "labels", *spec.words, *spec.zones]
    texts += spec.texts
    for name in texts:
        if name in columns:
            columns[name] = _text(columns[name], name, integers=name == "key")
    return columns


def _plain(column: pa.Array | pa.ChunkedArray, name: str, rows: int) -> pa.Array:
    """Return a column as one array, without dictionary, that may be read."""
    reason = unsound(column)
    if len(column) != rows:
        reason = f"it has {len(column)} rows, and the table {rows}"
    if reason is not None:
        raise fail(f"column {name!r} is broken: {reason}")
    try:
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
        found = plain(column)
        found.validate(full=True)  # texts must be UTF-8
    except (pa.ArrowException, AttributeError) as error:
        raise fail(f"column {name!r} has type {column.type}, and can't be read: {error}") from None
    return found


def known_columns(spec: type[Query], stream: Stream) -> list[str]:
    """Return the columns that a table of such queries may have."""
    known = ["id", *(["closed"] if spec.boxed and spec.limited else [])]
    known += [*(["attribute"] if spec.about_attribute else []), "owner", "labels"]
    known += [*spec.words, *spec.options, *spec.zones, *spec.texts]
    known += [number.name for number in spec.numbers]
    known += spec.range_as_box.columns if spec.range_as_box is not None else ()
    known += spec.spans if stream.time is not None else []
    if spec.boxed and spec.limited:
        known += [f"{name}_{end}" for name in stream.attributes for end in ("lo", "hi")]
    return known + (["key"] if stream.key is not None else [])


def _text(column: pa.Array, name: str, *, integers: bool) -> pa.Array:
    if integers and pa.types.is_integer(column.type):
        try:
            return column.cast(pa.int64())
        except pa.ArrowInvalid as error:
            raise fail(f"column {name!r}: {error}; keys are 64-bit integers") from None
    if not (
        pa.types.is_string(column.type)
        or pa.types.is_large_string(column.type)
        or pa.types.is_string_view(column.type)
        or pa.types.is_null(column.type)
    ):
        wanted = "strings or integers" if integers else "strings"
        raise fail(f"column {name!r} has type {column.type}; it must be {wanted}")
    return column.cast(pa.string())
