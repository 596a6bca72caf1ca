"""Queries, groups and lanes as loops see them: an array of records of each.

A loop that is given a record is given one address, not dozens of arrays. Everything else sees the
fields of all records as columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from everquery.core.arrays import Array, Bytes, Floats, Int32s, Int64s

Record = np.void
Records = npt.NDArray[np.void]


class Asked(NamedTuple):
    """What queries ask for, by slot.

    Attributes
    ----------
    aggregate, compared : uint8
        Codes of words; see `cuts`.
    low, high : float64
        The range of which entries and exits are told; -inf and NaN are no limit.
    epsilon : float64
        How much a value must have moved to be told, as a share; 0 for exact answers.
    """

    aggregate: Bytes
    compared: Bytes
    low: Floats
    high: Floats
    epsilon: Floats


class Groups(NamedTuple):
    """Queries that share what is kept of events: by group.

    Attributes
    ----------
    x, y : int32
        Attributes by their places in the stream; a `y` of -1 is none.
    to : uint8
    around, sums, timed, of_each : uint8
        Whether queries compare within a share, whether y is summed, whether the window is a span of
        time, and whether each key has a lane.
    factor : float64
    edges : int32
        0 for exact lanes.
    window : like marks
        0 for all events.
    first, members, live : int64
        Where its queries begin, how many there were, and how many there are.
    """

    x: Int32s
    y: Int32s
    to: Bytes
    around: Bytes
    sums: Bytes
    timed: Bytes
    of_each: Bytes
    factor: Floats
    edges: Int32s
    window: Array
    first: Int64s
    members: Int64s
    live: Int64s


class Lanes(NamedTuple):
    """Events that are aggregated together: those of a key, or all.

    Attributes
    ----------
    group, key : int32
        A key of -1 is that of lanes of all keys.
    start, room, used : int64
        Where its numbers begin, -1 for nowhere; and how many events an exact lane has room for,
        and has.
    head : int64
        Of exact windows: the place of the oldest event. Of others, the oldest block.
    blocks : int64
    seen : int64
        How many events it has seen.
    clock : like marks
        How far its time has come.
    told : int64
        Where what its queries were told begins.
    next : int32
        The next lane of the same key, or -1.
    """

    group: Int32s
    key: Int32s
    start: Int64s
    room: Int64s
    used: Int64s
    head: Int64s
    blocks: Int64s
    seen: Int64s
    clock: Array
    told: Int64s
    next: Int32s


_TYPES: Mapping[type, Mapping[str, type]] = {
    Asked: {"aggregate": np.uint8, "compared": np.uint8},
    Groups: {
        "x": np.int32, "y": np.int32, "to": np.uint8, "around": np.uint8, "sums": np.uint8,
        "timed": np.uint8, "of_each": np.uint8, "edges": np.int32, "first": np.int64,
        "members": np.int64, "live": np.int64,
    },
    Lanes: {"group": np.int32, "key": np.int32, "next": np.int32},
}  # fmt: skip
_OTHERS: Mapping[type, type] = {Asked: np.float64, Groups: np.float64, Lanes: np.int64}

Columns = TypeVar("Columns", Asked, Groups, Lanes)


def no_records(columns: type[Columns], marks: Any = np.int64) -> Records:  # noqa: ANN401 - a NumPy type
    """Return an empty array of records that have such columns.

    Parameters
    ----------
    marks : the type of times
    """
    types, others = {"window": marks, "clock": marks, **_TYPES[columns]}, _OTHERS[columns]
    fields = [(name, types.get(name, others)) for name in columns._fields]
    return np.empty(0, np.dtype(fields, align=True))


def columns_of(records: Records, columns: type[Columns]) -> Columns:
    """Return the columns of records: the same memory."""
    return columns(*(records[name] for name in columns._fields))


def with_room(records: Records, size: int) -> Records:
    """Return a copy of records with room for so many; the new ones are 0."""
    larger = np.zeros(size, records.dtype)
    larger[: records.size] = records
    return larger
