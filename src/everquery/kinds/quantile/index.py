"""The quantile kind: the value at a rank, told again when the last value is no longer near enough.

The rows of a batch are taken in together, and queries are answered as of the last row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from everquery.core.arrays import (
    Array,
    Bools,
    Floats,
    Int32s,
    Int64s,
    move_columns,
    resized,
    total_bytes,
)
from everquery.core.parts import Part
from everquery.index.flags import Flags, option_flags
from everquery.index.kind import Explained, KindIndex
from everquery.index.layers import Layers
from everquery.index.row_segment import RowSegment
from everquery.index.rows import Findings, Grouped, Matches, NoticeColumn, Outcome, Rows, Step
from everquery.index.sort_keys import pack_findings
from everquery.index.weighed import order_by_position
from everquery.kinds.quantile.feed import FINEST, Answers, Feed
from everquery.kinds.quantile.feed_queries import FeedName, Queries
from everquery.kinds.quantile.rank_answers import order_by_slot, write_figures
from everquery.kinds.quantile.rank_cells import NOWHERE
from everquery.kinds.quantile.spec import Quantile
from everquery.kinds.quantile.state import QuantilePart, check_asked
from everquery.kinds.told_values import NOTHING, OUTCOMES, ValueRules
from everquery.stream import Stream

Figures = tuple[float, int, int, int, float]
"""Value, bounds of its rank, how many rows, epsilon."""

BY_KEY = option_flags(Quantile.options)["by_key"]
ONE_LANE = np.zeros(1, np.int32)


class _BySlot(NamedTuple):
    """What is known of each query, by slot.

    Attributes
    ----------
    phi, epsilon : float64
    last : int64
        How many rows count; 0 for all.
    low, high, by : float64
        What it wants to be told of: see `ValueRules`.
    feed, member : int32
        The query's feed, and its member there: `NOWHERE` while it waits, or if it has several.
    """

    phi: Floats
    epsilon: Floats
    last: Int64s
    low: Floats
    high: Floats
    by: Floats
    feed: Int32s
    member: Int32s

    @classmethod
    def of(cls, size: int) -> _BySlot:
        """Return room for `size` queries."""
        longs = np.zeros(size, np.int64)
        return cls(
            np.zeros(size),
            np.zeros(size),
            longs,
            *np.zeros((3, size)),
            *np.full((2, size), NOWHERE, np.int32),
        )

    def rules(self, slots: Array) -> ValueRules:
        """Return what queries want to be told of."""
        return ValueRules(self.low[slots], self.high[slots], self.by[slots])


class QuantileIndex(KindIndex):
    """Queries by feed; see `everquery.kinds.quantile.feed`."""

    outcomes: ClassVar[tuple[Outcome, ...]] = OUTCOMES
    must_know_of_drops: ClassVar[bool] = True  # those that came before keep a lane going
    columns: ClassVar[tuple[NoticeColumn, ...]] = (
        NoticeColumn("value", pa.float64(), "the quantile"),
        NoticeColumn("rank_low", pa.int64(), "lower bound of the value's rank"),
        NoticeColumn("rank_high", pa.int64(), "upper bound of the value's rank"),
        NoticeColumn("n", pa.int64(), "how many rows it is a quantile of"),
        NoticeColumn("epsilon", pa.float64(), "the error that is kept, as a share of n"),
    )

    def __init__(self) -> None:
        self.layers: Layers[RowSegment] = Layers(RowSegment)
        self.feeds: dict[FeedName, Feed] = {}
        self._names: list[FeedName] = []  # by number, also of feeds that have ended
        self._by_slot = _BySlot.of(0)
        self._tracked: tuple[FeedName, ...] = ()
        self._choosing = False  # whether some query is not told everything

    @property
    def _queries(self) -> Queries:
        return self._by_slot.phi, self._by_slot.epsilon

    # -- queries ------------------------------------------------------------------------------

    def describe(self, slots: Int32s, numbers: Mapping[str, Array]) -> None:
        """Note what queries ask for."""
        most = int(slots.max(initial=-1)) + 1
        if most > self._by_slot.phi.size:
            size = max(most, 2 * self._by_slot.phi.size)
            self._by_slot = _BySlot(*(resized(column, size, NOWHERE) for column in self._by_slot))
        self._by_slot.phi[slots] = numbers["phi"]
        self._by_slot.epsilon[slots] = numbers["epsilon"]
        self._by_slot.last[slots] = numbers["last"]
        self._by_slot.by[slots] = numbers["by"]
        self._by_slot.member[slots] = NOWHERE

    def numbers(self, slots: Int32s) -> dict[str, Array]:
        """Return what queries ask for."""
        names = ("phi", "epsilon", "last", "by")
        return {name: getattr(self._by_slot, name)[slots] for name in names}

    def add(self, rows: Rows, flags: Flags, *, announce: bool = True) -> None:
        """Add queries to their feeds."""
        self.layers.add(rows, flags)
        self._by_slot.low[rows.slot], self._by_slot.high[rows.slot] = rows.low[0], rows.high[0]
        self._choosing |= bool(self._by_slot.rules(rows.slot).given().any())
        everywhere = flags[rows.slot] & BY_KEY != 0
        last = self._by_slot.last[rows.slot]
        for window in np.unique(last).tolist():
            for every in (False, True):
                picked = np.flatnonzero((last == window) & (everywhere == every))
                if picked.size:
                    name = FeedName(rows.shape.attributes[0], window, rows.shape.keyed or every)
                    self._add_to(name, rows.slot[picked], rows.key[picked], every)

    def _add_to(self, name: FeedName, slot: Int32s, key: Int32s, everywhere: bool) -> None:
        if name not in self._names:
            self._names.append(name)
        self._by_slot.feed[slot] = self._names.index(name)
        feed = self.feeds.setdefault(name, Feed(name))
        if everywhere:
            feed.add_everywhere(slot)
        else:
            feed.add(slot, key if name.keyed else np.zeros_like(slot))

    def drop(self, slots: Int32s) -> None:
        """Take queries out of their feeds; a feed without any is forgotten."""
        for feed, part in self._by_feed(slots):
            feed.cancel(part)
            self._place(feed)
            member = self._by_slot.member[part]
            feed.drop(part, member[member != NOWHERE], self._queries)
            if feed.is_empty():
                del self.feeds[feed.name]
        self._by_slot.member[slots] = NOWHERE

    def _place(self, feed: Feed) -> None:
        """Put the waiting queries of a feed into cells."""
        for slots, members in feed.place(self._queries):
            self._by_slot.member[slots] = members

    def resume(self, slots: Int32s) -> None:
        """Let the next rows of their lanes tell queries what they missed."""
        for feed, part in self._by_feed(slots):
            member = self._by_slot.member[part]
            feed.renew(feed.members_of(part) if (member == NOWHERE).any() else member)

    def _by_feed(self, slots: Int32s) -> Iterator[tuple[Feed, Int32s]]:
        """Yield feeds, and which of the queries are theirs."""
        number = self._by_slot.feed[slots]
        for each in np.unique(number).tolist():
            feed = self.feeds.get(self._names[each])
            if feed is not None:
                yield feed, slots[number == each]

    def renumber(self, slots: Int32s) -> None:
        """Give all queries other slots, by their present ones."""
        self.layers.renumber(slots)
        before, self._by_slot = self._by_slot, _BySlot.of(int(slots.max(initial=0)) + 1)
        move_columns(before, self._by_slot, slots)
        for feed in self.feeds.values():
            feed.renumber(slots)
        self._forget_feeds()

    def _forget_feeds(self) -> None:
        """Forget the names of feeds that have ended; the others get new numbers."""
        number = np.full(len(self._names) + 1, NOWHERE, np.int32)  # the last is for queries of none
        kept = [i for i, name in enumerate(self._names) if name in self.feeds]
        number[kept] = np.arange(len(kept))
        self._names = [self._names[i] for i in kept]
        self._by_slot.feed[:] = number[self._by_slot.feed]

    def move_to_past(self, slots: Int32s, past: int) -> None:
        """Give queries that have just been added feeds of their own, which have had no rows."""
        for feed, part in list(self._by_feed(slots)):
            name = feed.name._replace(past=past)
            everywhere, alone, lanes = feed.withdraw(part)
            if feed.is_empty():
                del self.feeds[feed.name]
            if everywhere.size:
                self._add_to(name, everywhere, everywhere, True)
            if alone.size:
                self._add_to(name, alone, lanes, False)

    @property
    def pasts(self) -> int:
        """The largest number of feeds of queries that began in the past."""
        return max((name.past for name in self._names), default=0)

    def past_of(self, slots: Int32s) -> Int32s:
        """Return the number of the past that queries began in; 0 for those that did not."""
        pasts = np.array([*(name.past for name in self._names), 0], np.int32)
        found: Int32s = pasts[self._by_slot.feed[slots]]
        return found

    def slots_in(self, name: FeedName) -> Int32s:
        """Return the slots of the live queries of a feed, ascending."""
        number = self._names.index(name)
        return np.flatnonzero(self._by_slot.feed == number).astype(np.int32)

    # -- rows ---------------------------------------------------------------------------------

    def process(self, step: Step) -> list[Matches | Findings]:
        """Return which queries are told something else from now on."""
        if not step.grouped.position.size:
            return []
        found: list[Matches | Findings] = []
        together = None  # the rows of all keys in order of arrival, once a feed needs them
        for feed in self.feeds.values():
            feed.begin(self._queries)
            self._place(feed)
            if feed.name.keyed:
                rows = _of_lanes(step.grouped, feed)
            else:
                together = together or _together(step.grouped)
                rows = together
            if step.partial:
                rows = _known(rows, feed.name.attribute)
            if not rows.key.size:
                continue
            values = np.ascontiguousarray(rows.values[feed.name.attribute])
            answers = feed.take(rows.key, rows.start, values, self._queries, step.flags)
            if answers is not None:
                found.append(self._told(feed, answers, rows, step))
        return found

    def _told(self, feed: Feed, answers: Answers, rows: Grouped, step: Step) -> Findings:
        told, views = answers.told, answers.views
        code = np.zeros(told.slot.size, np.uint8)
        if self._choosing:
            code = feed.choose(told, self._by_slot.rules(told.slot))
            chosen = np.flatnonzero(code != NOTHING)
            told, code = told.take(chosen), code[chosen]
        last = rows.position[rows.start[1:] - 1]  # of each lane
        position = last[np.searchsorted(rows.key, views.lane)][told.place]
        packed = pack_findings(position, told.slot) | code
        order = np.empty(packed.size, np.int64)
        if views.lane.size == 1:  # by slot alone, which takes a fifth of the time
            order_by_slot(told.slot, int(told.slot.max(initial=-1)) + 1, order)
        else:
            order = np.argsort(packed)
        figures = {
            column.name: np.empty(order.size, column.type.to_pandas_dtype())
            for column in self.columns
        }
        write_figures(told, order, views.n, self._by_slot.epsilon, feed.finest(), *figures.values())
        return Findings(packed[order], figures)

    # -- questions ----------------------------------------------------------------------------

    def feed_of(self, slot: int) -> Feed:
        """Return the feed of a live query."""
        return self.feeds[self._names[self._by_slot.feed[slot]]]

    def answer(self, slot: int, lane: int) -> Figures:
        """Return a query's current answer in a lane: the figures of a notice, NaN without rows."""
        feed = self.feed_of(slot)
        phi, epsilon = float(self._by_slot.phi[slot]), float(self._by_slot.epsilon[slot])
        finest = FINEST if feed.error is None else feed.finest()
        n = feed.rows(lane) if lane != NOWHERE else 0
        if not n:
            return np.nan, 0, 0, 0, max(epsilon, finest)
        self._place(feed)
        told = feed.told_to(slot, lane, int(self._by_slot.member[slot]))
        found = feed.answer(lane, phi, max(epsilon, finest), told)
        return *found, n, max(epsilon, finest)

    def explain(self, slot: int) -> Explained | None:
        """Return how a query is answered."""
        feed = self.feed_of(slot)
        member = int(self._by_slot.member[slot])
        if member == NOWHERE:
            members = feed.members_of(np.array([slot], np.int32))
            member = int(members[0]) if members.size else NOWHERE
        cell, lane = (1, 1) if member == NOWHERE else feed.shared_by(member)
        others = "no other query" if cell == 1 else f"{cell - 1:,} other queries"
        path = f"cell of ranks that it shares with {others}, in a summary of the rows"
        rows = sum(map(len, self.layers))
        return Explained(path, (feed.name.attribute,), 0.0, 0.0, lane, rows)

    # -- state --------------------------------------------------------------------------------

    def parts(self, queries: Callable[[], Int32s], keys: Callable[[], int]) -> Sequence[Part]:
        """Return the part of what queries were told, and of the rows that they are about."""
        return (QuantilePart(self, queries, keys),)

    def check_loaded(
        self,
        rows: Rows,
        numbers: Mapping[str, Array],
        options: Mapping[str, Bools],
        stream: Stream,
    ) -> None:
        """Raise if what queries ask for can't be."""
        by_key = bool(options["by_key"].any())
        check_asked(numbers, by_key=by_key, can_be=stream.key is not None and not rows.shape.keyed)

    def load(self, name: FeedName, arrays: Mapping[str, Array]) -> None:
        """Take over what was saved of a feed, if it still has queries."""
        feed = self.feeds.get(name)
        if feed is not None:
            feed.load_rows(arrays)
            self._place(feed)
            slot = arrays["member.slot"]
            here = (slot != NOWHERE) & (self._by_slot.feed[slot] == self._names.index(name))
            member = np.where(here, self._by_slot.member[slot], NOWHERE)
            feed.load_told(arrays, member, self._queries)

    def has_loaded(self) -> None:
        """Finish loading: there is nothing more to come."""
        for feed in self.feeds.values():
            feed.has_loaded()

    def place_all(self) -> None:
        """Put all waiting queries into cells, where feeds have had rows."""
        for feed in self.feeds.values():
            self._place(feed)

    def track_changes(self) -> None:
        """Take note of what changes in all feeds from now on."""
        self._tracked = tuple(self.feeds)
        for feed in self.feeds.values():
            feed.track_changes()

    def tracks_changes(self) -> bool:
        """Tell whether there are no other feeds than those that were there at `track_changes`."""
        return tuple(self.feeds) == self._tracked and all(
            feed.tracks_changes() for feed in self.feeds.values()
        )

    def nbytes(self) -> int:
        """Return the bytes of the structures."""
        feeds = sum(feed.nbytes() for feed in self.feeds.values())
        by_slot: tuple[Array, ...] = self._by_slot
        return self.layers.nbytes() + feeds + total_bytes(*by_slot)


def _of_lanes(grouped: Grouped, feed: Feed) -> Grouped:
    """Return the rows of keys that queries of a feed are about, without keys that have none."""
    lengths = np.diff(grouped.start)
    wanted = feed.wanted(grouped.key) & (lengths > 0)
    if wanted.all():
        return grouped
    rows = np.flatnonzero(np.repeat(wanted, lengths))
    start = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths[wanted])])
    return Grouped(grouped.key[wanted], start, grouped.position[rows], grouped.values[:, rows])


def _known(rows: Grouped, attribute: int) -> Grouped:
    """Return the rows of which a value is known, without keys that have none."""
    known = ~np.isnan(rows.values[attribute])
    if known.all():
        return rows
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(known)])
    lengths = np.diff(before[rows.start])
    filled = lengths > 0
    start = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths[filled])])
    return Grouped(rows.key[filled], start, rows.position[known], rows.values[:, known])


def _together(grouped: Grouped) -> Grouped:
    """Return the rows of all keys as one lane, in order of arrival."""
    n = grouped.position.size
    order = np.empty(n, np.int64)
    order_by_position(grouped.position, int(grouped.position.max() >> 1) + 1, order)
    start = np.array([0, n], np.int64)
    return Grouped(ONE_LANE, start, grouped.position[order], grouped.values[:, order])
