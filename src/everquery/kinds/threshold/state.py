"""How far thresholds are, as a part of a shard's state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from everquery.core.arrays import Array, Int32s, Int64s
from everquery.core.invariants import Column, Contents, check_none, check_unique
from everquery.core.parts import Part, Saved
from everquery.kinds.index_part import IndexPart
from everquery.kinds.threshold.tally import OF_ALL
from everquery.state.pairs import KEY_SHIFT

if TYPE_CHECKING:
    from everquery.kinds.threshold.index import ThresholdIndex

WHOLE = {"left": Column("int64", ("queries",), least=1)}
CHANGES = {
    "query": Column("int32", ("changed",), least=0, below="queries", rising=True),
    "left": Column("int64", ("changed",), least=1),
}

TALLIES = {
    "query": Column("int32", ("totals",), least=0, below="queries"),
    "key": Column("int32", ("totals",), least=OF_ALL, below="keys"),
    "seen": Column("int64", ("totals",)),
    "period": Column("int64", ("totals",)),
    "fired": Column("uint8", ("totals",), below=2),
}


def check_totals(total: Array) -> None:
    """Raise if what queries ask for can't be."""
    check_none(total < 1, "total", total, "less than 1")


class ThresholdPart(Part):
    """What each query lacks, by its rank among the kind's live queries.

    Parameters
    ----------
    queries : function
        Returns the slots of the live queries, in order of registration.
    """

    name = "threshold"

    def __init__(self, index: ThresholdIndex, queries: Callable[[], Int32s]) -> None:
        self._index = index
        self._queries = queries
        # As they were committed.
        self._slots: Int32s = np.empty(0, np.int32)
        self._left: Int64s = np.empty(0, np.int64)

    def whole(self) -> Saved:
        """Return what all queries lack."""
        self._slots, self._left = self._counts()
        return Saved(arrays={"left": self._left})

    def changes(self) -> Saved | None:
        """Return what changed, or all where that is shorter or the queries are others."""
        slots, left = self._counts()
        same = np.array_equal(self._slots, slots)
        changed = np.flatnonzero(self._left != left) if same else np.arange(slots.size)
        self._slots, self._left = slots, left
        if same and not changed.size:
            return None
        if not same or 4 * changed.size >= slots.size:
            return Saved(arrays={"left": left})
        arrays: dict[str, Array] = {"query": changed.astype(np.int32), "left": left[changed]}
        return Saved(arrays=arrays, whole=False)

    def mark_committed(self) -> None:
        """Note what queries lack, and have it counted batch by batch."""
        self._index.add_up()
        self._slots, self._left = self._counts()

    def load(self, saved: Saved) -> None:
        """Check and take over what queries lacked."""
        slots = self._queries()
        contents = Contents(saved.arrays, {"queries": slots.size})
        contents.check(WHOLE if saved.whole else CHANGES)
        contents.check_all_seen()
        if not saved.whole:
            slots = slots[saved.arrays["query"]]
        left = saved.arrays["left"]
        total = self._index.numbers(slots)["total"]
        check_none(left > total, "left", left, "more than the total")
        if slots.size:
            self._index.set_state(slots, left)

    def adopt(self, saved: Saved, queries: Array) -> None:
        """Let queries lack what they lacked elsewhere."""
        self._index.set_state(queries, saved.arrays["left"])

    def may_be_missing(self) -> bool:
        """Tell whether there are no thresholds."""
        return not self._queries().size

    def _counts(self) -> tuple[Int32s, Int64s]:
        if not len(self._index.layers):
            return np.empty(0, np.int32), np.empty(0, np.int64)
        slots = self._queries()
        left: Int64s = self._index.state(slots)["left"]
        return slots, left


class TallyPart(IndexPart["ThresholdIndex"]):
    """What pairs of query and key have seen: queries by rank among the kind's live ones."""

    name = "tally"

    def whole(self) -> Saved:
        """Return all totals."""
        return Saved(arrays=self._index.tally.saved(self._queries(), changed=False))

    def changes(self) -> Saved | None:
        """Return the totals that changed, or all where that is about as much."""
        tally = self._index.tally
        changed = tally.changed()
        if not changed:
            return None
        if 2 * changed >= len(tally):
            return self.whole()
        return Saved(arrays=tally.saved(self._queries(), changed=True), whole=False)

    def mark_committed(self) -> None:
        """Take what is there as committed."""
        self._index.tally.mark_saved()

    def load(self, saved: Saved) -> None:
        """Check and take over totals."""
        slots, arrays = self._queries(), saved.arrays
        contents = Contents(arrays, {"queries": slots.size, "keys": self._keys()})
        contents.check(TALLIES)
        contents.check_all_seen()
        of_totals = slots[arrays["query"]]
        _check_tallies(arrays, self._index.asked(of_totals))
        if saved.whole:
            self._index.tally.clear()
        self._index.tally.load(of_totals, arrays)

    def adopt(self, saved: Saved, queries: Array) -> None:
        """Take over the totals of further queries."""
        self._index.tally.load(queries[saved.arrays["query"]], saved.arrays)
        self._index.tally.mark_changed()

    def move_keys(self, saved: Saved, numbers: Array) -> None:
        """Give keys other numbers in what `whole` gave."""
        key = saved.arrays["key"]
        saved.arrays["key"] = np.where(key == OF_ALL, key, numbers[key]).astype(key.dtype)

    def may_be_missing(self) -> bool:
        """Tell whether no total is tallied."""
        return not self._index.asked(self._queries())["tallied"].any()


def _check_tallies(arrays: Mapping[str, Array], asked: Mapping[str, Array]) -> None:
    """Raise if totals can't be those of their queries."""
    query, key, seen, fired = (arrays[name] for name in ("query", "key", "seen", "fired"))
    check_unique("array 'query', with 'key',", (key.astype(np.int64) + 1) << KEY_SHIFT | query)
    check_none(asked["tallied"] == 0, "query", query, "of a query without such a total")
    check_none((key != OF_ALL) != (asked["by_key"] != 0), "key", key, "a key, or none, where not")
    check_none(seen >= asked["total"], "seen", seen, "as much as the query waits for")
    check_none((seen < 0) & (asked["subtracts"] == 0), "seen", seen, "less than 0")
    over = fired != 0
    check_none(over & (asked["repeats"] != 0), "fired", fired, "of a query that repeats")
    check_none(over & (seen != 0), "seen", seen, "beyond a fire that is the last")
