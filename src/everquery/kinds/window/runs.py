"""What events come into which lanes: the events of groups, and runs of them."""

from __future__ import annotations

from typing import NamedTuple

from everquery.core.arrays import Array, Floats, Int32s, Int64s

ALL = -1  # where a run's matches begin, if all events match

# Places in `counts`, behind those of the lanes.
RUN, EVENT, MATCH, TOLD = range(3, 7)


class Groups(NamedTuple):
    """What lanes of the same events have in common, by group.

    Attributes
    ----------
    attribute, by : int32
        Whose values are kept, and of vectors whose values are the places; -1 is a value of 0.
    longest : like marks
        The longest window that any query has asked for.
    error : float64
        How far off a total may be, as a share; 0 for exact lanes.
    """

    attribute: Int32s
    by: Int32s
    longest: Array
    error: Floats


class Runs(NamedTuple):
    """Lanes, each with the events of its key, or all, and those of them in its box.

    Attributes
    ----------
    lane : int64
    begin, end : int64
        Where the events are.
    first, stop : int64
        Where its matches begin and end; `ALL` if all events match.
    match : int64
        The places of matching events, lane by lane, ascending.
    """

    lane: Int64s
    begin: Int64s
    end: Int64s
    first: Int64s
    stop: Int64s
    match: Int64s
