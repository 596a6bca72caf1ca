"""The state of quantile queries, as a part of a shard's state.

Every row changes a summary all over. So changes hold the rows of a batch, not the summaries that
they lead to, with what members were told and the values of cells.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from everquery.core.arrays import Array, Int32s
from everquery.core.invariants import Column, Contents, refuse
from everquery.core.parts import Saved
from everquery.kinds.index_part import IndexPart
from everquery.kinds.quantile.feed import Feed
from everquery.kinds.quantile.feed_queries import FeedName
from everquery.kinds.quantile.state_checks import check_asked, check_feed

if TYPE_CHECKING:
    from everquery.kinds.quantile.index import QuantileIndex

__all__ = ["QuantilePart", "check_asked"]

_LABEL = re.compile(
    r"feed (0|[1-9]\d{0,9}) (0|[1-9]\d{0,9}) ([01])(?: past ([1-9]\d{0,9}))? (.+)", re.ASCII
)
_QUERIES = "queries"  # of a feed of the past: which have it
PAST = {_QUERIES: Column("int64", ("queries",), least=0, below="all queries", rising=True)}
_NEWS = ("ended", "rows.lane", "summary", "cell.code", "member.slot")


class QuantilePart(IndexPart["QuantileIndex"]):
    """All feeds; their lanes are named by the numbers of keys."""

    name = "quantile"

    def __init__(
        self, index: QuantileIndex, queries: Callable[[], Int32s], keys: Callable[[], int]
    ) -> None:
        super().__init__(index, queries, keys)
        self._marked = False

    def whole(self) -> Saved:
        """Return all feeds."""
        index = self._index
        slots = self._queries()
        if self._marked:
            index.place_all()
            index.track_changes()
        return self._saved(slots, ((feed, feed.whole()) for feed in index.feeds.values()))

    def changes(self) -> Saved | None:
        """Return what changed, or everything if there are other feeds than before."""
        index = self._index
        if not index.tracks_changes():
            return self.whole()
        index.place_all()
        changes = [(feed, feed.changes()) for feed in index.feeds.values()]
        if not any(arrays[part].size for _, arrays in changes for part in _NEWS):
            return None
        saved = self._saved(self._queries(), changes)
        saved.whole = False
        return saved

    def _saved(self, slots: Int32s, feeds: Iterable[tuple[Feed, dict[str, Array]]]) -> Saved:
        saved = Saved()
        for feed, arrays in feeds:
            arrays["member.slot"] = np.searchsorted(slots, arrays["member.slot"])
            label = _label_of(feed.name)
            if feed.name.past:
                mine = np.intersect1d(self._index.slots_in(feed.name), slots)
                arrays[_QUERIES] = np.searchsorted(slots, mine).astype(np.int64)
            saved.arrays.update({f"{label} {part}": array for part, array in arrays.items()})
        return saved

    def mark_committed(self) -> None:
        """Note from now on what changes in all feeds."""
        self._marked = True
        self._index.track_changes()

    def leave_unnoted(self) -> None:
        """Note no rows."""
        for feed in self._index.feeds.values():
            feed.leave_untracked()

    def load(self, saved: Saved) -> None:
        """Check and take over what was saved of feeds; the queries are here already."""
        index, slots = self._index, self._queries()
        feeds = _by_feed(saved.arrays)
        self._move_to_past(feeds, slots)
        if feeds.keys() != index.feeds.keys():
            refuse("summaries are not those that its quantile queries need")
        for name in sorted(feeds):
            arrays = feeds[name]
            check_feed(name, arrays, queries=slots.size, keys=self._keys(), whole=saved.whole)
            error, known = float(arrays["error"][0]), index.feeds[name].error
            if not saved.whole and known is not None and known != error:
                refuse(f"a summary errs {error}, and erred {known} before")
            index.load(name, {**arrays, "member.slot": slots[arrays["member.slot"]]})
        index.has_loaded()

    def _move_to_past(self, feeds: Mapping[FeedName, dict[str, Array]], slots: Int32s) -> None:
        """Let queries that began in the past have the feeds that they had."""
        for name in sorted(name for name in feeds if name.past):
            arrays = feeds[name]
            contents = Contents(arrays, {"all queries": slots.size})
            contents.check(PAST)
            ranks = arrays.pop(_QUERIES)
            if name not in self._index.feeds:
                if (self._index.past_of(slots[ranks]) != 0).any():
                    refuse("a query is in two summaries")
                self._index.move_to_past(slots[ranks], name.past)

    def adopt(self, saved: Saved, queries: Array) -> None:
        """Take over feeds, which become those of queries that began in the past together."""
        index = self._index
        feeds = _by_feed(saved.arrays)
        past = index.pasts + 1
        index.move_to_past(queries, past)
        for name, arrays in feeds.items():
            slot = queries[arrays["member.slot"]]
            index.load(name._replace(past=past), {**arrays, "member.slot": slot})
        for name in feeds:
            index.feeds[name._replace(past=past)].has_loaded()

    def move_keys(self, saved: Saved, numbers: Array) -> None:
        """Give lanes, which are keys in some feeds, other numbers in what `whole` gave."""
        for label, array in saved.arrays.items():
            found = _LABEL.fullmatch(label)
            if found is not None and found[3] == "1" and found[5] == "lanes":
                saved.arrays[label] = numbers[array].astype(array.dtype)


def _label_of(name: FeedName) -> str:
    """Return what the arrays of a feed are called by."""
    label = f"feed {name.attribute} {name.window} {int(name.keyed)}"
    return f"{label} past {name.past}" if name.past else label


def _by_feed(saved: Mapping[str, Array]) -> dict[FeedName, dict[str, Array]]:
    """Return the arrays of each feed from those of all, which have its label and a blank before."""
    feeds: dict[FeedName, dict[str, Array]] = {}
    for label, array in saved.items():
        found = _LABEL.fullmatch(label)
        if found is None:
            refuse(f"it has an array {label[:80]!r}, which has no meaning")
        name = FeedName(int(found[1]), int(found[2]), found[3] == "1", int(found[4] or 0))
        feeds.setdefault(name, {})[found[5]] = array
    return feeds
