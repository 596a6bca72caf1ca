"""Events of the past as the columns of a Parquet file, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from everquery.core.arrays import Array, Int32s
from everquery.core.times import as_time
from everquery.history.chunk import Chunk
from everquery.shard.past import Mark
from everquery.shard.recorder import Moment
from everquery.state.accepted import Events
from everquery.stream import Stream

# Columns beside the stream's own, whose names could be any.
BATCH, SEQ = "everquery batch", "everquery seq"


def description_of(stream: Stream) -> dict[str, Any]:
    """Return what files depend on: the columns of a stream."""
    return {
        "name": stream.name,
        "key": stream.key,
        "time": stream.time,
        "attributes": list(stream.attributes),
        "weight": stream.weight,
    }


def table_of(chunk: Chunk, names: pa.Array, time_type: pa.DataType, stream: Stream) -> pa.Table:
    """Return the events of a chunk as a table; unknown values are NaN, unknown weights 0."""
    events = chunk.events()
    columns: dict[str, Any] = {BATCH: chunk.batches(), SEQ: events.seq}
    if stream.key is not None:
        columns[stream.key] = pa.DictionaryArray.from_arrays(pa.array(events.key), names)
    if stream.time is not None:
        columns[stream.time] = as_time(events.time, time_type)
    columns |= dict(zip(stream.attributes, events.values, strict=True))
    if stream.weight is not None and stream.weight not in columns:
        columns[stream.weight] = events.weight
    return pa.table(columns)


def chunk_of(
    table: pa.Table,
    header: dict[str, Any],
    mark: Mark,
    numbers_of: Callable[[pa.Array], Int32s],
    stream: Stream,
) -> Chunk:
    """Return a chunk of what files hold.

    Raises
    ------
    ValueError, KeyError
        If they can't hold that.
    """
    n = table.num_rows
    lengths = header["lengths"]
    batch = _numbers(table[BATCH], np.int64)
    if not np.array_equal(batch, np.repeat(np.arange(header["first"], header["end"]), lengths)):
        raise ValueError("its events are of other batches")
    key = np.zeros(n, np.int32)
    if stream.key is not None:
        column = table[stream.key].combine_chunks()
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        if n:
            key = numbers_of(column.dictionary)[np.asarray(column.indices)]
        if (key < 0).any():
            raise ValueError("it has keys that are not known")
    time: Array = np.zeros(n, np.int64)
    if stream.time is not None:
        kind = table[stream.time].type
        floats = pa.types.is_floating(kind)
        told = table[stream.time]
        told = told.cast(pa.int32()) if pa.types.is_date32(kind) else told
        time = _numbers(told.cast(pa.float64() if floats else pa.int64()), None)
    values = np.empty((len(stream.attributes), n))
    for place, name in enumerate(stream.attributes):
        values[place] = _numbers(table[name], np.float64)
    weight = np.ones(n, np.int64)
    if stream.weight in stream.attributes:
        known = values[list(stream.attributes).index(str(stream.weight))]
        weight = np.where(np.isnan(known), 0, known).astype(np.int64)
    elif stream.weight is not None:
        weight = _numbers(table[stream.weight], np.int64)
    seq = _numbers(table[SEQ], np.int64)
    moments = [
        Moment(
            newest.item() if newest_known else None, began.item() if began_known else None, flush
        )
        for newest, newest_known, began, began_known, flush in zip(
            header["newest"], header["newest.known"], header["began"], header["began.known"],
            header["flushing"].astype(bool).tolist(), strict=True,
        )
    ]  # fmt: skip
    events = Events(key, time, seq, values, weight, np.zeros(n, np.int64))
    return Chunk(mark, header["first"], lengths, moments, header["special"], [events])


def _numbers(column: pa.ChunkedArray, dtype: type | None) -> Array:
    found: Array = column.to_numpy()
    return np.array(found, dtype)  # one that loops may write to
