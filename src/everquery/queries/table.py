"""Tables of queries: a million rows checked at once, every bad one with its reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from everquery.core.columns import is_numeric
from everquery.queries.block import QueryBlock
from everquery.queries.labels import read_labels
from everquery.queries.numbers import NO_NUMBER, MeasuredField, NumberColumn, NumberField
from everquery.queries.spans import SpanColumn, column_of_arrow, misfit
from everquery.queries.spec import LONGEST_ID, LONGEST_KEY, Query, SaidColumns
from everquery.queries.table_columns import fail, no_errors, read_columns
from everquery.queries.table_problems import Bools, CheckedTable, Problems
from everquery.queries.table_ranges import Floats, read_ranges, read_value_range, whole_attributes
from everquery.queries.zones import bad_zones
from everquery.stream import NAMELESS, Stream

Finder = Callable[[pa.Array], Bools]

TAKEN = "a query with this id is live already; deregister it first"


def check_table(
    table: pa.Table | pa.RecordBatch,
    spec: type[Query],
    stream: Stream,
    *,
    already_live: Finder,
    repeated: Finder,
    taken: str = TAKEN,
    beyond_quota: Callable[[pa.Array | None, Bools], dict[str, Bools]] | None = None,
    time_type: pa.DataType | None = None,
) -> CheckedTable:
    """Read and check a table of queries.

    Parameters
    ----------
    table : Arrow table
        ``id``; ``key`` (optional, null for none); for each attribute ``<attribute>_lo`` and
        ``<attribute>_hi`` (null for no limit; both null, or both missing, where it is free);
        ``closed`` (optional: left, right, both, neither); ``owner`` and ``labels`` (a JSON object;
        both optional); the kind's options (flags), words (which stand for options), numbers and
        spans (texts such as ``5s``, durations, or numbers in the unit of the time column). A kind
        without box has a column ``attribute`` in place of the ranges; it may be missing where the
        stream has one attribute only.
    already_live, repeated : functions of the ids
        Which are live queries, and which occur in an earlier row.
    taken : str
        What is wrong with rows whose ids are those of live queries.
    beyond_quota : function of the owners and of which rows are good so far, optional
        Which of them an owner's quota has no room for, by reason.
    time_type : Arrow type, optional
        That of the stream's times, if it is known; spans must fit it.

    Raises
    ------
    InvalidTableError
        If the table is empty, lacks a column, or has one of a wrong type or name.
    """
    columns = read_columns(table, spec, stream)
    ids = columns["id"]
    problems = Problems(len(ids))
    _check_ids(ids, problems, repeated)
    problems.note(already_live(ids), taken)
    boxes = read_ranges if spec.boxed else whole_attributes
    low, high, bounded = boxes(columns, stream, problems)
    if not spec.boxed and not spec.about_attribute:
        bounded[:] = False
    if spec.range_as_box is not None:
        read_value_range(columns, spec.range_as_box.columns, low, high, bounded, problems)
    options = {name: _flags(columns.get(name), name, len(ids)) for name in spec.options}
    for name in spec.words:
        if name in columns:
            _set_options(columns[name], name, spec, options, problems)
    _read_labels(columns, problems)
    _check_texts(columns, problems)
    spans = _spans(columns, spec, problems, time_type)
    zones = {name: columns[name] for name in spec.zones if name in columns}
    measured = {
        each.name: _measured(columns, each, stream, bounded, problems)
        for each in spec.numbers
        if isinstance(each, MeasuredField)
    }
    numbers = {
        each.name: _places_in_box(measured[each.name], bounded)
        if each.name in measured
        else _numbers(columns, each, problems)
        for each in spec.numbers
    }
    texts = {name: columns[name] for name in spec.texts}
    said = SaidColumns(
        stream, _keyed(columns), options, numbers, _used(spans), zones, texts, time_type
    )
    for rows, reason in (*bad_zones(zones), *spec.bad_rows(said)):
        problems.note(rows, reason)
    if beyond_quota is not None:
        for reason, rows in beyond_quota(columns.get("owner"), problems.good()).items():
            problems.note(rows, reason)
    good = problems.good()
    blocks = tuple(_blocks(spec.kind, columns, low, high, bounded, options, spans, numbers, good))
    errors = no_errors() if good.all() else problems.table(ids)
    return CheckedTable(blocks, len(ids), errors)


def _check_ids(ids: pa.Array, problems: Problems, repeated: Finder) -> None:
    if ids.null_count:
        problems.note(np.asarray(ids.is_null()), "id is null")
    size = np.asarray(pc.fill_null(pc.binary_length(ids), 1))
    problems.note(size == 0, "id is empty")
    problems.note(size > LONGEST_ID, f"id is longer than {LONGEST_ID:,} bytes; use a shorter name")
    problems.note(repeated(ids), "id occurs in an earlier row of the table")


def _keyed(columns: dict[str, pa.Array]) -> Bools:
    if "key" not in columns:
        return np.zeros(len(columns["id"]), np.bool_)
    return np.asarray(columns["key"].is_valid())


def _flags(column: pa.Array | None, name: str, n: int) -> Bools:
    if column is None:
        return np.zeros(n, np.bool_)
    if not pa.types.is_boolean(column.type):
        raise fail(f"column {name!r} has type {column.type}; it must be true or false")
    return np.asarray(column.fill_null(False))


def _set_options(
    column: pa.Array,
    name: str,
    spec: type[Query],
    options: dict[str, Bools],
    problems: Problems,
) -> None:
    """Set the options that the words of a column stand for; null stands for none."""
    distinct = column.dictionary_encode()
    found = [spec.options_of_word(name, word) for word in distinct.dictionary.to_pylist()]
    which = np.asarray(distinct.indices.fill_null(len(found)))
    for option in options:
        sets = [word is not None and option in word for word in found]
        flags = np.array([*sets, False])[which] | options[option]
        options[option] = flags
    bad = np.array([*(word is None for word in found), False])[which]
    problems.note(bad, f"{name} must be {spec.words[name]}")


def _numbers(columns: dict[str, pa.Array], number: NumberField, problems: Problems) -> NumberColumn:
    column = columns.get(number.name)
    if column is None:
        return np.full(len(columns["id"]), NO_NUMBER, number.dtype)
    if not number.is_text and not is_numeric(column.type):
        wanted = "integers" if number.whole else "numbers"
        raise fail(f"column {number.name!r} has type {column.type}; it must be {wanted}")
    return number.read_column(column, problems.note)


def _measured(
    columns: dict[str, pa.Array],
    number: MeasuredField,
    stream: Stream,
    bounded: Bools,
    problems: Problems,
) -> NumberColumn:
    """Put the attributes that queries are about into their boxes; return their places of all."""
    column = columns.get(number.name)
    if column is None:
        return np.full(len(columns["id"]), NO_NUMBER, number.dtype)
    named = number.places(column, stream.attributes, problems.note)
    for a in range(len(stream.attributes)):
        bounded[a] |= named == a + 1
    return named


def _places_in_box(named: NumberColumn, bounded: Bools) -> NumberColumn:
    """Return the places of attributes in boxes, once all that queries are about are in them."""
    if not len(bounded):
        return named
    before = np.cumsum(bounded, axis=0, dtype=np.int64)
    places: NumberColumn = before[np.maximum(named - 1, 0), np.arange(named.size)]
    return np.where(named == NO_NUMBER, NO_NUMBER, places)


def _spans(
    columns: dict[str, pa.Array],
    spec: type[Query],
    problems: Problems,
    time_type: pa.DataType | None,
) -> dict[str, SpanColumn]:
    spans = {}
    for name in spec.spans:
        if name not in columns:
            continue
        found = column_of_arrow(columns[name])
        if found is None:
            raise fail(
                f"column {name!r} has type {columns[name].type}; it must be texts such as 5s or"
                " 1h30m, durations, or numbers in the unit of the time column"
            )
        column, bad_spans = found
        if name in spec.required_spans:
            problems.note(~column.given(), f"{name} is null")
        for rows, reason in bad_spans:
            problems.note(rows, f"{name} {reason}")
        if time_type is not None:
            bad = column.in_units(time_type)[1] & problems.good()
            if bad.any():
                problems.note(bad, misfit(name, column.span(int(np.argmax(bad))), time_type))
        spans[name] = column
    return spans


def _read_labels(columns: dict[str, pa.Array], problems: Problems) -> None:
    """Let labels be as specs write them; {} is none."""
    if "labels" in columns:
        columns["labels"], bad = read_labels(columns["labels"])
        problems.note(bad, 'labels is not a JSON object of strings, such as {"team": "fx"}')


def _check_texts(columns: dict[str, pa.Array], problems: Problems) -> None:
    """Check owners and keys as specs do."""
    if "owner" in columns:
        size = np.asarray(pc.fill_null(pc.binary_length(columns["owner"]), 1))
        problems.note(size == 0, "owner is empty; give a name, or null for none")
        problems.note(size > LONGEST_ID, f"owner is longer than {LONGEST_ID:,} bytes")
    if "key" in columns and pa.types.is_string(columns["key"].type):
        size = np.asarray(pc.fill_null(pc.binary_length(columns["key"]), 0))
        problems.note(size > LONGEST_KEY, f"key is longer than {LONGEST_KEY:,} bytes")


def _blocks(
    kind: str,
    columns: dict[str, pa.Array],
    low: Floats,
    high: Floats,
    bounded: Bools,
    options: dict[str, Bools],
    spans: dict[str, SpanColumn],
    numbers: dict[str, NumberColumn],
    good: Bools,
) -> Iterator[QueryBlock]:
    """Yield the good rows, split by the attributes they restrict and by whether they have a key."""
    ids, keys = columns["id"], columns.get("key")
    bounded[NAMELESS, ~bounded.any(axis=0)] = True  # empty boxes are found by that
    pattern = np.zeros(len(ids), np.int64)
    for a in range(len(bounded)):
        pattern = 2 * pattern + bounded[a]
    pattern = 2 * pattern + _keyed(columns)
    for chosen in np.unique(pattern[good]):
        picked = np.flatnonzero(good & (pattern == chosen))
        attributes = tuple(np.flatnonzero(bounded[:, picked[0]]).tolist())
        if bounded[NAMELESS, picked[0]]:
            attributes = (NAMELESS,)
        where = pa.array(picked)
        whole = picked.size == len(ids)
        yield QueryBlock(
            kind=kind,
            row=picked,
            ids=ids if whole else ids.take(where),
            keys=None if not chosen & 1 or keys is None else (keys if whole else keys.take(where)),
            attributes=attributes,
            low=np.stack([low[a, picked] for a in attributes]),
            high=np.stack([high[a, picked] for a in attributes]),
            options={name: values[picked] for name, values in options.items()},
            owner=columns["owner"].take(where) if "owner" in columns else None,
            labels=columns["labels"].take(where) if "labels" in columns else None,
            zone=columns["zone"].take(where) if "zone" in columns else None,
            plan=columns["plan"].take(where) if "plan" in columns else None,
            spans=_used({name: column.take(picked) for name, column in spans.items()}),
            numbers={name: values[picked] for name, values in numbers.items()},
        )


def _used(spans: dict[str, SpanColumn]) -> dict[str, SpanColumn]:
    return {name: column for name, column in spans.items() if column.given().any()}
