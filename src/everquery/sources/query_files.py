"""Tables of queries from files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet as pq

from everquery.core.arrays import Bools, Int64s
from everquery.core.soundness import NO_NAME, names_of
from everquery.errors import UnreadableFileError
from everquery.queries.known import known_specs
from everquery.sources.blocks import blocks_of_lines, of_file
from everquery.sources.csv_lines import csv_texts, take_header
from everquery.sources.files import arrow_batches
from everquery.sources.formats import (
    BATCH_ROWS,
    BOM,
    TITLES,
    explained,
    format_of,
    opened,
)
from everquery.sources.text_values import (
    cast_texts,
    numbers,
    single_array,
)

MOST_ERRORS = 100_000  # bad rows that are listed; the others are only counted


@dataclass(frozen=True, slots=True)
class QueryRows:
    """A file of queries.

    Attributes
    ----------
    table : pyarrow.Table
        The rows that could be read.
    rows : pyarrow.Array of int64, or None
        Which row of the file (from 0) each of them is; None where all could be read.
    errors : pyarrow.Table
        ``row``, ``id`` and ``reason`` of the others; of the first `MOST_ERRORS`, if they are more.
    bad : int
        How many others there are.
    """

    table: pa.Table
    rows: pa.Array | None
    errors: pa.Table
    bad: int


def read_queries(path: Path, *, progress: Callable[[int, int], None]) -> QueryRows:
    """Read a table of queries; `progress` hears how much is read, of how much.

    Raises
    ------
    UnreadableFileError
        If the file can't be read at all.
    """
    form = format_of(path)
    if form in ("jsonl", "json"):
        raise UnreadableFileError(
            f"{path} holds {TITLES[form]}; queries load from Parquet, CSV, Arrow"
        )
    with explained(path):
        if form == "csv":
            return _read_csv_queries(path, progress)
        parts = []
        if form == "parquet":
            with pq.ParquetFile(path, memory_map=True) as file:
                schema, total, done = file.schema_arrow, file.metadata.num_rows, 0
                for batch in file.iter_batches(batch_size=BATCH_ROWS):
                    batch.validate(full=True)
                    parts.append(batch)
                    done += batch.num_rows
                    progress(done, total)
        else:
            with pa.memory_map(str(path)) as file:
                parts = list(arrow_batches(file))
                schema = parts[0].schema if parts else pa.schema([])
        table = pa.Table.from_batches(parts, schema=schema)
    if NO_NAME in names_of(table.schema):
        raise UnreadableFileError(f"{path} has a column whose name is no text in UTF-8")
    errors = _Errors()
    repeated = _note_repeats(table, np.arange(table.num_rows), errors, lines=False)
    if not errors.count:
        return QueryRows(table, None, errors.table(), 0)
    kept = np.flatnonzero(~repeated)
    return QueryRows(table.take(pa.array(kept)), pa.array(kept), errors.table(), errors.count)


class _Errors:
    """Bad rows of a file: all are counted, the first are kept.

    Whoever made the file decides how many there are, so memory must not grow with them.
    """

    def __init__(self) -> None:
        self.count = 0
        self._kept: list[tuple[int, str | None, str]] = []

    def note(self, row: int, name: str | None, reason: str) -> None:
        self.count += 1
        if len(self._kept) < MOST_ERRORS:
            self._kept.append((row, name, reason))

    def has_room(self) -> bool:
        return len(self._kept) < MOST_ERRORS

    def table(self) -> pa.Table:
        rows, names, reasons = zip(*self._kept, strict=True) if self._kept else ((), (), ())
        kinds = {"row": pa.int64(), "id": pa.string(), "reason": pa.string()}
        columns = zip((rows, names, reasons), kinds.values(), strict=True)
        return pa.table([pa.array(*column) for column in columns], list(kinds)).sort_by("row")


def _read_csv_queries(path: Path, progress: Callable[[int, int], None]) -> QueryRows:
    total = path.stat().st_size
    header: list[str] | None = None
    errors = _Errors()
    parts: list[pa.Table] = []
    places: list[Int64s] = []  # of the rows of each part, counted in the file
    line, first = 2, 0
    with opened(path) as file:
        for number, (block, done) in enumerate(blocks_of_lines(of_file(file), "csv")):
            if number == 0:
                header, block = take_header(block.removeprefix(BOM), str(path))
                if len(set(header)) < len(header):
                    raise UnreadableFileError(f"{path} names a column twice: {', '.join(header)}")
            assert header is not None
            skipped: list[tuple[int, str]] = []
            texts = csv_texts(block, header, header, skipped.append, line, str(path))
            for record, reason in skipped:
                errors.note(first + record, None, reason)
            parts.append(texts)
            records = texts.num_rows + len(skipped)
            there = np.ones(records, np.bool_)
            there[np.array([record for record, _ in skipped], np.int64)] = False
            places.append(first + np.flatnonzero(there))
            first += records
            line += block.count(b"\n")
            progress(done, total)
    if not parts:
        raise UnreadableFileError(f"{path} has no header and no rows")
    # Where a row is more than a line, or a line is empty, lines can't be counted by rows.
    lines = line - 2 in (first, first - 1)
    return _typed_queries(pa.concat_tables(parts), np.concatenate(places), errors, lines=lines)


def _note_repeats(table: pa.Table, rows: Int64s, errors: _Errors, *, lines: bool) -> Bools:
    """Tell which rows have the id of an earlier one; note both places of each.

    Parameters
    ----------
    rows : int64
        Which rows of the file they are.
    lines : bool
        Whether row r of the file is its line r + 2.
    """
    repeated: Bools = np.zeros(table.num_rows, np.bool_)
    at = table.schema.get_field_index("id")  # -1 if it is there twice, too
    if at < 0 or not pa.types.is_string(table.schema.field(at).type):
        return repeated
    ids = single_array(table.column(at)).dictionary_encode()
    number = np.asarray(ids.indices.fill_null(len(ids.dictionary)))
    first = np.full(len(ids.dictionary) + 1, -1, np.int64)
    first[number[::-1]] = np.arange(number.size)[::-1]
    repeated |= (first[number] != np.arange(number.size)) & np.asarray(ids.is_valid())
    for at in np.flatnonzero(repeated):
        here, there = int(rows[at]), int(rows[first[number[at]]])
        where = (
            f"row {there}, line {there + 2}; this is line {here + 2}" if lines else f"row {there}"
        )
        errors.note(here, ids[at].as_py(), f"id occurs in an earlier row of the file ({where})")
    return repeated


def _typed_queries(texts: pa.Table, rows: Int64s, errors: _Errors, *, lines: bool) -> QueryRows:
    """Give the columns of a CSV their types; rows with a cell that has another go to the errors."""
    ids = texts.column("id") if "id" in texts.column_names else None
    good = ~_note_repeats(texts, rows, errors, lines=lines)
    flags = {name for spec in known_specs() for name in spec.options}
    spans = {name for spec in known_specs() for name in spec.spans}
    figures = {
        number.name for spec in known_specs() for number in spec.numbers if not number.is_text
    }
    columns = {}
    for name in texts.column_names:
        column = single_array(texts.column(name))
        typed = column
        if name.endswith(("_lo", "_hi")) or name in figures:
            typed = numbers(column)
        elif name in spans:
            found = numbers(column)
            # Spans such as 5s are texts; whoever registers the table says which are none.
            typed = found if found.null_count == column.null_count else column
        elif name in flags:
            typed = cast_texts(column, pa.bool_())
        if typed.null_count > column.null_count:
            what = "true or false" if name in flags else "a number that float64 holds exactly"
            wrong = np.asarray(pc.and_(pc.is_valid(column), pc.is_null(typed)))
            for row in np.flatnonzero(wrong & good):
                value = column[row].as_py() if errors.has_room() else ""
                query = None if ids is None else ids[row].as_py()
                errors.note(int(rows[row]), query, f"{name} is {value!r}, which is not {what}")
            good &= ~wrong
        columns[name] = typed
    table = pa.table(columns)
    if not good.all():
        table, rows = table.filter(pa.array(good)), rows[good]
    return QueryRows(table, pa.array(rows), errors.table(), errors.count)
