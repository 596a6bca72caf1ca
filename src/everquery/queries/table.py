"""Tables of queries: a million rows checked at once, every bad one with its reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from everquery.core.columns import exact_floats, is_numeric
from everquery.errors import InvalidTableError
from everquery.queries.block import QueryBlock
from everquery.queries.labels import bad_labels
from everquery.queries.numbers import NO_NUMBER, MeasuredField, NumberColumn, NumberField
from everquery.queries.spans import SpanColumn, column_of_arrow, misfit
from everquery.queries.spec import LONGEST_ID, LONGEST_KEY, Query, SaidColumns
from everquery.queries.table_columns import fail, no_errors, read_columns
from everquery.queries.zones import bad_zones
from everquery.stream import NAMELESS, Stream

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Finder = Callable[[pa.Array], Bools]

CLOSED = ("left", "right", "both", "neither")
TAKEN = "a query with this id is live already; deregister it first"
SHOWN = 5  # bad rows in an error's text; the rest is in its table


@dataclass(frozen=True, slots=True)
class CheckedTable:
    """A table of queries that has been read.

    Attributes
    ----------
    blocks : the good rows
    rows : how many rows the table has
    errors : a table with row, id and reason of each bad one
    """

    blocks: tuple[QueryBlock, ...]
    rows: int
    errors: pa.Table

    def raise_errors(self) -> None:
        """Raise if a row is bad."""
        if self.errors.num_rows == 0:
            return
        shown = "; ".join(
            f"row {line['row']} ({line['id']!r}): {line['reason']}"
            for line in self.errors.slice(0, SHOWN).to_pylist()
        )
        more = f"; and {self.errors.num_rows - SHOWN:,} more" * (self.errors.num_rows > SHOWN)
        raise InvalidTableError(
            f"{self.errors.num_rows:,} of {self.rows:,} rows are bad, so none is registered"
            f" (on_error='skip' registers the good ones): {shown}{more}",
            self.errors,
        )


class _Problems:
    """The first reason against each row."""

    def __init__(self, rows: int) -> None:
        self._which = np.zeros(rows, np.int64)
        self._texts = [""]

    def note(self, rows: Bools, reason: str) -> None:
        if rows.any():
            self._which[rows & (self._which == 0)] = len(self._texts)
            self._texts.append(reason)

    def good(self) -> Bools:
        good: Bools = self._which == 0
        return good

    def table(self, ids: pa.Array) -> pa.Table:
        bad = np.flatnonzero(self._which)
        reasons = pa.array(self._texts).take(pa.array(self._which[bad]))
        shown = pc.utf8_slice_codeunits(ids.take(pa.array(bad)), 0, 80)
        return pa.table({"row": bad, "id": shown, "reason": reasons}, schema=no_errors().schema)


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
    problems = _Problems(len(ids))
    _check_ids(ids, problems, repeated)
    problems.note(already_live(ids), taken)
    boxes = _ranges if spec.boxed else _whole_attributes
    low, high, bounded = boxes(columns, stream, problems)
    if not spec.boxed and not spec.about_attribute:
        bounded[:] = False
    if spec.range_as_box is not None:
        _read_value_range(columns, spec.range_as_box.columns, low, high, bounded, problems)
    options = {name: _flags(columns.get(name), name, len(ids)) for name in spec.options}
    for name in spec.words:
        if name in columns:
            _set_options(columns[name], name, spec, options, problems)
    _check_labels(columns.get("labels"), problems)
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


def _check_ids(ids: pa.Array, problems: _Problems, repeated: Finder) -> None:
    if ids.null_count:
        problems.note(np.asarray(ids.is_null()), "id is null")
    size = np.asarray(pc.fill_null(pc.binary_length(ids), 1))
    problems.note(size == 0, "id is empty")
    problems.note(size > LONGEST_ID, f"id is longer than {LONGEST_ID:,} bytes; use a shorter name")
    problems.note(repeated(ids), "id occurs in an earlier row of the table")


def _ranges(
    columns: dict[str, pa.Array], stream: Stream, problems: _Problems
) -> tuple[Floats, Floats, Bools]:
    """Return half-open ranges of all attributes, and which attributes each row restricts."""
    n = len(columns["id"])
    shape = (len(stream.places), n)
    low = np.full(shape, -np.inf)
    high = np.full(shape, np.nan)
    bounded = np.zeros(shape, np.bool_)
    closed = _closed(columns.get("closed"), n, problems)
    for a, attribute in enumerate(stream.attributes):
        for end, bounds in (("lo", low[a]), ("hi", high[a])):
            name = f"{attribute}_{end}"
            if name not in columns:
                continue
            if not is_numeric(columns[name].type):
                raise fail(f"column {name!r} has type {columns[name].type}; it must be numbers")
            floats, null, inexact = exact_floats(columns[name])
            given = np.ones(n, np.bool_) if null is None else ~null
            problems.note(np.isnan(floats), f"{name} is NaN, which no value compares with")
            if inexact is not None:
                problems.note(inexact, f"{name} is a number that float64 can't hold exactly")
            bounds[given] = floats[given] + 0.0  # -0.0 and 0.0 are one value
            bounded[a] |= given
            if closed is not None:
                _close(bounds, given, closed, end)
        problems.note(
            (high[a] <= low[a]) | np.isnan(low[a]),
            f"{attribute}_lo is not below {attribute}_hi, so the range holds no value",
        )
    return low, high, bounded


def _whole_attributes(
    columns: dict[str, pa.Array], stream: Stream, problems: _Problems
) -> tuple[Floats, Floats, Bools]:
    """Return ranges without limits, and the one attribute that each row names."""
    n = len(columns["id"])
    shape = (len(stream.places), n)
    bounded = np.zeros(shape, np.bool_)
    if "attribute" not in columns:
        bounded[0] = True
    else:
        named = columns["attribute"]
        which = pc.index_in(named, value_set=pa.array(stream.attributes, pa.string()))
        problems.note(np.asarray(named.is_null()), "attribute is null")
        problems.note(
            np.asarray(which.is_null()),
            f"stream {stream.name!r} has no such attribute (it has"
            f" {', '.join(map(repr, stream.attributes)) or 'none'})",
        )
        place = np.asarray(which.fill_null(0))
        for a in range(len(bounded)):
            bounded[a] = place == a
    return np.full(shape, -np.inf), np.full(shape, np.nan), bounded


def _read_value_range(
    columns: dict[str, pa.Array],
    names: tuple[str, str],
    low: Floats,
    high: Floats,
    bounded: Bools,
    problems: _Problems,
) -> None:
    """Write the range of what each row tells into that of the attribute that it names."""
    for name, bounds in zip(names, (low, high), strict=True):
        if name not in columns:
            continue
        if not is_numeric(columns[name].type):
            raise fail(f"column {name!r} has type {columns[name].type}; it must be numbers")
        floats, null, inexact = exact_floats(columns[name])
        given = np.ones(floats.size, np.bool_) if null is None else ~null
        problems.note(np.isnan(floats) & given, f"{name} is NaN, which no value compares with")
        if inexact is not None:
            problems.note(inexact, f"{name} is a number that float64 can't hold exactly")
        for a in range(len(bounds)):
            here = given & bounded[a]
            bounds[a, here] = floats[here] + 0.0
    empty = np.any((high <= low) & bounded, axis=0)
    problems.note(empty, f"{names[0]} is not below {names[1]}, so the range holds no value")


def _keyed(columns: dict[str, pa.Array]) -> Bools:
    if "key" not in columns:
        return np.zeros(len(columns["id"]), np.bool_)
    return np.asarray(columns["key"].is_valid())


def _closed(column: pa.Array | None, n: int, problems: _Problems) -> npt.NDArray[np.int32] | None:
    if column is None:
        return None
    which = pc.index_in(pc.fill_null(column, "left"), value_set=pa.array(CLOSED))
    problems.note(
        np.asarray(which.is_null()), f"closed must be one of {', '.join(CLOSED)}, or null"
    )
    return np.asarray(which.fill_null(0))


def _close(bounds: Floats, given: Bools, closed: npt.NDArray[np.int32], end: str) -> None:
    """Move the ends whose closedness is not that of a half-open range."""
    moved = np.isin(closed, (1, 3) if end == "lo" else (1, 2)) & given
    above = np.nextafter(bounds[moved], np.inf)
    top = bounds[moved] == np.inf
    # Above +inf is nothing: a range that ends there has no limit, one that begins there is empty.
    bounds[moved] = np.where(top, np.nan, above)


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
    problems: _Problems,
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


def _numbers(
    columns: dict[str, pa.Array], number: NumberField, problems: _Problems
) -> NumberColumn:
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
    problems: _Problems,
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
    problems: _Problems,
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


def _check_labels(column: pa.Array | None, problems: _Problems) -> None:
    """Check labels, which are JSON objects; each distinct text once."""
    if column is None:
        return
    problems.note(
        bad_labels(column), 'labels is not a JSON object of strings, such as {"team": "fx"}'
    )


def _check_texts(columns: dict[str, pa.Array], problems: _Problems) -> None:
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
