"""The part of keys: what is known of each, how far time is, and the events that are held back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from everquery.core.arrays import Array, Bytes, Int32s, Int64s
from everquery.core.invariants import (
    MOST,
    TIME,
    Column,
    Contents,
    check_count,
    check_none,
    of_type,
    refuse,
)
from everquery.core.parts import Part, Saved
from everquery.core.saved_names import as_texts, check_names
from everquery.index.weighed import HEAVIEST
from everquery.shard.parts.times import TIMES, check_time, dtype_of, read_time_type
from everquery.shard.shard import Shard

COLUMNS = {
    "seen": Column("uint8", ("saved",), below=2),
    "next_seq": Column("int64", ("saved",), least=0, below=MOST),
    "last_time": Column(TIME, ("saved",)),
    "last": Column("float64", ("attributes", "saved"), with_nan=True),
}
SIGHTS = {
    "sights.held": Column("int64", ("saved",), least=0, below=MOST),
    "sights.seq": Column("int64", ("sights",), least=0, below=MOST),
    "sights.time": Column(TIME, ("sights",)),
    "sights.values": Column("float64", ("attributes", "sights"), with_nan=True),
}
HELD = {
    "held.key": Column("int32", ("held",), least=0, below="keys"),
    "held.time": Column(TIME, ("held",)),
    "held.seq": Column("int64", ("held",)),
    "held.values": Column("float64", ("attributes", "held"), with_nan=True),
    "held.weight": Column("int64", ("held",), least=-HEAVIEST, below=HEAVIEST + 1),
    "held.arrived": Column("int64", ("held",), least=0, below="arrived"),
}
AHEAD = {
    name.replace("held.", "ahead."): replace(column, shape=(*column.shape[:-1], "ahead"))
    for name, column in HELD.items()
}
CHANGED = {"number": Column("int32", ("saved",), least=0, below="keys", rising=True)}
_INTEGER_BYTES = 8


class KeysPart(Part):
    """Keys by number, and what admission knows.

    Changes have the names of new keys, and all that is known of those with events.
    """

    name = "keys"

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._keys, self._admission = shard.contents.keys, shard.contents.admission
        self._marked = False
        # Of each key, as it was committed.
        self._next_seq: Int64s = np.empty(0, np.int64)
        self._seen: Bytes = np.empty(0, np.uint8)

    def whole(self) -> Saved:
        """Return all state."""
        return self._save(np.arange(len(self._keys), dtype=np.int32), 0, whole=True)

    def changes(self) -> Saved:
        """Return what has changed since the last commit, or all where that is most of it."""
        changed = self._changed()
        if 2 * changed.size >= len(self._keys):
            return self.whole()
        return self._save(changed, self._next_seq.size, whole=False)

    def _save(self, numbers: Int32s, first: int, *, whole: bool) -> Saved:
        shard = self._shard
        saved = Saved(whole=whole)
        saved.values.update(
            events=shard.passage.events,
            notices=shard.teller.told,
            steps=shard.passage.steps,
            first=first,
        )
        if not whole:
            saved.arrays["number"] = numbers
        self._keys.save(numbers, first, saved)
        self._admission.save(saved)
        if self._marked:
            self.mark_committed()
        return saved

    def _changed(self) -> Int32s:
        keys = self._keys
        known = self._next_seq.size
        changed = np.ones(len(keys), np.bool_)
        changed[:known] = keys.next_seq[:known] != self._next_seq
        changed[:known] |= keys.seen[:known] != self._seen
        return np.flatnonzero(changed).astype(np.int32)

    def mark_committed(self) -> None:
        """Note how far each key is."""
        keys = self._keys
        self._marked = True
        self._next_seq = keys.next_seq[: len(keys)].copy()
        self._seen = keys.seen[: len(keys)].copy()

    def adopt(self, saved: Saved, queries: Array) -> None:
        """Take over nothing: both shards know the same of keys."""

    def load(self, saved: Saved) -> None:
        """Check and take over what was saved."""
        shard = self._shard
        numbers, first = self._check(saved)
        self._keys.load(numbers, first, saved)
        self._admission.load(saved)
        shard.passage.events, shard.teller.told = saved.values["events"], saved.values["notices"]
        shard.passage.steps = saved.values["steps"]
        for index in shard.contents.indexes.values():
            index.forget_positions()

    def _check(self, saved: Saved) -> tuple[Int32s, int]:
        """Return which keys were saved, and the number of the first that is named."""
        shard, stream, values = self._shard, self._shard.stream, saved.values
        keyed = stream.key is not None
        values.setdefault("steps", 0)  # of an everquery that did not count them
        for name in ("arrived", "events", "notices", "steps", "first", "partial"):
            check_count(name, values.get(name))
        counts = of_type(values, "partial_by_column", dict)
        if not counts.keys() <= {*stream.attributes, stream.weight}:
            refuse("events with unknown values are counted by other columns than the stream's")
        for name, count in counts.items():
            check_count(f"events without {name[:80]!r}", count)
        kinds = ("string", "int64", None) if keyed else ("null",)
        if "key_type" not in values or values["key_type"] not in kinds:
            refuse(f"keys have type {values.get('key_type')!r}, which can't be on this stream")
        known = None if self._keys.type is None else str(self._keys.type)
        if known is not None and values["key_type"] not in (None, known):
            refuse(f"keys have type {values['key_type']}, and not {known}")
        kind = read_time_type(saved.strings.pop("time_type", None), stream)
        values.setdefault("passed", values.get("newest"))  # of an everquery that did not save it
        for name in TIMES:
            check_time(name, values, kind)
        sizes = {"attributes": len(stream.attributes), "arrived": values["arrived"]}
        contents = Contents(saved.arrays, sizes, dtype_of(kind))
        first = values["first"]
        if first != (0 if saved.whole else len(self._keys)) and keyed:
            refuse(f"new keys are numbered from {first} on, which can't be")
        named = first + _check_key_names(contents, values["key_type"])
        contents.sizes["keys"] = named if keyed else 1
        if contents.sizes["keys"] < len(self._keys):
            refuse(f"it has {named} keys, and there were {len(self._keys)} before")
        if not saved.whole:
            contents.check(CHANGED)
        contents.sizes.setdefault("saved", contents.sizes["keys"] if keyed else 1)
        contents.check(COLUMNS)
        if values["newest"] is not None:
            later = (contents["next_seq"] > 0) & (contents["last_time"] > values["newest"])
            check_none(later, "last_time", contents["last_time"], "after the newest time seen")
        contents.check(SIGHTS)
        _check_sights(contents)
        contents.check(HELD)
        if contents.has("ahead.key"):
            contents.check(AHEAD)
            if not contents.sizes["ahead"]:
                refuse("it names events that wait for their time, and has none")
        if kind is None and (contents.sizes["held"] or contents.has("ahead.key")):
            refuse("events are held back, and there is no type of times")
        contents.check_all_seen()
        if saved.strings:
            refuse(f"it has a string {min(saved.strings)!r}, which has no meaning")
        if kind is not None:
            if self._admission.time_type not in (None, kind):
                refuse(f"times have type {kind}, and not {self._admission.time_type}")
            shard.set_time_type(kind)
        every = np.arange(contents.sizes["saved"], dtype=np.int32)
        return (every if saved.whole else saved.arrays["number"]), first


def _check_sights(contents: Contents) -> None:
    """Raise if earlier events can't be those of their keys: newest first, before the last one."""
    held, seq = contents["sights.held"], contents["sights.seq"]
    if held.sum(dtype=np.float64) != seq.size:
        refuse(f"keys have {held.sum()} earlier events, and there are {seq.size}")
    check_none((held > 0) & (contents["seen"] == 0), "sights.held", held, "of a key out of sight")
    ends = np.cumsum(held)
    newer = np.concatenate([np.zeros(1, np.int64), seq[:-1]])[: seq.size]
    filled = held > 0
    newer[(ends - held)[filled]] = contents["next_seq"][filled] - 1
    check_none(seq >= newer, "sights.seq", seq, "not before the next newer one")


def _check_key_names(contents: Contents, kind: str | None) -> int:
    """Raise if keys can't be of the type that they are said to have; return how many are named."""
    if kind == "null":
        return 0
    names = check_names(contents, "names", "names")
    if kind is None:
        if len(names):
            refuse("there are keys, and none can be")
    elif kind == "int64":
        if (np.diff(contents["names.starts"]) != _INTEGER_BYTES).any():
            refuse("keys are integers, and not all have 8 bytes")
    else:
        as_texts(names, "keys")
    return len(names)
