"""Notices of the past that are told with the next step: those of queries that began before."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from everquery.core.encoded_names import encode
from everquery.state.catalog import Catalog

BACKFILL = "backfill"  # the reason of a notice about the past


def as_backfill(notices: pa.Table) -> pa.Table:
    """Return notices with the reason `BACKFILL`; all else, ids included, is as it was.

    Columns are plain: what dictionaries stand for may change until the notices are told.
    """
    at = notices.schema.get_field_index("reason")
    words = pa.repeat(pa.scalar(BACKFILL), notices.num_rows)
    return plain_columns(notices).set_column(at, "reason", words)


def plain_columns(notices: pa.Table) -> pa.Table:
    """Return notices without dictionaries."""
    columns = zip(notices.column_names, notices.columns, strict=True)
    return pa.table({name: _plain(column) for name, column in columns})


def fit(notices: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return notices with the columns of a schema that has more of them."""
    if notices.schema == schema:
        return notices
    return pa.table(
        [
            notices[field.name].cast(field.type)
            if field.name in notices.column_names
            else pa.nulls(notices.num_rows, field.type)
            for field in schema
        ],
        schema=schema,
    )


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_dictionary(column.type):
        return column.cast(column.type.value_type)
    return column


def kinds_of_notices(tables: Sequence[pa.Table]) -> list[str]:
    """Return the kinds of the queries that tell notices."""
    found: dict[str, None] = {}
    for table in tables:
        found.update(dict.fromkeys(pc.unique(table["kind"]).to_pylist()))
    return [kind for kind in found if kind is not None]


def joined(before: Sequence[pa.Table], now: pa.Table, catalog: Catalog) -> pa.Table:
    """Return notices of the past, and those of a step behind them, as the step's are written.

    Ids of queries are a dictionary by slot, in one chunk, as everywhere. Columns of kinds that the
    past had no query of are null there.
    """
    columns = []
    for field in now.schema:
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        pieces = [
            table[field.name].cast(kind)
            if field.name in table.column_names
            else pa.chunked_array([pa.nulls(table.num_rows, kind)])
            for table in (*before, now)
        ]
        column = pa.chunked_array([chunk for each in pieces for chunk in each.chunks], kind)
        whole = column.combine_chunks()
        if field.name == "query_id":
            whole = _by_slot(whole, catalog)
        elif pa.types.is_dictionary(field.type):
            found = pc.dictionary_encode(whole)
            indices = found.indices.cast(field.type.index_type)
            whole = pa.DictionaryArray.from_arrays(indices, found.dictionary)
        columns.append(whole)
    return pa.table(columns, schema=now.schema)


def _by_slot(ids: pa.Array, catalog: Catalog) -> pa.Array:
    """Return ids as a dictionary by slot; those whose slots were given up stand behind."""
    names = catalog.names.strings()
    slots = catalog.names.find(encode(ids))
    lost = slots < 0
    if lost.any():
        gone = ids.filter(pa.array(lost)).dictionary_encode()
        slots[lost] = len(names) + np.asarray(gone.indices)
        names = pa.concat_arrays([names, gone.dictionary])
    return pa.DictionaryArray.from_arrays(pa.array(slots, pa.int32()), names)
