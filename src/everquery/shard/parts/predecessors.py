"""The part of replaced queries: the boxes they had, until what the new ones changed is told."""

from __future__ import annotations

import numpy as np

from everquery.core.arrays import Array, Int32s, Int64s
from everquery.core.invariants import Column, Contents, check_none, check_unique, of_type, refuse
from everquery.core.parts import Part, Saved
from everquery.index.flags import NEW
from everquery.index.predecessors import Predecessors
from everquery.index.rows import NO_KEY, Rows, Shape
from everquery.shard.parts.queries import ROW_PARTS, ROWS
from everquery.shard.parts.query_checks import check_shape
from everquery.shard.shard import Shard

UNDECIDED = {
    "undecided.query": Column("int32", ("undecided",), least=0, below="queries"),
    "undecided.key": Column("int32", ("undecided",), least=0, below="keys"),
}


class PredecessorsPart(Part):
    """Old boxes by shape; queries are named by the ranks of the new ones."""

    name = "replaced"

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._contents = shard.contents
        self._was_empty = True

    def whole(self) -> Saved:
        """Return all old boxes that are still to be compared with the new ones."""
        catalog = self._contents.catalog
        kept = catalog.kept()
        saved = Saved({"shapes": []})
        keys, slots = [], []
        for kind, before in self._known():
            before.keep_new(catalog.flags)
            for rows in before.rows:
                prefix = f"rows{len(saved.values['shapes'])}."
                saved.values["shapes"].append([kind, list(rows.shape.attributes), rows.shape.keyed])
                columns = (_ranks(kept, rows.slot), *rows.arrays()[1:])
                named = zip(ROW_PARTS, columns, strict=True)
                saved.arrays.update({prefix + name: array for name, array in named})
            key, slot = before.pairs()
            keys.append(key)
            slots.append(slot)
        none = np.empty(0, np.int64)
        saved.arrays["undecided.query"] = _ranks(kept, np.concatenate([none, *slots]))
        saved.arrays["undecided.key"] = np.concatenate([none, *keys]).astype(np.int32)
        self._was_empty = not saved.values["shapes"]
        return saved

    def changes(self) -> Saved | None:
        """Return all old boxes; None if there are none, and were none."""
        if self._was_empty and not any(len(before) for _, before in self._known()):
            return None
        return self.whole()

    def adopt(self, saved: Saved, queries: Array) -> None:
        """Take over nothing: queries that begin in the past replace none."""

    def load(self, saved: Saved) -> None:
        """Check and take over old boxes."""
        catalog = self._contents.catalog
        kept = catalog.kept()
        sizes = {"queries": kept.size, "keys": len(self._contents.keys)}
        contents = Contents(saved.arrays, sizes)
        contents.check(UNDECIDED)
        found = [
            self._read(number, shape, contents)
            for number, shape in enumerate(of_type(saved.values, "shapes", list))
        ]
        contents.check_all_seen()
        ranks = [rows.slot for _, rows in found]
        check_unique("what was replaced", np.concatenate([np.empty(0, np.int32), *ranks]))
        self._was_empty = not found
        rank, key = saved.arrays["undecided.query"], saved.arrays["undecided.key"].astype(np.int64)
        for kind, before in self._known():
            before.clear()
            for rows in (rows for name, rows in found if name == kind):
                here = np.isin(rank, rows.slot)
                slots = kept[rows.slot].astype(np.int32)
                before.add(rows, slots, key[here], kept[rank[here]])

    def _read(self, number: int, shape: object, contents: Contents) -> tuple[str, Rows]:
        """Return the kind and the old boxes of a shape."""
        kind, attributes, keyed = check_shape(shape, self._shard.stream)
        if kind not in dict(self._known()):
            refuse(f"queries of kind {kind!r} leave nothing to those that replace them")
        prefix = f"rows{number}."
        here = {"rows": contents[f"{prefix}slot"].size} if contents.has(f"{prefix}slot") else {}
        contents.check(ROWS, prefix, restricted=len(attributes), **here)
        slot, key, low, high = (contents[prefix + part] for part in ROW_PARTS)
        if not slot.size:
            refuse(f"array {prefix + 'slot'!r} is empty")
        slots = self._contents.catalog.kept()[slot]
        wrong = self._contents.catalog.kind[slots] != self._contents.number_of(kind)
        check_none(wrong, f"{prefix}slot", slot, f"no {kind} query")
        told = self._contents.catalog.flags[slots] & NEW == 0
        check_none(told, f"{prefix}slot", slot, "a query that is not new")
        check_none((key != NO_KEY) != keyed, f"{prefix}key", key, "a key, or none, where not")
        check_none(high <= low, f"{prefix}high", high, "not above the lower end")
        return kind, Rows(Shape(attributes, keyed), slot, key, low, high)

    def may_be_missing(self) -> bool:
        """Tell that there need not be any."""
        return True

    def _known(self) -> list[tuple[str, Predecessors]]:
        return [
            (kind, index.predecessors)
            for kind, index in self._contents.indexes.items()
            if index.predecessors is not None
        ]


def _ranks(kept: Int64s, slots: Array) -> Int32s:
    return np.searchsorted(kept, slots).astype(np.int32)
