"""The boxes of queries that were replaced, until what that changed has been told."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from everquery.core.arrays import Int32s, Int64s
from everquery.index.flags import NEW, Flags
from everquery.index.rows import Rows
from everquery.index.sort_keys import pack_findings

_KEY_SHIFT = 32
_SLOT_MASK = (1 << _KEY_SHIFT) - 1


class Predecessors:
    """What stood in the place of queries that have not been announced yet.

    All slots are those of the new queries. If a query is replaced twice before it is announced, the
    last one has the first one's box here.

    Attributes
    ----------
    rows : list of Rows
        The old boxes.
    undecided : int64
        Pairs ``key << 32 | slot`` whose last crossing of the old box was still waiting to count:
        what had been told of them is the opposite of where they are.
    """

    def __init__(self) -> None:
        self.rows: list[Rows] = []
        self.undecided: Int64s = np.empty(0, np.int64)

    def __len__(self) -> int:
        return sum(map(len, self.rows))

    def add(self, rows: Rows, slots: Int32s, key: Int64s, slot: Int64s) -> None:
        """Take note of old boxes.

        Parameters
        ----------
        rows : Rows
            The old boxes, by their old slots.
        slots : int32, by row
            The new slots.
        key, slot : int64
            The undecided pairs, with new slots.
        """
        self.rows.append(replace(rows, slot=slots))
        self.undecided = np.concatenate([self.undecided, key << _KEY_SHIFT | slot])

    def hand_on(self, old: Int32s, new: Int32s) -> None:
        """Let queries that are replaced before they were announced hand on what they have."""
        if not self.rows or not old.size:
            return
        highest = max(int(old.max()), max(int(part.slot.max(initial=0)) for part in self.rows))
        slots = np.arange(highest + 1, dtype=np.int32)
        slots[old] = new
        self.renumber(slots)

    def renumber(self, slots: Int32s) -> None:
        """Give all queries other slots, by their present ones."""
        self.rows = [part.renumbered(slots) for part in self.rows]
        moved = slots[self.undecided & _SLOT_MASK].astype(np.int64)
        self.undecided = self.undecided & ~_SLOT_MASK | moved

    def forget(self, slots: Int32s) -> None:
        """Forget what stood in the place of some queries."""
        if self.rows:
            kept = (part.take(np.flatnonzero(~np.isin(part.slot, slots))) for part in self.rows)
            self.rows = [part for part in kept if len(part)]
            gone = np.isin(self.undecided & _SLOT_MASK, slots)
            self.undecided = self.undecided[~gone]

    def keep_new(self, flags: Flags) -> None:
        """Forget what stood in the place of queries that have been announced, or dropped."""
        for part in list(self.rows):
            self.forget(part.slot[flags[part.slot] & NEW == 0])

    def clear(self) -> None:
        """Forget everything: it has been told."""
        self.rows = []
        self.undecided = np.empty(0, np.int64)

    def pairs(self) -> tuple[Int64s, Int64s]:
        """Return keys and slots of the undecided pairs."""
        return self.undecided >> _KEY_SHIFT, self.undecided & _SLOT_MASK

    def toggle(self, inside: Int64s, keys: Int32s) -> Int64s:
        """Return findings with those of undecided pairs taken out, or added where they were not.

        Parameters
        ----------
        inside : int64
            Findings by row, one for each of some keys, which are given in ascending order.
        """
        key, slot = self.pairs()
        place = np.searchsorted(keys, key)
        here = place < keys.size
        here[here] = keys[place[here]] == key[here]
        return np.setxor1d(inside, pack_findings(place[here], slot[here]))
