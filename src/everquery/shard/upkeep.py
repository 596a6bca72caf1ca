"""Upkeep of a shard: merges of segments off the hot path, and forgetting dropped queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from everquery.index.layers import Merge
from everquery.shard.contents import Contents
from everquery.shard.query_set import QuerySet

SWEEP = 10_000  # dropped queries after which segments are looked through for them
COMPACT = 100_000  # dropped queries after which their slots are given up


@dataclass(frozen=True, slots=True)
class DueMerge:
    """A merge of one kind's segments that may run in another thread."""

    kind: str
    merge: Merge[Any]

    def run(self) -> Any:  # noqa: ANN401 - the kind's segment type, which only the kind knows
        """Return the merged segment."""
        return self.merge.run()


class Upkeep:
    """What keeps the structures of a shard small."""

    def __init__(self, contents: Contents, queries: QuerySet) -> None:
        self._contents = contents
        self._queries = queries
        self._sweep_at = SWEEP

    def due_merge(self) -> DueMerge | None:
        """Return a large merge to be run off the hot path, or None."""
        catalog = self._contents.catalog
        sweeping = catalog.dropped >= self._sweep_at
        for kind, index in self._contents.indexes.items():
            merge = index.layers.due_merge(catalog.flags)
            if merge is None and sweeping:
                merge = index.layers.due_sweep(catalog.flags)
            if merge is not None:
                return DueMerge(kind, merge)
        if sweeping:  # nothing left to sweep; look again after as many drops as half of what lives
            living = len(catalog) - catalog.dropped
            self._sweep_at = catalog.dropped + max(SWEEP, living // 2)
        return None

    def install(self, due: DueMerge, merged: Any) -> None:  # noqa: ANN401 - the kind's segment type
        """Put the result of a merge in the place of its parts."""
        self._contents.indexes[due.kind].layers.install(due.merge, merged)

    def abandon(self, due: DueMerge) -> None:
        """Give up a merge that failed; its parts stay as they are."""
        self._contents.indexes[due.kind].layers.abandon(due.merge)

    def compact(self) -> None:
        """Forget dropped queries for good, where they outnumber the others by far."""
        contents = self._contents
        living = len(contents.catalog) - contents.catalog.dropped
        if contents.catalog.dropped < max(COMPACT, 2 * living):
            return
        self._queries.settle()
        slots = contents.catalog.compact()
        for index in contents.indexes.values():
            index.renumber(slots)
        contents.hygiene.renumber(slots)
        self._queries.announce_again()
        self._sweep_at = 1
