"""The counts of queries, as a part of a shard's state."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from everquery.core.arrays import Int32s
from everquery.core.invariants import Column, Contents
from everquery.core.parts import Part, Saved

if TYPE_CHECKING:
    from tests.conformance.toy.index import NthIndex

WHOLE = {"seen": Column("int64", ("queries",), least=0)}


class NthPart(Part):
    """How many events each query has seen, by its rank among the kind's live queries."""

    name = "nth"

    def __init__(self, index: NthIndex, queries: Callable[[], Int32s]) -> None:
        self._index = index
        self._queries = queries

    def whole(self) -> Saved:
        """Return all counts; with every commit, as there is nothing less to return."""
        return Saved(arrays=self._index.state(self._queries()))

    def load(self, saved: Saved) -> None:
        """Check and take over counts."""
        slots = self._queries()
        contents = Contents(saved.arrays, {"queries": slots.size})
        contents.check(WHOLE)
        contents.check_all_seen()
        self._index.set_state(slots, saved.arrays["seen"])

    def may_be_missing(self) -> bool:
        """Tell whether there are no such queries."""
        return not self._queries().size
