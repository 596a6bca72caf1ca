"""One event as a mapping, and its notices as objects, without Arrow on the way.

Only for an event with which nothing is unusual: its key is known, and its values are what the
stream's columns hold. For all others, `Engine.process` says what becomes of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa

from everquery.core.name_loops import ABSENT
from everquery.core.python_values import exact_number
from everquery.engine.notice import Notice
from everquery.errors import InvalidBatchError
from everquery.index.weighed import HEAVIEST
from everquery.queries.spec import Key
from everquery.shard import Shard
from everquery.shard.notice_ids import notice_id
from everquery.shard.one_event import Told
from everquery.state.accepted import Events
from everquery.state.said_times import time_in_units
from everquery.stream import Stream

_LARGEST = 2**62  # of times that are numbers
_INT64, _FLOAT64 = pa.int64(), pa.float64()


class Plain(NamedTuple):
    """An event that has all that its stream asks for.

    Attributes
    ----------
    key : str, int or None
    number : int
        That of the key.
    time : int or float
        In the unit of the stream's times; 0 for a stream without.
    values : list of float
    weight : int
        1 for a stream without.
    """

    key: Key | None
    number: int
    time: int | float
    values: list[float]
    weight: int


def read_plain(event: Mapping[str, Any], stream: Stream, shard: Shard) -> Plain | None:
    """Return an event as the shard takes it; None if something about it is unusual."""
    try:
        key, number = None, 0
        if stream.key is not None:
            key = event[stream.key]
            if type(key) is not str and type(key) is not int:
                return None
            number = shard.key_number(key)
            if number == ABSENT:
                return None
        time: int | float = 0
        if stream.time is not None:
            time = event[stream.time]
            kind = shard.time_type
            if kind is None:
                return None
            if not (type(time) is int and kind == _INT64 and -_LARGEST < time < _LARGEST):
                time = time_in_units(time, kind)
        weight = 1
        if stream.weight is not None:
            weight = event[stream.weight]
            if type(weight) is not int or not 0 < weight <= HEAVIEST:
                return None
        values = [event[name] for name in stream.attributes]
    except (KeyError, InvalidBatchError):
        return None
    for place, value in enumerate(values):
        if type(value) is not float:
            number_of = exact_number(value)
            if number_of is None:
                return None
            values[place] = value = number_of
        if value != value:
            return None
    return Plain(key, number, time, values, weight)


def light_notices(shard: Shard, plain: Plain, events: Events, told: Sequence[Told]) -> list[Notice]:
    """Return what is told of one event."""
    layout = shard.layout()
    kind = shard.time_type
    time: Any = None
    if kind is not None:
        time = events.time[0].item()
        if kind not in (_INT64, _FLOAT64):
            time = pa.scalar(time, _INT64).cast(kind).as_py()
    seq = int(events.seq[0])
    common: dict[str, Any] = dict.fromkeys(layout.names[:-1])  # all but the id
    common.update(zip(shard.stream.attributes, plain.values, strict=True))
    common["key"], common["time"], common["seq"] = plain.key, time, seq
    said, hashes = shard.contents.outcomes.said, shard.contents.outcomes.hashes
    catalog = shard.contents.catalog
    ids = catalog.names.texts([slot for slot, _, _, _ in told])
    notices = []
    for query_id, (slot, code, figures, place) in zip(ids, told, strict=True):
        columns = common.copy()
        columns["query_id"] = query_id
        columns["kind"], columns["event"], columns["reason"] = said[code]
        if figures is not None:
            for name, values in figures.items():
                value = values[place].item()
                columns[layout.figures[name]] = value if value == value else None  # null for NaN
        prints = catalog.prints[slot]
        identify = partial(notice_id, query_id, prints, plain.key, seq, hashes[code])
        notices.append(Notice(columns, identify))
    return notices
