"""What windows hold, and what their queries were told, as a part of a shard's state.

Changes are the lanes that events have reached, whole: thinning moves entries all over a lane.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from everquery.core.arrays import Array, Int32s, Int64s
from everquery.core.invariants import MOST, Column, Contents, check_none, check_unique, refuse
from everquery.core.parts import Saved
from everquery.kinds.index_part import IndexPart
from everquery.kinds.window.families import (
    COUNT,
    COUNT_BUCKETS,
    DISTINCT,
    EVENT_SAMPLES,
    MEASURES,
    RESTS,
    SKETCHES,
    layout_of,
)
from everquery.kinds.window.groups import EACH, StoreName
from everquery.kinds.window.samples import RANK
from everquery.kinds.window.sketch_parts import bad_part, counters_of
from everquery.kinds.window.spec import LONGEST_WINDOW, STATISTICS
from everquery.kinds.window.store import Store
from everquery.state.pairs import KEY_SHIFT, SLOT_MASK

if TYPE_CHECKING:
    from everquery.kinds.window.index import WindowIndex

__all__ = ["WindowPart", "check_asked"]

_LABEL = re.compile(r"store ([0-8]) ([01]) ([01]) (.+)", re.ASCII)
_LAST_KEY = "last_key"
_NOW = "now"
_PAST_QUERY, _PAST_NUMBER = "past.query", "past.number"  # which queries began in the past together

PAST = {
    _PAST_QUERY: Column("int64", ("pasts",), least=0, below="queries", rising=True),
    _PAST_NUMBER: Column("int64", ("pasts",), least=1, below=MOST),
}

ASKED = {
    "statistic": Column("int64", ("queries",), least=1, below=len(STATISTICS) + 1),
    "attribute": Column("int64", ("queries",), least=0, below="places"),
    "per": Column("int64", ("queries",), least=0, below="places"),
    "last": Column("int64", ("queries",), least=0, below=LONGEST_WINDOW + 1),
    "epsilon": Column("float64", ("queries",), least=0, below=1),
    "when_lo": Column("int64", ("queries",)),
    "when_hi": Column("int64", ("queries",)),
}


def entries_label(layout: int) -> str:
    """Return the name of what entries hold: totals up to each, or totals of each bucket."""
    return "entry.bucket" if layout >= COUNT_BUCKETS else "entry.total"


def schema_of(name: StoreName, marks: str) -> dict[str, Column]:
    """Return what the arrays of a store must be."""
    layout = layout_of(name.family, exact=name.exact)
    measures, rests = MEASURES[layout], RESTS[layout]
    return {
        "group.query": Column("int32", ("groups",), least=0, below="queries", rising=True),
        "group.longest": Column(marks, ("groups",), least=0),
        "lane.group": Column("int64", ("lanes",), least=0, below="groups"),
        "lane.key": Column("int64", ("lanes",), least=-1, below="keys"),
        "lane.limit": Column("int64", ("lanes",), least=0, below=MOST),
        "lane.used": Column("int64", ("lanes",), least=0, below=MOST),
        "lane.seen": Column(marks, ("lanes",)),
        "lane.begun": Column(marks, ("lanes",)),
        "lane.shift": Column("float64", ("lanes",)),
        "lane.base": Column("float64", ("lanes", measures)),
        "lane.base_rest": Column("float64", ("lanes", rests)),
        "entry.mark": Column(marks, ("entries",)),
        entries_label(layout): Column(
            "float64", ("entries", measures), with_nan=layout == SKETCHES
        ),
        "entry.rest": Column("float64", ("entries", rests)),
        "told.lane": Column("int64", ("told",), least=0, below="lanes"),
        "told.query": Column("int32", ("told",), least=0, below="queries"),
        "told.value": Column("float64", ("told",), with_nan=True),
        "told.at": Column(marks, ("told",)),
    }


def check_asked(
    numbers: Mapping[str, Array], attributes: Sequence[int], *, by_key: bool, can_be: bool
) -> None:
    """Raise if what queries ask for can't be."""
    n = numbers["statistic"].size
    contents = Contents(numbers, {"queries": n, "places": len(attributes) + 1})
    contents.check(ASKED)
    statistic = numbers["statistic"]
    check_none(
        (statistic > COUNT) & (numbers["attribute"] == 0), "attribute", numbers["attribute"],
        "none, of a statistic that needs one",
    )  # fmt: skip
    check_none(
        (statistic > DISTINCT) != (numbers["per"] > 0), "per", numbers["per"],
        "none where it is needed, or one where not",
    )  # fmt: skip
    for name in ("when_lo", "when_hi"):
        check_none(np.isnan(numbers[name].view(np.float64)), name, numbers[name], "no number")
    if by_key and not can_be:
        refuse("a window is by key, and has one key, or the stream has none")


class WindowPart(IndexPart["WindowIndex"]):
    """All lanes. Queries are named by their rank among the kind's live ones, keys by number."""

    name = "window"
    # Of 1, approximate counts and sums were totals of all events; of 2, norms were always exact.
    version = 3

    def whole(self) -> Saved:
        """Return all lanes."""
        return self._saved(whole=True)

    def changes(self) -> Saved | None:
        """Return the lanes that changed, or all where groups have come or gone."""
        stores = self._index.stores.values()
        if any(store.regrouped for store in stores):
            return self._saved(whole=True)
        if not any(store.lanes.dirty[: store.used].any() for store in stores):
            return None
        return self._saved(whole=False)

    def _saved(self, *, whole: bool) -> Saved:
        index, slots = self._index, self._queries()
        saved = Saved(whole=whole)
        if index.now is not None:
            saved.values[_NOW] = index.now
        saved.arrays[_LAST_KEY] = np.array([index.last_key], np.int64)
        past = index.past_of(slots) if whole else np.zeros(0, np.int64)
        if past.any():
            saved.arrays[_PAST_QUERY] = np.flatnonzero(past)
            saved.arrays[_PAST_NUMBER] = past[past > 0]
        store_of, group_of = index.stores_of(slots)
        for number, name in enumerate(index.store_names()):
            store = index.stores[name]
            if len(store):
                label = f"store {name.family} {int(name.exact)} {int(name.timed)}"
                here = np.flatnonzero(store_of == number)
                arrays = save_store(store, here, group_of[here], slots, whole=whole)
                saved.arrays.update({f"{label} {part}": each for part, each in arrays.items()})
        self.mark_committed()
        return saved

    def mark_committed(self) -> None:
        """Note from now on which lanes change."""
        for store in self._index.stores.values():
            store.lanes.dirty[:] = 0
            store.regrouped = False

    def load(self, saved: Saved) -> None:
        """Check and take over lanes; the queries are here already."""
        index, slots = self._index, self._queries()
        self._move_to_past(saved, slots)
        stores = _by_store(saved.arrays)
        known = {name for name, store in index.stores.items() if len(store)}
        if stores.keys() != known:
            refuse("it does not hold what its window queries need")
        last = saved.arrays.get(_LAST_KEY)
        if last is None or last.dtype != np.int64 or last.shape != (1,):
            refuse("it does not say whose the last event was")
        if not -1 <= last[0] < max(self._keys(), 1):
            refuse(f"the last event is of key {last[0]}, which there is not")
        index.last_key = int(last[0])
        now = saved.values.get(_NOW)
        if isinstance(now, bool) or not isinstance(now, (int, float, type(None))):
            refuse(f"time has come as far as {now!r}, which is no time")
        index.now = now
        store_of, group_of = index.stores_of(slots)
        for number, name in enumerate(index.store_names()):
            if name in stores:
                check_store(name, stores[name], slots.size, self._keys())
                here = store_of[stores[name]["group.query"]] == number
                check_none(
                    ~here, "group.query", stores[name]["group.query"], "a query of other events"
                )
                load_store(index.stores[name], stores[name], group_of, slots, whole=saved.whole)

    def _move_to_past(self, saved: Saved, slots: Int32s) -> None:
        """Let queries that began in the past have groups of their own, as they had."""
        if not {_PAST_QUERY, _PAST_NUMBER} & saved.arrays.keys():
            return
        Contents(saved.arrays, {"queries": slots.size}).check(PAST)
        of, number = slots[saved.arrays[_PAST_QUERY]], saved.arrays[_PAST_NUMBER]
        before = self._index.past_of(of)
        check_none((before > 0) & (before != number), _PAST_NUMBER, number, "not as it was")
        for past in np.unique(number[before == 0]).tolist():
            self._index.move_to_past(of[(number == past) & (before == 0)], past)

    def adopt(self, saved: Saved, queries: Array) -> None:
        """Take over lanes, which become those of queries that began in the past together."""
        index = self._index
        index.move_to_past(queries, int(index.past_of(self._queries()).max(initial=0)) + 1)
        _, group_of = index.stores_of(queries)
        for name, arrays in _by_store(saved.arrays).items():
            load_store(index.stores[name], arrays, group_of, queries, whole=False)
        if saved.arrays[_LAST_KEY][0] >= 0:
            index.last_key = int(saved.arrays[_LAST_KEY][0])
        index.now = saved.values.get(_NOW, index.now)

    def move_keys(self, saved: Saved, numbers: Array) -> None:
        """Give keys other numbers in what `whole` gave."""
        for label, array in saved.arrays.items():
            if label.endswith(" lane.key") or label == _LAST_KEY:
                saved.arrays[label] = np.where(array < 0, array, numbers[array]).astype(np.int64)


def save_store(
    store: Store, ranks: Int64s, groups: Int32s, slots: Int32s, *, whole: bool
) -> dict[str, Array]:
    """Return the arrays of a store.

    Parameters
    ----------
    ranks, groups : its queries, and the group of each
    slots : of all queries, by rank
    """
    used, lanes, pools = store.used, store.lanes, store.pools
    _, first = np.unique(groups, return_index=True)
    first = np.sort(first)
    of_groups = groups[first]
    place = np.zeros(len(store.names), np.int64)
    place[of_groups] = np.arange(of_groups.size)
    lane = np.arange(used) if whole else np.flatnonzero(lanes.dirty[:used])
    counts = lanes.used[lane]
    begins = np.cumsum(counts) - counts
    entry = np.repeat(lanes.start[lane] - begins, counts) + np.arange(counts.sum())
    group = lanes.pair[lane] & SLOT_MASK
    told_lane, told_slot, told_value, told_at = store.all_told(lane)
    wider = ((0, 0), (0, MEASURES[store.layout] - pools.total.shape[1]))
    return {
        "group.query": ranks[first].astype(np.int32),
        "group.longest": store.groups.longest[of_groups],
        "lane.group": place[group],
        "lane.key": lanes.key[lane],
        "lane.limit": lanes.limit[lane],
        "lane.used": counts,
        "lane.seen": lanes.seen[lane],
        "lane.begun": lanes.begun[lane],
        "lane.shift": lanes.shift[lane],
        "lane.base": np.pad(pools.base[lane], wider),
        "lane.base_rest": pools.base_rest[lane],
        "entry.mark": pools.mark[entry],
        entries_label(store.layout): np.pad(pools.total[entry], wider),
        "entry.rest": pools.rest[entry],
        "told.lane": told_lane,
        "told.query": np.searchsorted(slots, told_slot).astype(np.int32),
        "told.value": told_value,
        "told.at": told_at,
    }


def check_store(name: StoreName, arrays: Mapping[str, Array], queries: int, keys: int) -> None:
    """Raise if the arrays of a store can't be."""
    marks = "int64"
    if name.timed and "group.longest" in arrays:
        marks = "float64" if arrays["group.longest"].dtype == np.float64 else "int64"
    contents = Contents(arrays, {"queries": queries, "keys": max(keys, 1)})
    contents.check(schema_of(name, marks))
    contents.check_all_seen()
    used = arrays["lane.used"]
    if int(used.sum()) != arrays["entry.mark"].size:
        refuse("lanes have other numbers of entries than there are")
    check_none((used > 0) & (arrays["lane.limit"] == 0), "lane.used", used, "of no event")
    group, key = arrays["lane.group"], arrays["lane.key"]
    check_unique("array 'lane.group', with 'lane.key',", (key + 1) << KEY_SHIFT | group)
    mark = arrays["entry.mark"]
    falls = mark[1:] < mark[:-1]
    ends = np.cumsum(used) - 1
    inner = ends[(ends >= 0) & (ends < mark.size - 1)]
    falls[inner] = False
    check_none(falls, "entry.mark", mark[1:], "before the one before")
    bucket = arrays.get("entry.bucket")
    if bucket is not None:
        check_none(bucket[:, 0] < 1, "entry.bucket", bucket[:, 0], "of no event")
        check_none(bucket < 0, "entry.bucket", bucket, "less than nothing")
    if layout_of(name.family, exact=name.exact) == EVENT_SAMPLES:
        rank = arrays["entry.total"][:, RANK]
        check_none(rank <= 0, "entry.total", rank, "the rank of no event")
        sums = arrays["entry.total"][:, :RANK]
        check_none(np.isinf(sums), "entry.total", sums, "no sum")
    filled = used > 0
    check_none(mark[ends[filled]] > arrays["lane.seen"][filled], "lane.seen",
               arrays["lane.seen"][filled], "before an event of its lane")  # fmt: skip


def load_store(
    store: Store, arrays: Mapping[str, Array], group_of: Int32s, slots: Int32s, *, whole: bool
) -> None:
    """Take over the arrays of a store, which have been checked."""
    groups = group_of[arrays["group.query"]].astype(np.int64)
    if whole:
        store.forget_all()
    store.set_time_type(arrays["group.longest"].dtype)
    store.groups.longest[groups] = arrays["group.longest"]
    group, key = groups[arrays["lane.group"]], arrays["lane.key"]
    scope = np.array([_scope_of(store, each) for each in group.tolist()], np.int64)
    bad = np.where(scope == EACH, key < 0, key != scope)
    check_none(bad, "lane.key", key, "not that of its queries")
    if store.layout == SKETCHES:
        check_sketches(arrays, store.groups.error[group])
    lane = store.lanes_for((key + 1) << KEY_SHIFT | group, 0)
    store.load_lanes(lane, arrays, arrays[entries_label(store.layout)])
    said = slots[arrays["told.query"]], arrays["told.value"], arrays["told.at"]
    store.load_told(lane[arrays["told.lane"]], *said)


def check_sketches(arrays: Mapping[str, Array], errors: Array) -> None:
    """Raise if buckets of lanes, which have these errors, are not what walking them needs."""
    counters = np.array([counters_of(each) for each in errors.tolist()], np.int64)
    total = np.ascontiguousarray(arrays["entry.total"])
    bad = bad_part(counters, arrays["lane.used"], arrays["entry.mark"], total)
    check_none(np.isinf(total), "entry.total", total, "no sum")
    if bad >= 0:
        refuse(f"array 'entry.total' has {total[bad].tolist()} at {bad}, which is no bucket's")


def _scope_of(store: Store, group: int) -> int:
    name = store.names[group]
    assert name is not None
    return name.key


def _by_store(saved: Mapping[str, Array]) -> dict[StoreName, dict[str, Array]]:
    """Return the arrays of each store from those of all."""
    stores: dict[StoreName, dict[str, Array]] = {}
    for label, array in saved.items():
        if label in (_LAST_KEY, *PAST):
            continue
        found = _LABEL.fullmatch(label)
        if found is None:
            refuse(f"it has an array {label[:80]!r}, which has no meaning")
        name = StoreName(int(found[1]), found[2] == "1", found[3] == "1")
        stores.setdefault(name, {})[found[4]] = array
    return stores
