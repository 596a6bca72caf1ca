"""How far thresholds are, as a part of a shard's state."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from everquery.core.arrays import Array, Int32s, Int64s
from everquery.core.invariants import Column, Contents, check_none
from everquery.core.parts import Part, Saved

if TYPE_CHECKING:
    from everquery.kinds.threshold.index import ThresholdIndex

WHOLE = {"left": Column("int64", ("queries",), least=1)}
CHANGES = {
    "query": Column("int32", ("changed",), least=0, below="queries", rising=True),
    "left": Column("int64", ("changed",), least=1),
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

    def may_be_missing(self) -> bool:
        """Tell whether there are no thresholds."""
        return not self._queries().size

    def _counts(self) -> tuple[Int32s, Int64s]:
        if not len(self._index.layers):
            return np.empty(0, np.int32), np.empty(0, np.int64)
        slots = self._queries()
        left: Int64s = self._index.state(slots)["left"]
        return slots, left
