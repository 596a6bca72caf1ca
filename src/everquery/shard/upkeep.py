"""Upkeep of a shard: merges of segments off the hot path, and forgetting dropped queries."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from everquery.core.arrays import Int32s
from everquery.index.kind import KindIndex
from everquery.index.layers import Merge
from everquery.index.rows import Rows
from everquery.shard.contents import Contents
from everquery.shard.integrity import Integrity
from everquery.shard.query_set import QuerySet

SWEEP = 10_000  # dropped queries after which segments are looked through for them
COMPACT = 100_000  # dropped queries after which their slots are given up
LOOK = 256  # events between two looks at what there is to merge, while queries stay as they are


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

    def __init__(self, contents: Contents, queries: QuerySet, integrity: Integrity) -> None:
        self._contents = contents
        self._queries = queries
        self._integrity = integrity
        self._sweep_at = SWEEP
        self._arrived: int | None = None  # events, when merges were last looked for
        self._known: tuple[int, int] | None = None  # queries there and dropped, likewise

    def due_merge(self, *, loading: bool = False) -> DueMerge | None:
        """Return a large merge to be run off the hot path, or None.

        Parameters
        ----------
        loading : bool
            Whether queries have come, and no events.
        """
        catalog = self._contents.catalog
        arrived = self._contents.admission.arrived
        walked = 0 if self._arrived is None else arrived - self._arrived
        known = len(catalog), catalog.dropped
        if walked < LOOK and known == self._known and not loading:
            return None
        self._arrived, self._known = arrived, known
        sweeping = catalog.dropped >= self._sweep_at and not loading
        at_work = self._contents.at_work()
        for _, index in at_work:
            index.layers.walked(walked)
        for kind, index in at_work:
            merge = index.layers.due_merge(catalog.flags, loading=loading)
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
        self._known = None  # another may be due
        self._contents.indexes[due.kind].layers.install(due.merge, merged)

    def abandon(self, due: DueMerge) -> None:
        """Give up a merge that failed; its parts stay as they are."""
        self._known = None
        self._contents.indexes[due.kind].layers.abandon(due.merge)

    def compact(self, *, keys: bool) -> Int32s | None:
        """Forget dropped queries for good, where they outnumber the others by far.

        Returns the new numbers of keys, by their old ones, if they have new ones.

        Parameters
        ----------
        keys : bool
            Whether keys that only they named are forgotten too, and the others get new numbers:
            not where changes of state that were saved name keys by their numbers.
        """
        contents = self._contents
        dropped = contents.catalog.dropped
        if dropped < max(COMPACT, 2 * (len(contents.catalog) - dropped)):
            return None
        self._queries.settle()
        numbers = None
        with self._integrity.changing():
            slots = contents.catalog.compact()
            for index in contents.indexes.values():
                index.renumber(slots)
            contents.hygiene.renumber(slots)
            if keys:
                numbers = self._forget_keys()
            self._queries.announce_again()
        self._sweep_at = 1
        return numbers

    def _forget_keys(self) -> Int32s | None:
        """Forget keys that only dropped queries named: no event had them, and no query has."""
        contents = self._contents
        keys = contents.keys
        if contents.stream.key is None or any(map(_has_predecessors, contents.indexes.values())):
            return None
        flags = contents.catalog.flags
        rows = {kind: list(index.rows(flags)) for kind, index in contents.indexes.items()}
        needed = keys.had_events()
        for part in (part for parts in rows.values() for part in parts if part.shape.keyed):
            needed[part.key] = True
        admission = contents.admission
        for events in (admission.held, admission.guard.waiting):
            if events is not None:
                needed[events.key] = True
        kept = np.flatnonzero(needed)
        if len(keys) - kept.size < max(COMPACT // 4, kept.size):
            return None
        numbers = keys.keep(kept)
        for kind, parts in rows.items():
            contents.indexes[kind] = self._built_anew(kind, parts, numbers)
        contents.hygiene.renumber_keys(numbers)
        held, waiting = admission.held, admission.guard.waiting
        if held is not None:
            admission.held = replace(held, key=numbers[held.key])
        if waiting is not None:
            admission.guard.waiting = replace(waiting, key=numbers[waiting.key])
        return numbers

    def _built_anew(self, kind: str, rows: list[Rows], numbers: Int32s) -> KindIndex:
        """Return the index of a kind where keys have other numbers.

        As from a snapshot: segments know keys in many forms, and there are few queries left.
        """
        catalog, before = self._contents.catalog, self._contents.indexes[kind]
        live = np.flatnonzero(catalog.flags[: len(catalog)]).astype(np.int32)
        slots = self._contents.of_kind(live, kind)
        after = type(before)()
        after.answering, after.past = before.answering, before.past
        after.describe(slots, before.numbers(slots))
        for part in rows:
            key = numbers[part.key] if part.shape.keyed else part.key
            after.add(replace(part, key=key), catalog.flags, announce=False)
        known = (lambda: slots), partial(len, self._contents.keys)
        for old, new in zip(before.parts(*known), after.parts(*known), strict=True):
            saved = old.whole()
            old.move_keys(saved, numbers)
            new.load(saved)
        return after


def _has_predecessors(index: KindIndex) -> bool:
    """Tell whether boxes of replaced queries, and so their keys, are still needed."""
    return bool(index.predecessors)
