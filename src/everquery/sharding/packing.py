"""Many events into few blobs: all work that needs no state, and one blob a shard.

A runtime that moves rows between processes pays for each of them. Packed, it moves a few blobs: the
events of one shard, decoded and checked, as columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from everquery.core.arrays import Array, Int32s, Int64s
from everquery.core.arrow_bytes import table_bytes
from everquery.core.jit import kernel
from everquery.sharding.places import Places, places_of, with_short_sources
from everquery.sharding.routing import NO_SECRET, shards_of
from everquery.sharding.wire import cut, table_of_bytes
from everquery.state.clock_guard import judged
from everquery.state.event_times import in_time_type
from everquery.state.events import FINE, Arrivals, decode
from everquery.state.said_times import span_in_units
from everquery.stream import Stream

# A column of events that tells what the clock said, in times of the stream's type.
CLOCK = "everquery clock"

_CARRIED = "carried."

BLOB_ROWS = 1 << 18
BLOB_BYTES = 4 << 20  # a blob is a row of Spark, of which Java holds several copies at a time


@kernel
def sort_by_shard(shard: Int32s, start: Int64s, order: Int64s) -> None:
    """List the rows of each shard together and in order; `start` gets where each shard begins."""
    for i in range(shard.size):
        start[shard[i] + 1] += 1
    for s in range(1, start.size):
        start[s] += start[s - 1]
    for i in range(shard.size):
        order[start[shard[i]]] = i
        start[shard[i]] += 1
    for s in range(start.size - 1, 0, -1):
        start[s] = start[s - 1]
    start[0] = 0


@dataclass(frozen=True, slots=True)
class Packer:
    """Turns batches of events into one blob a shard.

    Attributes
    ----------
    stream : Stream
    shards : int
        One, for a stream without key.
    wide : int
        Further shards, each of which gets everything.
    carried : tuple of str
        Columns that are carried along, whatever they hold.
    blob_rows : int
        Events that are packed together, at most.
    blob_bytes : int
        About how large a blob may be; an event that is larger has one of its own.
    secret : bytes
        By which keys are divided; see `shards_of`.
    time_type : Arrow type, optional
        That of the job's times; those of another unit or zone are converted exactly.

    Batches may have the columns of `everquery.sharding.places`; blobs then know their places. If
    the stream has ``max_ahead``, they have a column `CLOCK`.
    """

    stream: Stream
    shards: int
    carried: tuple[str, ...] = ()
    blob_rows: int = BLOB_ROWS
    wide: int = 0
    blob_bytes: int = BLOB_BYTES
    secret: bytes = NO_SECRET
    time_type: pa.DataType | None = None

    @property
    def units(self) -> int:
        """How many shards there are in all."""
        return self.shards + self.wide

    def pack(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, int, bytes]]:
        """Yield number, shard and blob; the numbers count what was packed together, in order.

        Of a stream with time every shard gets a blob of each number, if only to know how far time
        has come.
        """
        # Keys are divided into shards, so that a blob has half of what is packed together, or less.
        divided = 1 if self.wide or self.shards == 1 else 2
        short = map(with_short_sources, batches)
        joined = _joined(short, self.blob_rows, divided * self.blob_bytes)
        for number, table in enumerate(joined):
            packed: Unpacked | None = None
            for shard, part in self.divide(table):
                if part is not packed:  # wide shards get the same
                    packed, blob = part, _blob(part)
                yield number, shard, blob

    def divide(self, table: pa.Table) -> Iterator[tuple[int, Unpacked]]:
        """Yield shard and its events, decoded and checked; see `pack`."""
        carried = table.select(list(self.carried)).replace_schema_metadata(None)
        arrivals = in_time_type(decode(table, self.stream), self.time_type, str(self.stream.time))
        arrivals = _judged(arrivals, table, self.stream)
        timed = self.stream.time is not None
        if timed:
            arrivals = _with_ends_of_time(arrivals)
        key = arrivals.key
        if key is not None and not pa.types.is_dictionary(key.type):
            key = key.dictionary_encode()
        whole = _part(arrivals, None, key, carried, places_of(table))
        if key is None or self.shards == 1:
            yield 0, whole
        else:
            of_key, start, order = self._order(key)
            for shard in range(self.shards):
                rows = order[start[shard] : start[shard + 1]]
                if rows.size or timed:
                    here = _keys_of_shard(key, np.flatnonzero(of_key == shard), rows)
                    yield shard, _part(arrivals, rows, here, carried, places_of(table))
        for shard in range(self.shards, self.units):
            yield shard, whole

    def _order(self, key: pa.DictionaryArray) -> tuple[Int32s, Int64s, Int64s]:
        """Return the shard of each distinct key, and all rows by shard."""
        of_key = shards_of(key.dictionary, self.shards, self.secret)
        indices = key.indices
        if indices.null_count:  # of a row that is refused; the first shard counts it
            indices = indices.fill_null(of_key.size)
        start = np.zeros(self.shards + 1, np.int64)
        order = np.empty(len(key), np.int64)
        sort_by_shard(np.append(of_key, np.int32(0))[np.asarray(indices)], start, order)
        return of_key, start, order


def _joined(batches: Iterable[pa.RecordBatch], enough: int, most_bytes: int) -> Iterator[pa.Table]:
    """Yield the batches: together where they have few rows, in parts where those are wide."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        more = batch.nbytes
        if rows and (rows >= enough or size + more > most_bytes):
            yield pa.Table.from_batches(waiting)
            waiting, rows, size = [], 0, 0
        if more > most_bytes:
            yield from (pa.Table.from_batches([part]) for part in cut(batch, most_bytes))
            continue
        waiting.append(batch)
        rows += batch.num_rows
        size += more
    if rows:
        yield pa.Table.from_batches(waiting)


def _judged(arrivals: Arrivals, table: pa.Table, stream: Stream) -> Arrivals:
    """Refuse the rows that are further ahead of their clock than the stream allows.

    A row of which the clock is null is not ahead.
    """
    if stream.max_ahead is None:
        return arrivals
    if pa.types.is_null(arrivals.time_type):
        return replace(arrivals, latest=np.inf)
    span = span_in_units(stream.max_ahead, arrivals.time_type, str(stream.time))
    clock = _in_units(table[CLOCK].combine_chunks(), arrivals.time_type)
    most = np.iinfo(np.int64).max - int(span)  # so that no sum is beyond 64 bits
    latest = np.minimum(np.asarray(clock.fill_null(most)), most) + span
    return judged(arrivals, latest)


def _in_units(clock: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return what a clock says as numbers, in the unit of times of a type; in UTC without zone."""
    if pa.types.is_timestamp(clock.type):
        plain = clock.cast(pa.int64()).cast(pa.timestamp(clock.type.unit))
        clock = plain.cast(
            pa.timestamp(kind.unit) if pa.types.is_timestamp(kind) else kind, safe=False
        )
    if pa.types.is_date32(clock.type):
        clock = clock.cast(pa.int32())
    return clock.cast(pa.float64() if kind == pa.float64() else pa.int64())


def _with_ends_of_time(arrivals: Arrivals) -> Arrivals:
    """Note the least and the largest time of the good rows."""
    time = arrivals.time
    good = arrivals.refused == FINE
    if time is None or not good.any():
        return arrivals
    if not good.all():
        time = time[good]
    return replace(arrivals, oldest=time.min().item(), newest=time.max().item())


def _keys_of_shard(key: pa.DictionaryArray, here: Int64s, rows: Int64s) -> pa.DictionaryArray:
    """Return the keys of some rows, with a dictionary of only those keys that are given."""
    place = np.zeros(len(key.dictionary) + 1, np.int32)
    place[here] = np.arange(here.size)
    indices = key.indices.take(pa.array(rows))
    absent = np.asarray(indices.is_null()) if indices.null_count else None
    codes = place[np.asarray(indices.fill_null(0) if indices.null_count else indices)]
    names = key.dictionary.take(pa.array(here))
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=absent), names)


def _part(
    arrivals: Arrivals,
    rows: Int64s | None,
    key: pa.DictionaryArray | None,
    carried: pa.Table,
    places: Places | None,
) -> Unpacked:
    """Return the events of some rows, or of all."""
    picked = replace(arrivals, key=key, text=None)
    if rows is not None:
        picked = replace(
            picked,
            time=None if arrivals.time is None else arrivals.time[rows],
            values=arrivals.values[:, rows],
            weight=None if arrivals.weight is None else arrivals.weight[rows],
            refused=arrivals.refused[rows],
            culprit=arrivals.culprit[rows],
        )
        carried = carried.take(pa.array(rows)) if carried.num_columns else carried
        places = None if places is None else places.take(rows)
    known = {} if places is None else places.metadata()
    return Unpacked(picked, carried, known, None if places is None else places.offset)


def _blob(part: Unpacked) -> bytes:
    arrivals = part.arrivals
    columns: dict[str, pa.Array] = {}
    if arrivals.key is not None:
        columns["key"] = arrivals.key
    if arrivals.time is not None:
        columns["time"] = pa.array(arrivals.time)
    for a, values in enumerate(arrivals.values):
        columns[f"value.{a}"] = pa.array(values)
    if arrivals.weight is not None:
        columns["weight"] = pa.array(arrivals.weight)
    if arrivals.refused.any():
        columns["refused"] = pa.array(arrivals.refused)
        columns["culprit"] = pa.array(arrivals.culprit)
    for name, column in zip(part.carried.column_names, part.carried.columns, strict=True):
        columns[_CARRIED + name] = column
    known = dict(part.metadata)
    if part.offset is not None:
        columns["offset"] = pa.array(part.offset)
    if arrivals.newest is not None:
        known[b"newest"] = repr(arrivals.newest).encode()
        known[b"oldest"] = repr(arrivals.oldest).encode()
    return table_bytes(pa.table(columns).replace_schema_metadata(known))


@dataclass(frozen=True, slots=True)
class Unpacked:
    """The events that a shard gets, decoded and checked.

    Attributes
    ----------
    arrivals : Arrivals
    carried : the columns that are carried along
    metadata, offset : what `everquery.sharding.places` knows of their places
    """

    arrivals: Arrivals
    carried: pa.Table
    metadata: dict[bytes, bytes]
    offset: Int64s | None


def unpack(blob: bytes | pa.Buffer, stream: Stream, time_type: pa.DataType) -> Unpacked:
    """Return the events of a blob."""
    table = table_of_bytes(blob)
    n = table.num_rows
    columns = {
        name: column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        for name, column in zip(table.column_names, table.columns, strict=True)
    }

    def array(name: str) -> Array | None:
        return np.asarray(columns[name]) if name in columns else None

    metadata = table.schema.metadata or {}
    oldest, newest = metadata.get(b"oldest"), metadata.get(b"newest")
    refused, culprit = array("refused"), array("culprit")
    values = np.empty((len(stream.attributes), n))
    for a in range(len(stream.attributes)):
        values[a] = columns[f"value.{a}"]
    number = float if time_type == pa.float64() else int
    arrivals = Arrivals(
        key=None if stream.key is None else columns.get("key", pa.nulls(0, pa.string())),
        time=array("time"),
        time_type=time_type,
        values=values,
        weight=array("weight"),
        refused=np.zeros(n, np.uint8) if refused is None else refused,
        culprit=np.full(n, -1, np.int8) if culprit is None else culprit,
        oldest=None if oldest is None else number(oldest),
        newest=None if newest is None else number(newest),
        latest=None if stream.max_ahead is None else np.inf,  # it was judged before it was packed
    )
    carried = {
        name.removeprefix(_CARRIED): column
        for name, column in columns.items()
        if name.startswith(_CARRIED)
    }
    return Unpacked(arrivals, pa.table(carried), metadata, array("offset"))
