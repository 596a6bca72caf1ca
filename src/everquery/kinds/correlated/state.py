"""Groups and lanes of correlated queries, as a part of a shard's state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from everquery.core.arrays import Array, Int32s, Int64s
from everquery.core.invariants import Column, Contents, of_type, refuse
from everquery.core.parts import Saved
from everquery.index.rows import NO_KEY
from everquery.kinds.correlated.cuts import MEAN
from everquery.kinds.correlated.lane_table import NOWHERE
from everquery.kinds.correlated.saved_lanes import check_lanes, load_lanes, saved_lanes
from everquery.kinds.correlated.spec import MOST_BUCKETS
from everquery.kinds.index_part import IndexPart

if TYPE_CHECKING:
    from everquery.kinds.correlated.index import CorrelatedIndex

GROUPS = {
    "group.x": Column("int32", ("groups",), least=0),
    "group.y": Column("int32", ("groups",), least=-1),
    "group.to": Column("uint8", ("groups",), least=1, below=MEAN + 1),
    "group.around": Column("uint8", ("groups",), below=2),
    "group.sums": Column("uint8", ("groups",), below=2),
    "group.timed": Column("uint8", ("groups",), below=2),
    "group.of_each": Column("uint8", ("groups",), below=2),
    "group.factor": Column("float64", ("groups",)),
    "group.edges": Column("int32", ("groups",), least=0, below=MOST_BUCKETS + 1),
    "group.window": Column("time", ("groups",), least=0),
    "group.size": Column("int64", ("groups",), least=1),
    "query": Column("int32", ("placed",), least=0, below="queries"),
}
ABOUT = ("x", "y", "to", "around", "sums", "timed", "of_each", "factor", "edges", "window")


class CorrelatedPart(IndexPart["CorrelatedIndex"]):
    """All groups with queries, and their lanes. Queries are named by rank among the live ones."""

    name = "correlated"

    def whole(self) -> Saved:
        """Return all groups and lanes."""
        table = self._index.table
        groups = table.groups
        live = np.flatnonzero(groups.live[: table.n_groups] > 0)
        arrays: dict[str, Array] = {f"group.{name}": getattr(groups, name)[live] for name in ABOUT}
        arrays["group.size"] = groups.live[live]
        slots = table.slot[: table.n_members]
        arrays["query"] = np.searchsorted(self._queries(), slots[slots >= 0]).astype(np.int32)
        lanes = np.flatnonzero(groups.live[table.lanes.group[: table.n_lanes]] > 0)
        arrays |= saved_lanes(table, lanes)
        return Saved({"dtype": table.dtype.name}, arrays)

    def changes(self) -> Saved | None:
        """Return the lanes that changed, or all where there are other groups or most changed."""
        table = self._index.table
        touched = np.flatnonzero(table.touched[: table.n_lanes])
        if not table.renewed and not touched.size:
            return None
        if table.renewed or 2 * touched.size > table.n_lanes:
            saved = self.whole()
        else:
            values = {"dtype": table.dtype.name}
            saved = Saved(values, saved_lanes(table, touched), whole=False)
        self.mark_committed()
        return saved

    def mark_committed(self) -> None:
        """Note from now on which lanes change."""
        self._index.table.touched[:] = False
        self._index.table.renewed = False

    def load(self, saved: Saved) -> None:
        """Check and take over groups and lanes."""
        slots = self._queries()
        dtype = of_type(saved.values, "dtype", str)
        if dtype not in ("int64", "float64"):
            refuse("marks of correlated queries are neither int64 nor float64")
        sizes = {"queries": slots.size, "keys": self._keys()}
        contents = Contents(saved.arrays, sizes, time_dtype=dtype)
        if saved.whole:
            contents.check(GROUPS)
            self._load_groups(saved, slots, dtype)
        table = self._index.table
        if table.dtype.name != dtype:
            refuse("marks of correlated queries are of another type than before")
        check_lanes(contents, table)
        contents.check_all_seen()
        load_lanes(table, saved.arrays)
        self.mark_committed()

    def _load_groups(self, saved: Saved, slots: Int32s, dtype: str) -> None:
        arrays = saved.arrays
        size, query = arrays["group.size"], arrays["query"]
        if int(size.sum()) != query.size or np.unique(query).size != query.size:
            refuse("correlated queries are in several groups, or in none")
        index = self._index
        index.table = type(index.table)(np.dtype(dtype))
        index.by_slot.group[:] = NOWHERE
        self._add_groups(arrays, slots)
        index.check_groups()

    def _add_groups(self, arrays: Mapping[str, Array], slots: Array) -> Int64s:
        """Add groups that were saved, of queries by rank among some slots; return their numbers."""
        size, query = arrays["group.size"], arrays["query"]
        columns = {name: arrays[f"group.{name}"] for name in ABOUT}
        numbers = self._index.table.add_groups(columns, slots[query], size)
        member = np.arange(query.size) - np.repeat(np.cumsum(size) - size, size)
        self._index.assign(slots[query], np.repeat(numbers, size), member)
        return numbers

    def adopt(self, saved: Saved, queries: Array) -> None:
        """Take over groups and lanes; no query joins a group later, so they stay as they are."""
        arrays = dict(saved.arrays)
        if not arrays["group.x"].size:
            return
        self._index.set_time_type(np.dtype(saved.values["dtype"]))
        table = self._index.table
        keys = arrays["lane.key"][arrays["group.of_each"][arrays["lane.group"]] != 0]
        table.add_lacking_lanes(np.unique(keys))
        numbers = self._add_groups(arrays, queries)
        arrays["lane.group"] = numbers[arrays["lane.group"]].astype(np.int32)
        load_lanes(table, arrays)

    def move_keys(self, saved: Saved, numbers: Array) -> None:
        """Give keys other numbers in what `whole` gave."""
        key = saved.arrays["lane.key"]
        saved.arrays["lane.key"] = np.where(key == NO_KEY, key, numbers[key]).astype(key.dtype)
