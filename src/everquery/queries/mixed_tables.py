"""Tables with queries of several kinds: each row says of which it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from everquery.core.soundness import names_of
from everquery.queries.known import KNOWN, spec_of
from everquery.queries.table import Finder, check_table
from everquery.queries.table_columns import fail, known_columns, no_errors
from everquery.queries.table_problems import Bools, CheckedTable
from everquery.stream import Stream

KIND = "kind"


def check_tables(
    table: pa.Table | pa.RecordBatch,
    kind: str | None,
    stream: Stream,
    *,
    live_of: Callable[[str], Finder],
    repeated: Finder,
    **options: Any,  # noqa: ANN401 - those of `check_table`
) -> CheckedTable:
    """Read and check a table of queries of one kind or, without `kind`, of those that it names.

    A column that only other kinds have must be null in the rows of a kind.

    Parameters
    ----------
    kind : str or None
        None: the column ``kind`` says it, row by row.
    live_of : function of a kind
        Returns what tells which ids are live queries, and can't be those of new ones of the kind.
    repeated, options
        As of `check_table`.
    """
    if kind is not None:
        live = live_of(kind)
        return check_table(
            table, spec_of(kind), stream, already_live=live, repeated=repeated, **options
        )
    if not isinstance(table, (pa.Table, pa.RecordBatch)):
        raise fail(f"a table of queries is a pyarrow Table, not {type(table).__name__}")
    table = table if isinstance(table, pa.Table) else pa.Table.from_batches([table])
    named, ids = _texts(table, KIND), _texts(table, "id")
    if not table.num_rows:
        raise fail("the table has no rows")
    again = repeated(ids)
    blocks, errors = [], [_unknown(named, ids)]
    for name in named.unique().drop_null().to_pylist():
        if name not in KNOWN:
            continue
        rows = np.flatnonzero(np.asarray(pc.equal(named, name).fill_null(False)))
        part = _part(table, rows, name, stream)
        checked = check_table(
            part,
            spec_of(name),
            stream,
            already_live=live_of(name),
            repeated=_answering(again[rows]),
            **options,
        )
        blocks += [replace(block, row=rows[block.row]) for block in checked.blocks]
        places = pa.array(rows).take(checked.errors["row"].combine_chunks())
        errors.append(checked.errors.set_column(0, "row", places))
    found = pa.concat_tables(errors).sort_by("row")
    return CheckedTable(tuple(blocks), table.num_rows, found)


def _answering(found: Bools) -> Finder:
    """Return what has looked for ids already, and found these."""
    return lambda ids: found


def _texts(table: pa.Table, name: str) -> pa.Array:
    """Return a column of texts that every table of several kinds has."""
    names = names_of(table.schema)
    if names.count(name) != 1:
        raise fail(
            f"the table has no column {name!r}; it has {', '.join(names) or 'none'}"
            if name not in names
            else f"column {name!r} occurs twice"
        )
    try:
        column = table.column(name).cast(pa.string()).combine_chunks()
    except pa.ArrowException as error:
        raise fail(f"column {name!r} must be strings: {error}") from None
    return column.chunk(0) if isinstance(column, pa.ChunkedArray) else column


def _unknown(named: pa.Array, ids: pa.Array) -> pa.Table:
    """Return the errors of rows whose kind is none."""
    bad = [row for row, name in enumerate(named.to_pylist()) if name not in KNOWN]
    kinds = ", ".join(KNOWN)
    reasons = [f"kind is {_shown(named[row].as_py())}; it takes one of {kinds}" for row in bad]
    columns = {"row": bad, "id": [ids[row].as_py() for row in bad], "reason": reasons}
    return pa.table(columns, schema=no_errors().schema)


def _shown(name: str | None) -> str:
    return "null" if name is None else repr(name[:80])


def _part(table: pa.Table, rows: npt.NDArray[np.int64], kind: str, stream: Stream) -> pa.Table:
    """Return the rows of a kind, without columns that are other kinds' and have no value here."""
    part = table.take(pa.array(rows)).drop_columns(KIND)
    known = known_columns(spec_of(kind), stream)
    return part.select(list(_columns(part, known)))


def _columns(part: pa.Table, known: list[str]) -> Iterator[str]:
    for name in part.column_names:
        if name in known or part[name].null_count < part.num_rows:
            yield name
