"""What a shard tells, for other processes: plain columns, and what is no notice of an event."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

import numpy as np
import pyarrow as pa

from everquery.core.arrays import Int64s
from everquery.kinds import KINDS
from everquery.shard.layout import in_full
from everquery.shard.outcomes import columns_of

LETTER = "dead_letter"
QUARANTINED = "quarantined"


def plain_schema(notices: pa.Schema, carried: pa.Schema) -> pa.Schema:
    """Return the schema of notices that leave the process.

    Without dictionaries, with the version of the query set, and with the columns that are carried
    along from the events.
    """
    fields = [pa.field(field.name, _plain(field.type)) for field in notices]
    return pa.schema([*fields, pa.field("log_position", pa.int64()), *carried])


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    return pa.int64() if pa.types.is_null(kind) else kind  # the times of a stream without


def plain_notices(
    notices: pa.Table, position: int, schema: pa.Schema, carried: pa.Table | None = None
) -> pa.Table:
    """Return notices with the version of the query set, and with what is carried along."""
    columns: dict[str, pa.ChunkedArray] = dict(
        zip(notices.column_names, notices.columns, strict=True)
    )
    if carried is not None:
        names = (name for name in columns_of(KINDS) if name in columns)
        taken = [name for name in names if name in carried.column_names]
        columns |= {in_full(name): columns[name] for name in taken}
        columns |= zip(carried.column_names, carried.columns, strict=True)
    return _table(columns, notices.num_rows, position, schema)


def plain_letters(
    letters: pa.Table,
    shard: int,
    position: int,
    schema: pa.Schema,
    carried: pa.Table | None = None,
) -> pa.Table:
    """Return refused events in the columns of notices, with what is carried along.

    Their ids follow from the shard and how many events it had got before: a batch that is done
    again gives the same ones.
    """
    n = letters.num_rows
    words = {"kind": LETTER, "event": "refused"}
    columns = {name: pa.repeat(pa.scalar(word), n) for name, word in words.items()}
    columns["notice_id"] = _letter_ids(np.asarray(letters["position"]), shard)
    for name in letters.column_names:
        if name in schema.names:
            columns[name] = letters.column(name)
    if carried is not None:
        columns |= zip(carried.column_names, carried.columns, strict=True)
    return _table(columns, n, position, schema)


def _letter_ids(arrived: Int64s, shard: int) -> pa.Array:
    seed = blake2b(repr((LETTER, shard)).encode(), digest_size=8).digest()
    ids = np.empty((arrived.size, 2), ">u8")
    ids[:, 0] = int.from_bytes(seed)
    ids[:, 1] = arrived
    return pa.Array.from_buffers(pa.binary(16), arrived.size, [None, pa.py_buffer(ids)])


def plain_quarantined(
    reasons: Mapping[tuple[str, str], str], shard: int, position: int, schema: pa.Schema
) -> pa.Table:
    """Return a notice for each query, given by kind and id, that was taken out, and why."""
    rows = [
        {
            "query_id": query_id,
            "kind": kind,
            "event": QUARANTINED,
            "reason": reason,
            "log_position": position,
            "notice_id": blake2b(
                repr((query_id, kind, QUARANTINED, shard, position)).encode(), digest_size=16
            ).digest(),
        }
        for (kind, query_id), reason in reasons.items()
    ]
    return pa.Table.from_pylist(rows, schema)


def _table(
    columns: Mapping[str, pa.ChunkedArray], rows: int, position: int, schema: pa.Schema
) -> pa.Table:
    filled = []
    for field in schema:
        if field.name == "log_position":
            filled.append(pa.repeat(pa.scalar(position, pa.int64()), rows))
        elif field.name in columns:
            filled.append(columns[field.name].cast(field.type))
        else:
            filled.append(pa.nulls(rows, field.type))
    return pa.Table.from_arrays(filled, schema=schema)
