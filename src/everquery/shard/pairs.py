"""Notices about pairs of events of two streams, as tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from everquery.core.arrays import Array, Int64s, Uint64s
from everquery.core.times import as_time
from everquery.index.rows import ChangedPairs
from everquery.shard.asking import kind_of_question
from everquery.shard.contents import Contents
from everquery.shard.record import Notices
from everquery.state.accepted import Events

if TYPE_CHECKING:
    from everquery.shard.shard import Shard

NAMES = ("key", "time", "seq")  # of an event, besides its values
_PRIMES = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
_SHIFTS = np.uint64(32), np.uint64(29)


@dataclass(frozen=True, slots=True)
class ToldPairs:
    """Notices of joins of two streams.

    Attributes
    ----------
    first : Arrow table
        Notices as those of the first stream are, about its events.
    second : Arrow table
        The other event of each: key, time, seq and values.
    place : int64
        After how many events of the call each is told.
    """

    first: pa.Table
    second: pa.Table
    place: Int64s

    def about(self, *, first: bool, shards: tuple[Shard, Shard]) -> pa.Table:
        """Return the notices with the events of one stream in front, and the others besides.

        The columns of the others have the name of their stream before their own.
        """
        streams = tuple(shard.stream for shard in shards)
        if first:
            return with_columns(self.first, self.second, streams[1].name)
        ours, theirs = (shard.layout().figures for shard in shards)
        renamed = {ours[name]: theirs.get(name) for name in ours}
        mine = [*NAMES, *streams[0].attributes]
        columns = {
            name: self.first[each]
            for each in self.first.column_names
            if each not in mine and (name := renamed.get(each, each)) is not None
        }
        front = ("query_id", "kind", "event")
        table = {name: columns.pop(name) for name in front}
        table |= {name: self.second[name] for name in NAMES}
        table["reason"] = columns.pop("reason")
        table |= {name: self.second[name] for name in streams[1].attributes}
        beside = self.first.select(mine)
        return with_columns(pa.table(table | columns), beside, streams[0].name)


def with_columns(notices: pa.Table, events: pa.Table, stream: str) -> pa.Table:
    """Return notices with the columns of events of another stream in front of their ids."""
    at = notices.schema.get_field_index("notice_id")
    for name in events.column_names:
        notices = notices.add_column(at, f"{stream}.{name}", events[name])
        at += 1
    return notices


def expect_pairs(shard: Shard, question: str) -> None:
    """Let notices have the columns of the kind that tells of pairs of events."""
    shard.queries.see(kind_of_question(shard.contents, question).name)


def tell_pairs(
    shard: Shard,
    question: str,
    others: Mapping[str, Shard],
    **said: Any,  # noqa: ANN401 - as the kind takes it
) -> list[tuple[str, ToldPairs]]:
    """Return what queries over a stream and another one tell of pairs of events.

    Parameters
    ----------
    question : str
        To which a kind answers with `ChangedPairs`.
    others : mapping from name to Shard
        Those of the other streams.

    Returns
    -------
    list of the other stream and the notices
    """
    asked = {name: other.asked(question) for name, other in others.items()}
    flags = shard.contents.catalog.flags
    found = shard.ask_kind(question, flags=flags, others=asked, **said)
    kind = kind_of_question(shard.contents, question).name
    return [(pairs.other, _written(shard, kind, pairs, others[pairs.other])) for pairs in found]


def _written(shard: Shard, kind: str, pairs: ChangedPairs, other: Shard) -> ToldPairs:
    """Return the notices of a kind about pairs of events, of which `other` has the second.

    Ids are a pure function of query, outcome and both events, whichever of these came last.
    """
    n = pairs.slot.size
    code = pairs.code + np.uint8(shard.contents.outcomes.first[kind])
    first = Events(arrived=np.zeros(n, np.int64), **pairs.first)
    row = np.arange(n)
    salt = pairs.salt ^ _salt(other.contents, pairs.second["key"], pairs.second["seq"])
    notices = Notices(pairs.slot, code, row, first, row, pairs.figures, salt=salt)
    events = _event_columns(pairs.second, other.contents, other.schema())
    return ToldPairs(shard.teller.write_alone([notices]), events, pairs.place)


def _scrambled(words: Uint64s) -> Uint64s:
    """Return what `everquery.core.names.scramble` does with each."""
    for shift, prime in zip(_SHIFTS, _PRIMES, strict=True):
        words = (words ^ (words >> shift)) * prime
    return words ^ (words >> _SHIFTS[0])


def _salt(other: Contents, key: Array, seq: Int64s) -> Uint64s:
    """Return what the id of a notice has of the second event of a pair."""
    mixed = _scrambled(seq.astype(np.uint64))
    if not other.keys.keyed:
        return mixed
    digests = other.keys.digests(key.astype(np.int64))[key]
    return _scrambled(mixed ^ digests[:, 0]) ^ digests[:, 1]


def _event_columns(events: Mapping[str, Array], contents: Contents, schema: pa.Schema) -> pa.Table:
    """Return events as notices of their stream have them: key, time, seq and values."""
    stream = contents.stream
    n = events["seq"].size
    columns = [pa.nulls(n, schema.field("key").type), pa.nulls(n, schema.field("time").type)]
    if n and stream.key is not None:
        keys = pa.array(events["key"].astype(np.int32))
        columns[0] = pa.DictionaryArray.from_arrays(keys, contents.keys.arrow())
    if n and stream.time is not None:
        columns[1] = as_time(events["time"], schema.field("time").type)
    columns.append(pa.array(events["seq"]))
    columns += [pa.array(values, from_pandas=True) for values in events["values"]]
    names = [*NAMES, *stream.attributes]
    return pa.table(columns, schema=pa.schema([schema.field(name) for name in names]))
