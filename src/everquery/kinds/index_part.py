"""What the state parts of kinds share: the index, and who its queries and keys are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from everquery.core.arrays import Int32s
from everquery.core.parts import Part
from everquery.index.kind import KindIndex

Index = TypeVar("Index", bound=KindIndex)


class IndexPart(Part, Generic[Index]):
    """A part that holds what an index knows. Queries are named by rank among the live ones.

    Parameters
    ----------
    index : KindIndex
    queries : function
        Returns the slots of the kind's live queries, in order of registration.
    keys : function
        Returns how many keys there are.
    """

    def __init__(
        self, index: Index, queries: Callable[[], Int32s], keys: Callable[[], int]
    ) -> None:
        self._index = index
        self._queries = queries
        self._keys = keys

    def may_be_missing(self) -> bool:
        """Tell whether the kind has no queries."""
        return not self._queries().size
