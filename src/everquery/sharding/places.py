"""Where events stand in their sources, and the order that follows.

A place is what names a source (a file, a partition of a topic) and, where each event has one, its
number there. Packed events know their places as runs: rows of one source, one behind the other as
they were read. Blobs reach a shard in any order, and one may hold several files in an order that
nobody asked for; the shard takes events by source, then by number, then as they were read.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from everquery.core.arrays import Bools, Int64s

# Columns of events that tell their place: what names the source, numbered, and the number there.
SOURCE, OFFSET = "everquery source ", "everquery offset"
# The first column of a source that is the path of a file, which Spark writes as a URI.
PATH = "everquery source path "

_RUNS = b"runs"

Source = list[Any]  # strings, integers, None


@dataclass(frozen=True, slots=True)
class Places:
    """The places of the rows of a table.

    Attributes
    ----------
    sources : the source of each run
    run : int64, for each row
    offset : int64, for each row; None if rows have none
    """

    sources: list[Source]
    run: Int64s
    offset: Int64s | None

    def take(self, rows: Int64s) -> Places:
        """Return the places of some rows; runs without rows stay."""
        return Places(
            self.sources, self.run[rows], None if self.offset is None else self.offset[rows]
        )

    def metadata(self) -> dict[bytes, bytes]:
        """Return the runs that have rows, and how many, as metadata of a blob."""
        starts = np.flatnonzero(np.diff(self.run, prepend=-1))
        counts = np.diff(starts, append=self.run.size).tolist()
        sources = [self.sources[run] for run in self.run[starts]]
        return {_RUNS: json.dumps(list(zip(sources, counts, strict=True))).encode()}


def place_columns(names: Sequence[str]) -> list[str]:
    """Return those of some columns that tell the source of a row."""
    return [name for name in names if name.startswith((SOURCE, PATH))]


def with_short_sources(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch in which the names of sources, one for each row, are dictionary-encoded."""
    for name in place_columns(batch.schema.names):
        if pa.types.is_string(batch.schema.field(name).type):
            short = batch.column(name).dictionary_encode()
            batch = batch.set_column(batch.schema.get_field_index(name), name, short)
    return batch


def places_of(table: pa.Table) -> Places | None:
    """Return the places of a table's rows; None if it has no columns for them."""
    names = place_columns(table.column_names)
    if not names and OFFSET not in table.column_names:
        return None
    columns = [table[name].unify_dictionaries().combine_chunks() for name in names]
    begins = np.zeros(table.num_rows, np.bool_)
    begins[:1] = True
    for column in columns:
        named = pa.types.is_dictionary(column.type)
        begins[1:] |= _changes(column.indices if named else column)
    first = pa.array(np.flatnonzero(begins))
    values = [column.take(first).to_pylist() for column in columns]
    for name, found in zip(names, values, strict=True):
        if name.startswith(PATH):
            found[:] = [path and unquote(path) for path in found]
    sources = [list(source) for source in zip(*values, strict=True)] or [[]]
    offset = None
    if OFFSET in table.column_names:
        offset = np.asarray(table[OFFSET].combine_chunks().fill_null(0), np.int64)
    return Places(sources, np.cumsum(begins) - 1, offset)


def _changes(column: pa.Array) -> Bools:
    """Tell of each row but the first whether it differs from the one before."""
    before, after = column[:-1], column[1:]
    if not column.null_count:
        return np.asarray(pc.not_equal(before, after), np.bool_)
    unequal = pc.not_equal(before, after).fill_null(False)
    return np.asarray(pc.or_(unequal, pc.not_equal(before.is_null(), after.is_null())))


def first_source(metadata: dict[bytes, bytes]) -> tuple[Any, ...]:
    """Return what sorts blobs by the source of their first row."""
    runs = _runs(metadata) if _RUNS in metadata else []
    return _sorting(runs[0][0]) if runs else ()


def order_of(parts: Sequence[tuple[dict[bytes, bytes], int, Int64s | None]]) -> Int64s | None:
    """Return the order in which the rows of blobs, one behind the other, are to be taken.

    Parameters
    ----------
    parts : for each blob its metadata, how many rows it has, and their offsets or None

    Returns
    -------
    int64, shape (rows,), or None if they are to be taken as they are
    """
    runs = [
        run
        for metadata, rows, _ in parts
        for run in (_runs(metadata) if _RUNS in metadata else [([], rows)])
    ]
    distinct = sorted({_sorting(source) for source, _ in runs})
    rank = {source: number for number, source in enumerate(distinct)}
    source = np.repeat(
        [rank[_sorting(source)] for source, _ in runs], [count for _, count in runs]
    ).astype(np.int64)
    offset = np.concatenate(
        [np.zeros(rows, np.int64) if offset is None else offset for _, rows, offset in parts]
        or [np.empty(0, np.int64)]
    )
    falls = (source[1:] < source[:-1]) | ((source[1:] == source[:-1]) & (offset[1:] < offset[:-1]))
    return np.lexsort((offset, source)) if falls.any() else None


def _runs(metadata: dict[bytes, bytes]) -> list[tuple[Source, int]]:
    return [(source, count) for source, count in json.loads(metadata[_RUNS])]


def _sorting(source: Source) -> tuple[tuple[bool, Any], ...]:
    """Return what sorts sources: column by column, null first."""
    return tuple((value is not None, 0 if value is None else value) for value in source)
