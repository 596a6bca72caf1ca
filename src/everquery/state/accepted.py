"""Events between arrival and index: as rows, and grouped by key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from everquery.core.arrays import Array, Bytes, Floats, Int32s, Int64s
from everquery.index.rows import Grouped

COLUMNS = ("key", "time", "seq", "values", "weight", "arrived")


@dataclass(slots=True)  # frozen, it would take three times as long to make
class Events:
    """Events as rows, in the order in which they are processed.

    Attributes
    ----------
    key : int32, shape (n,)
        Key numbers.
    time : int64 or float64, shape (n,)
    seq : int64, shape (n,)
    values : float64, shape (attributes, n)
        NaN where a value is unknown.
    weight : int64, shape (n,)
        0 or less where it is unknown.
    arrived : int64, shape (n,)
        How many events had arrived before this one.
    """

    key: Int32s
    time: Array
    seq: Int64s
    values: Floats
    weight: Int64s
    arrived: Int64s

    def __len__(self) -> int:
        return int(self.key.size)

    def take(self, picked: Array) -> Events:
        """Return the picked rows, in that order."""
        return Events(
            self.key[picked],
            self.time[picked],
            self.seq[picked],
            np.ascontiguousarray(self.values[:, picked]),
            self.weight[picked],
            self.arrived[picked],
        )


def join_events(parts: Sequence[Events]) -> Events:
    """Return the rows of all parts, one behind the other."""
    return Events(
        np.concatenate([part.key for part in parts]),
        np.concatenate([part.time for part in parts]),
        np.concatenate([part.seq for part in parts]),
        np.concatenate([part.values for part in parts], axis=1),
        np.concatenate([part.weight for part in parts]),
        np.concatenate([part.arrived for part in parts]),
    )


@dataclass(slots=True)  # frozen, it would take three times as long to make
class Accepted:
    """The accepted events of a batch, and what the batch made known besides.

    Attributes
    ----------
    events : Events
        Batch events first; behind them, for each event with `fresh` set, the previous event of its
        key, as the one at which the key expired.
    grouped : Grouped
        The batch's events by key. ``position`` is twice the row plus one, so that the expiry that
        an event makes known sorts before it.
    fresh : uint8, for each grouped event
        1 where the key expired before it.
    expired_row : int64
        The rows of `events`, ascending, that have `fresh` set; their previous events follow in the
        same order.
    late : Events
    partial : bool
        Whether a value of an accepted event is unknown.
    before : Events, or None where nobody asked for it
        The last event of each key of `grouped` before the batch, where keys may expire, or
        `partial`; its `seq` is -1 where there was none.
    """

    events: Events
    grouped: Grouped
    fresh: Bytes
    expired_row: Int64s
    late: Events
    partial: bool = False
    before: Events | None = None
