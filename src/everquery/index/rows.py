"""Queries as columns: what goes into an index, and what comes back out of it for a merge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from everquery.core.arrays import Array, Bytes, Floats, Int32s, Int64s, Uint64s
from everquery.core.crew import ALONE, Crew
from everquery.index.clock import Passage
from everquery.index.flags import Flags
from everquery.queries.spans import SpanColumn
from everquery.stream import Stream

NO_KEY = np.int32(-1)
WORTH = 16_384  # events that are worth a thread


@dataclass(frozen=True, slots=True)
class Shape:
    """What all rows of a segment have in common.

    Attributes
    ----------
    attributes : tuple of int
        The stream's attributes that the boxes restrict, by position; `NAMELESS` alone where boxes
        are empty.
    keyed : bool
        Whether each row sees the events of one key only.
    counting : bool
        Whether events count one each, whatever they weigh.
    tallied : bool
        Whether what each row has seen is added up event by event, in a table beside the rows.
    by_key : bool
        Whether that is done for each key apart.
    """

    attributes: tuple[int, ...]
    keyed: bool
    counting: bool = False
    tallied: bool = False
    by_key: bool = False


@dataclass(slots=True)  # frozen, it would take three times as long to make
class Rows:
    """Boxes of one shape.

    Attributes
    ----------
    slot : int32, shape (n,)
        The number of the query in the shard.
    key : int32, shape (n,)
        The number of the key in the shard; all `NO_KEY` where the shape is not keyed.
    low, high : float64, shape (attributes, n)
        Half-open ranges; a `high` of NaN has no upper limit.
    """

    shape: Shape
    slot: Int32s
    key: Int32s
    low: Floats
    high: Floats

    def __len__(self) -> int:
        return int(self.slot.size)

    def arrays(self) -> tuple[Array, ...]:
        """Return the columns, to count their bytes."""
        return self.slot, self.key, self.low, self.high

    def take(self, picked: Int64s | Int32s) -> Rows:
        """Return the picked rows, in that order."""
        return Rows(
            self.shape,
            self.slot[picked],
            self.key[picked],
            np.ascontiguousarray(self.low[:, picked]),
            np.ascontiguousarray(self.high[:, picked]),
        )

    def renumbered(self, slots: Int32s) -> Rows:
        """Return the same with other slots, given by the present ones."""
        return replace(self, slot=slots[self.slot])

    def without_dropped(self, flags: Flags) -> Rows:
        """Return the rows whose query has not been deregistered."""
        flags = flags[self.slot]
        return self if flags.all() else self.take(np.flatnonzero(flags))


def joined(parts: Sequence[Rows]) -> Rows:
    """Return all rows of parts of one shape."""
    if len(parts) == 1:
        return parts[0]
    return Rows(
        parts[0].shape,
        np.concatenate([part.slot for part in parts]),
        np.concatenate([part.key for part in parts]),
        np.concatenate([part.low for part in parts], axis=1),
        np.concatenate([part.high for part in parts], axis=1),
    )


@dataclass(slots=True)  # frozen, it would take three times as long to make
class Grouped:
    """The accepted events of a batch, each key's together and in order.

    Attributes
    ----------
    key : int32, shape (groups,)
        The keys of the batch, ascending.
    start : int64, shape (groups + 1,)
        Where each key's events begin.
    position : int64, shape (n,)
        The event's place in the batch's order, which sorts the notices.
    values : float64, shape (all attributes of the stream and one more, n)
        NaN where a value is unknown. The last row is 0, and all events have it: empty boxes are
        found by it. Its place is `NAMELESS`: counted from the end.
    """

    key: Int32s
    start: Int64s
    position: Int64s
    values: Floats


class Earlier(NamedTuple):
    """Earlier events of keys whose last event lacks values; see `everquery.state.sights`.

    Attributes
    ----------
    first : int32
        The newest entry of each key, or -1; shorter than there are keys where others have none.
    older : int32
        The next older entry of the same key, or -1.
    values : float64, shape (attributes, entries)
    """

    first: Int32s
    older: Int32s
    values: Floats

    @classmethod
    def none(cls) -> Earlier:
        """Return that there are none."""
        return cls(np.empty(0, np.int32), np.empty(0, np.int32), np.empty((0, 0)))


class Whereabouts(Protocol):
    """Where keys are, as queries over different attributes have seen them last."""

    @property
    def keys(self) -> Int32s:
        """The keys, ascending."""

    def values(self, attributes: Sequence[int]) -> Floats:
        """Return the values of some attributes, NaN where a key was not seen with all of them."""


@dataclass(slots=True)  # frozen, it would take three times as long to make
class Matches:
    """Which queries each grouped event matched.

    Attributes
    ----------
    slots : int32
        The matching queries, event by event; a buffer that the next batch uses again.
    begin : int
        Where the first event's matches begin in it.
    ends : int64, shape (n,)
        Where each event's matches end.
    """

    slots: Int32s
    begin: int
    ends: Int64s


@dataclass(slots=True)  # frozen, it would take three times as long to make
class Findings:
    """What happened to which queries, at which positions.

    Attributes
    ----------
    packed : int64
        See `everquery.index.sort_keys`.
    figures : mapping from the name of a `NoticeColumn` to int64 or float64, shape (n,)
        What the notices tell besides: all columns of the kind, or none where it has none.
    attributes : tuple of int
        Those that the queries restrict. What is told of a key, and not of an event, is told of its
        last event that knows them.
    """

    packed: Int64s
    figures: Mapping[str, Array] = field(default_factory=dict)
    attributes: tuple[int, ...] = ()


@dataclass(slots=True)
class Changed:
    """What is told at the end of a step, of any events of the past.

    Attributes
    ----------
    slot : int64
    code : uint8
        Which of the kind's outcomes.
    columns : mapping
        Of the events that are told: key, time, seq, weight and values.
    figures : as in `Findings`
    salt : uint64
        What the ids have besides.
    """

    slot: Int64s
    code: Bytes
    columns: Mapping[str, Array]
    figures: Mapping[str, Array]
    salt: Uint64s


@dataclass(slots=True)
class ChangedPairs:
    """What is told at the end of a call, of pairs of events of two streams.

    Attributes
    ----------
    other : str
        The second stream.
    slot : int64
    code : uint8
        Which of the kind's outcomes.
    first, second : mappings
        Of the events of either stream: key, time, seq, weight and values.
    figures : as in `Findings`
    salt : uint64
        What the ids have besides query, outcome and both events.
    place : int64
        After how many events of the call each is told.
    """

    other: str
    slot: Int64s
    code: Bytes
    first: Mapping[str, Array]
    second: Mapping[str, Array]
    figures: Mapping[str, Array]
    salt: Uint64s
    place: Int64s


@dataclass(frozen=True, slots=True)
class NoticeColumn:
    """A column that the notices of a kind have besides those of all notices.

    Attributes
    ----------
    name : str
        Kinds that have a column of the same name share it.
    type : int64 or float64 of Arrow
    meaning : str
        One line, for the documentation.
    """

    name: str
    type: pa.DataType
    meaning: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """One thing that a kind can tell.

    Attributes
    ----------
    event, reason : str
        Those of the notice.
    skipped_by : str, optional
        The option with which a query does not tell it.
    at_once : bool
        Whether it is told at once, whatever rules of time the query has.
    bare : bool
        Whether its notices have none of the columns that only the kind has.
    """

    event: str
    reason: str | None = None
    skipped_by: str | None = field(default=None, repr=False)  # what is printed is part of ids
    at_once: bool = field(default=False, repr=False)
    bare: bool = field(default=False, repr=False, compare=False)


class Past(Protocol):
    """The kept past of a stream."""

    stream: Stream

    def pieces(self) -> Iterator[tuple[Mapping[str, Array], int | float | None]]:
        """Yield all events that are kept, in order: key, time, seq, weight and values.

        With each piece comes the time that was set back to behind it, None if it was not.
        """

    def lost(self) -> int | float | None:
        """Return how far time had come with the events that are gone; None if none is."""

    def whole_rows(self) -> int | None:
        """Return how many events are kept since the last part that is lost; None if none is."""


class Said(Protocol):
    """What queries say besides boxes, options and numbers, by slot."""

    @property
    def stream(self) -> Stream:
        """The stream that they are about."""

    def span(self, name: str, slots: Int32s) -> SpanColumn | None:
        """Return a span of queries; None if no query has it."""

    def text(self, name: str, slots: Int32s) -> pa.Array | None:
        """Return a text of queries; None if no query has it."""

    def ids(self, slots: Int32s) -> list[str]:
        """Return the ids of queries."""


@dataclass(slots=True)  # frozen, it would take three times as long to make
class Step:
    """What an index needs to answer a batch.

    Attributes
    ----------
    grouped : Grouped
    fresh : uint8, for each grouped event
        1 where the key expired before it.
    seen, last : for each key, whether it was in sight before the batch, and its last values then
    flags : uint16, for each slot
    all_live : bool
        Whether no query is dropped or paused, so that flags need not be looked at.
    weight : int64, by row: half of the position, rounded down
        0 or less where it is unknown.
    time : int64 or float64, by row
    seq : int64, by row
    time_type : Arrow type, or None for a stream without time
    said : Said, optional
    passage : Passage, or None where no kind with queries watches time
    earlier : Earlier
        What keys in sight did before their last event, where that lacks values.
    partial : bool
        Whether a value of some event is unknown.
    crew : Crew
        The threads that may divide the work.
    """

    grouped: Grouped
    fresh: Bytes
    seen: Bytes
    last: Floats
    flags: Flags
    all_live: bool
    weight: Int64s = field(default_factory=lambda: np.empty(0, np.int64))
    time: Array = field(default_factory=lambda: np.empty(0, np.int64))
    time_type: pa.DataType | None = None
    said: Said | None = None
    passage: Passage | None = None
    earlier: Earlier = field(default_factory=Earlier.none)
    partial: bool = False
    crew: Crew = ALONE
    seq: Int64s = field(default_factory=lambda: np.empty(0, np.int64))

    def pieces(self) -> list[Step]:
        """Return the step as several, each with some of the keys and about as many events."""
        if self.crew.threads == 1:
            return [self]
        grouped, start = self.grouped, self.grouped.start
        pieces = self.crew.pieces(int(start[-1]), WORTH)
        if len(pieces) == 1:
            return [self]
        cuts = [int(np.searchsorted(start, end)) for _, end in pieces[:-1]]
        return [
            replace(self, grouped=replace(grouped, key=grouped.key[a:b], start=start[a : b + 1]))
            for a, b in zip([0, *cuts], [*cuts, start.size - 1], strict=True)
        ]
