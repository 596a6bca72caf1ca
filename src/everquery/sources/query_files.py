"""Tables of queries from files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet as pq

from everquery.errors import UnreadableFileError
from everquery.queries.known import known_specs
from everquery.sources.cells import (
    cast_cells,
    numbers,
    single_array,
)
from everquery.sources.files import arrow_batches, blocks_of_lines, csv_cells, take_header
from everquery.sources.formats import (
    BATCH_ROWS,
    BOM,
    TITLES,
    Unreadable,
    explained,
    format_of,
)


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
        ``row``, ``id`` and ``reason`` of the others.
    """

    table: pa.Table
    rows: pa.Array | None
    errors: pa.Table


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
    return QueryRows(table, None, _error_table([], [], []))


def _error_table(rows: list[int], ids: list[str | None], reasons: list[str]) -> pa.Table:
    columns = [pa.array(rows, pa.int64()), pa.array(ids, pa.string()), pa.array(reasons)]
    return pa.table([columns[0], columns[1], columns[2].cast(pa.string())], ["row", "id", "reason"])


def _read_csv_queries(path: Path, progress: Callable[[int, int], None]) -> QueryRows:
    total = path.stat().st_size
    header: list[str] | None = None
    unreadable = Unreadable()
    parts, line = [], 2
    with path.open("rb", buffering=0) as file:
        for number, (block, done) in enumerate(
            blocks_of_lines(file.fileno(), "csv", stop=lambda: False)
        ):
            if number == 0:
                header, block = take_header(block.removeprefix(BOM), str(path))
                if len(set(header)) < len(header):
                    raise UnreadableFileError(f"{path} names a column twice: {', '.join(header)}")
            assert header is not None
            parts.append(csv_cells(block, header, header, unreadable, line, str(path)))
            line += block.count(b"\n")
            progress(done, total)
    if not parts:
        raise UnreadableFileError(f"{path} has no header and no rows")
    cells = pa.concat_tables(parts)
    skipped = [at - 2 for at, _ in unreadable.rows]
    return _typed_queries(cells, skipped, [reason for _, reason in unreadable.rows])


def _typed_queries(cells: pa.Table, skipped: list[int], reasons: list[str]) -> QueryRows:
    """Give the columns of a CSV their types; rows with a cell that has another go to the errors."""
    at = _rows_without(cells.num_rows, skipped)
    flags = {name for spec in known_specs() for name in spec.options}
    figures = {name for spec in known_specs() for name in spec.spans}
    figures |= {number.name for spec in known_specs() for number in spec.numbers}
    bad: dict[int, str] = {}
    columns = {}
    for name in cells.column_names:
        column = single_array(cells.column(name))
        typed = column
        if name.endswith(("_lo", "_hi")) or name in figures:
            typed = numbers(column)
        elif name in flags:
            typed = cast_cells(column, pa.bool_())
        if typed.null_count > column.null_count:
            wrong = pc.and_(pc.is_valid(column), pc.is_null(typed))
            for row in pc.indices_nonzero(wrong).to_pylist():
                what = "true or false" if name in flags else "a number that float64 holds exactly"
                bad.setdefault(row, f"{name} is {column[row].as_py()!r}, which is not {what}")
        columns[name] = typed
    table = pa.table(columns)
    ids = cells.column("id") if "id" in cells.column_names else None
    rows = [*skipped, *(at[row].as_py() for row in bad)]
    names = [None] * len(skipped) + [None if ids is None else ids[row].as_py() for row in bad]
    errors = _error_table(rows, names, [*reasons, *bad.values()]).sort_by("row")
    if bad:
        keep = pa.array([row not in bad for row in range(table.num_rows)], pa.bool_())
        table, at = table.filter(keep), at.filter(keep)
    return QueryRows(table, at, errors)


def _rows_without(count: int, skipped: list[int]) -> pa.Array:
    """Return the numbers of so many rows, counted past the skipped ones."""
    if not skipped:
        return pa.array(range(count), pa.int64())
    gone = set(skipped)
    rows = [row for row in range(count + len(gone)) if row not in gone]
    return pa.array(rows[:count], pa.int64())
