"""Notices as Arrow tables: one id each, no strings copied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from everquery.core.arrays import Int32s, Int64s, Uint64s
from everquery.core.times import as_time
from everquery.kinds import KINDS, Kind
from everquery.shard.notice_ids import write_ids
from everquery.shard.outcomes import OutcomeTable, columns_of
from everquery.shard.record import Notices
from everquery.stream import OWNER_COLUMNS, Stream


def notice_schema(
    stream: Stream,
    time_type: pa.DataType,
    key_type: pa.DataType,
    *,
    labelled: bool = False,
    carried: Sequence[str] = (),
    kinds: Mapping[str, Kind] = KINDS,
) -> pa.Schema:
    """Return the schema of a stream's notices.

    Parameters
    ----------
    labelled : bool
        Whether they tell owner and labels too.
    carried : names of columns of events that are added to them
    """
    text = pa.dictionary(pa.int32(), pa.string())
    word = pa.dictionary(pa.int8(), pa.string())
    names = figure_names(stream, carried, kinds)
    return pa.schema(
        [
            ("query_id", text),
            ("kind", word),
            ("event", word),
            ("key", pa.dictionary(pa.int32(), key_type)),
            ("time", time_type),
            ("seq", pa.int64()),
            ("reason", word),
            *((name, pa.float64()) for name in stream.attributes),
            ("held_back", pa.int64()),
            *((names[name], column.type) for name, column in columns_of(kinds).items()),
            *((name, text) for name in OWNER_COLUMNS if labelled),
            ("notice_id", pa.binary(16)),
        ]
    )


def figure_names(
    stream: Stream, carried: Sequence[str] = (), kinds: Mapping[str, Kind] = KINDS
) -> dict[str, str]:
    """Return what the columns of kinds are called; some names may be taken by columns of events."""
    taken = {*stream.attributes, *carried}
    names = {}
    for name in columns_of(kinds):
        names[name] = in_full(name, kinds) if name in taken else name
    return names


def in_full(name: str, kinds: Mapping[str, Kind] = KINDS) -> str:
    """Return what a column of a kind is called where its name is taken: the kind comes first."""
    for kind, found in kinds.items():
        if any(column.name == name for column in found.index.columns):
            return f"{kind}_{name}"
    raise KeyError(name)


@dataclass(frozen=True, slots=True)
class Names:
    """The names and hashes that notices are written with.

    Attributes
    ----------
    queries, keys : Arrow arrays, by slot and by key number
    query_digests, key_digests : uint64, shape (n, 2), likewise
    texts : Arrow array
        Owners and labels, each once.
    owner, labels : int32, by slot
        Places in `texts`, or -1; perhaps shorter than there are slots.
    """

    queries: pa.Array
    keys: pa.Array
    query_digests: Uint64s
    key_digests: Uint64s
    texts: pa.Array
    owner: Int32s
    labels: Int32s


def write_notices(
    notices: Notices,
    names: Names,
    outcomes: OutcomeTable,
    attributes: Sequence[str],
    figures: Mapping[str, str],
    schema: pa.Schema,
) -> pa.Table:
    """Return notices as a table; `figures` has the names of the kinds' columns."""
    slot, row, events = notices.slot, notices.row, notices.events
    ids = np.empty(2 * slot.size, np.uint64)
    hashes = outcomes.hashes[notices.code]
    write_ids(
        slot,
        row,
        hashes if notices.salt is None else hashes ^ notices.salt,
        names.query_digests,
        names.key_digests,
        events.key,
        events.seq,
        ids,
    )
    key = events.key[row]
    mask = np.ones(key.size, np.bool_) if names.keys.null_count else None
    if notices.salt is not None and mask is None:
        mask = key < 0  # they went through the rules, so queries may have ended
    columns = outcomes.words(notices.code)
    columns["query_id"] = pa.DictionaryArray.from_arrays(
        pa.array(slot.astype(np.int32)), names.queries, safe=False
    )
    columns["key"] = pa.DictionaryArray.from_arrays(
        pa.array(key, mask=mask), names.keys, safe=False
    )
    columns["time"] = as_time(events.time[row], schema.field("time").type)
    columns["seq"] = pa.array(events.seq[row])
    unknown = bool(np.isnan(events.values).any())  # also where a query has ended
    for name, values in zip(attributes, events.values, strict=True):
        columns[name] = pa.array(values[row], from_pandas=unknown)  # NaN becomes null
    columns["held_back"] = _nothing(columns["seq"], pa.int64())
    if notices.held is not None:
        columns["held_back"] = pa.array(notices.held, mask=notices.held == 0)
    for name, written in figures.items():
        if name in notices.figures:
            mask = outcomes.lacks(name, notices.code)
            columns[written] = pa.array(notices.figures[name], mask=mask)
        else:
            columns[written] = _nothing(columns["seq"], outcomes.columns[name].type)
    if OWNER_COLUMNS[0] in schema.names:
        for name, codes in zip(OWNER_COLUMNS, (names.owner, names.labels), strict=True):
            columns[name] = _texts(codes, slot, names.texts)
    columns["notice_id"] = pa.Array.from_buffers(
        pa.binary(16), slot.size, [None, pa.py_buffer(ids)]
    )
    return pa.table([columns[name] for name in schema.names], schema=schema)


def _nothing(seq: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a column of nulls, the usual case: bits alone, over memory that is there already."""
    nothing = pa.py_buffer(bytes((len(seq) + 7) // 8))
    return pa.Array.from_buffers(kind, len(seq), [nothing, seq.buffers()[1]], len(seq))


def _texts(codes: Int32s, slot: Int64s, texts: pa.Array) -> pa.Array:
    """Return the owners or labels of queries, by their places among all texts."""
    picked = np.full(slot.size, -1, np.int32)
    known = slot < codes.size
    picked[known] = codes[slot[known]]
    indices = pa.array(picked, mask=picked < 0)
    return pa.DictionaryArray.from_arrays(indices, texts, safe=False)
