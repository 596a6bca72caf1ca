"""A shard's keys and time at a place of its past, and queries that were there from then on.

A query that begins in the past is registered in a shard of its own, which has the keys, with
their numbers, as they were then. The kept events are replayed there. What the query knows at the
end is handed over to the shard that runs on: see `hand_over`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc

from everquery.core.arrays import Array, Int32s
from everquery.core.crew import Crew
from everquery.core.framing import Content
from everquery.core.parts import Part, Saved
from everquery.errors import InvalidQueryError
from everquery.queries.changes import Register, RegisterBlocks
from everquery.queries.of_several import of_several
from everquery.shard.parts.keys import KeysPart
from everquery.shard.parts.known import live_of_kind, own_parts
from everquery.shard.shard import Shard

_BY_KEY = ("seen", "next_seq", "last_time", "last")
_SIGHTS = ("sights.seq", "sights.time", "sights.values")
_FIGURES = ("newest", "oldest", "began", "passed")


@dataclass(frozen=True, slots=True)
class Mark:
    """What a shard knew of keys and time at a place, without what queries knew.

    Attributes
    ----------
    steps : int
        How many steps it had taken.
    values : dict
        How far time was.
    arrays : dict
        What was known of keys, by number, and of their earlier events; see `KeyTable`.
    time_type : Arrow type or None
    """

    steps: int
    values: dict[str, int | float | None]
    arrays: dict[str, Array]
    time_type: pa.DataType | None

    @property
    def keys(self) -> int:
        """How many keys there were."""
        return int(self.arrays["seen"].size)

    def nbytes(self) -> int:
        """Return the bytes of all arrays."""
        return sum(array.nbytes for array in self.arrays.values())

    def renumbered(self, numbers: Int32s) -> Mark:
        """Return the mark where keys have other numbers; keys that get none had no events."""
        numbers = numbers[: self.keys]
        kept = np.flatnonzero(numbers >= 0)
        size = int(numbers.max(initial=-1)) + 1
        arrays: dict[str, Array] = {}
        for name in (*_BY_KEY, "sights.held"):
            column = self.arrays[name]
            moved = np.zeros((*column.shape[:-1], size), column.dtype)
            moved[..., numbers[kept]] = column[..., kept]
            arrays[name] = moved
        # The earlier events of keys stand in the order of the keys.
        held = self.arrays["sights.held"]
        order = np.argsort(np.repeat(numbers, held), kind="stable")
        for name in _SIGHTS:
            arrays[name] = self.arrays[name][..., order]
        return replace(self, arrays=arrays)


def mark_parts(mark: Mark) -> tuple[dict[str, Any], dict[str, Content]]:
    """Return a mark as plain values, and arrays and byte strings, for a frame."""
    schema = pa.schema([("time", mark.time_type or pa.null())])
    contents: dict[str, Content] = {**mark.arrays, "time_type": schema.serialize().to_pybytes()}
    return {"steps": mark.steps, "values": mark.values}, contents


def mark_from(
    values: Mapping[str, Any], arrays: dict[str, Array], strings: Mapping[str, bytes]
) -> Mark:
    """Return the mark that `mark_parts` gave the parts of; raise ValueError if it can't be one."""
    kind = pa.ipc.read_schema(pa.py_buffer(strings["time_type"])).field("time").type
    lengths = {arrays[name].shape[-1] for name in (*_BY_KEY, "sights.held")}
    sights = {arrays[name].shape[-1] for name in _SIGHTS}
    if len(lengths) != 1 or sights != {int(arrays["sights.held"].sum())}:
        raise ValueError("what it knows of keys does not fit together")
    known = None if pa.types.is_null(kind) else kind
    return Mark(int(values["steps"]), dict(values["values"]), arrays, known)


def mark_of(shard: Shard) -> Mark:
    """Return what a shard knows of keys and time now."""
    keys, admission = shard.contents.keys, shard.contents.admission
    saved = Saved()
    every = np.arange(len(keys), dtype=np.int32)
    for name in _BY_KEY:
        saved.arrays[name] = getattr(keys, name)[..., : every.size].copy()
    keys.sights.save(every, keys.last_time.dtype, saved)
    values = {name: getattr(admission, name) for name in _FIGURES}
    return Mark(shard.passage.steps, values, saved.arrays, admission.time_type)


def shard_at(shard: Shard, mark: Mark, crew: Crew) -> Shard:
    """Return a shard without queries that has the keys of another, as they were at a mark."""
    side = Shard(
        shard.stream,
        kinds=shard.contents.kinds,
        key_type=shard.key_type,
        labelled=shard.teller.labelled,
        all_columns=shard.teller.all_columns,
        crew=crew,
    )
    side.passage.tells_all_ends = shard.passage.tells_all_ends
    take_on(side, mark, KeysPart(shard).whole())
    return side


def take_on(shard: Shard, mark: Mark, saved: Saved | None = None) -> None:
    """Let a new shard know of keys and time what was known at a mark.

    Parameters
    ----------
    saved : Saved, optional
        All keys by number, as the part of keys saves them; those of the shard itself, if not given.
    """
    saved = KeysPart(shard).whole() if saved is None else saved
    known = saved.arrays["seen"].size
    dtype = np.float64 if mark.time_type == pa.float64() else np.int64
    for name in (*_BY_KEY, "sights.held"):
        column = mark.arrays[name]
        kind = dtype if name == "last_time" else column.dtype
        wide = np.zeros((*column.shape[:-1], known), kind)
        wide[..., : mark.keys] = column
        saved.arrays[name] = wide
    for name in _SIGHTS:
        kind = dtype if name == "sights.time" else mark.arrays[name].dtype
        saved.arrays[name] = mark.arrays[name].astype(kind)
    for name in list(saved.arrays):
        if name.startswith("ahead."):
            del saved.arrays[name]
        elif name.startswith("held."):
            kind = dtype if name == "held.time" else saved.arrays[name].dtype
            saved.arrays[name] = saved.arrays[name][..., :0].astype(kind)
    schema = pa.schema([("time", mark.time_type or pa.null())])
    saved.strings["time_type"] = schema.serialize().to_pybytes()
    saved.values.update(mark.values, events=0, notices=0, steps=mark.steps, partial=0)
    saved.values["partial_by_column"] = {}
    part = KeysPart(shard)
    if shard.contents.stream.key is not None and len(shard.contents.keys):
        # Names that are here already have the same numbers.
        shard.contents.keys.forget_all()
    part.load(saved)


def kinds_of(change: Register | RegisterBlocks) -> set[str]:
    """Return the kinds of the queries that begin with a change."""
    if isinstance(change, Register):
        return {query.kind for query in change.queries}
    return {block.kind for block in change.blocks}


def check_one_stream(change: Register | RegisterBlocks) -> None:
    """Raise if what queries would have told in the past can't be known from one stream."""
    for _, query_id in of_several(change)[:1]:
        raise InvalidQueryError(
            f"query {query_id!r} tells of two streams, and it is not kept in which order their"
            " events came; it begins now (leave out begin), and invoke reads its past"
        )


def check_movable(change: Register | RegisterBlocks, shard: Shard) -> None:
    """Raise if a kind of the queries can't be handed over from one shard to another."""
    for kind in sorted(kinds_of(change)):
        index = shard.contents.indexes[kind]
        for part in index.parts(lambda: np.empty(0, np.int32), lambda: 0):
            if type(part).adopt is Part.adopt:
                raise InvalidQueryError(
                    f"queries of kind {kind!r} can't begin in the past: what they remember can't"
                    " be moved; register them without begin"
                )


def hand_over(side: Shard, shard: Shard, change: Register | RegisterBlocks) -> None:
    """Let queries go on in a shard that has the same keys as the one in which they were so far.

    Both have taken the same events. Queries that ended by themselves are registered and end at
    once, so that whoever keeps a log of queries is told.
    """
    if side.queries.has_news:  # no step since they began: they begin now
        shard.apply(replace(change, begin=None))
        return
    shard.queries.adopt(replace(change, begin=None))
    with shard.queries.changing():
        side.queries.settle()
        ids = side.contents.catalog.names.strings()
        ended = np.array([name in side.queries.ended for name in ids.to_pylist()], np.bool_)
        slots = shard.contents.catalog.live_slots(ids)
        for part, other in zip(own_parts(shard), own_parts(side), strict=True):
            part.adopt(other.whole(), slots[side.contents.catalog.kept()])
        for kind, index in shard.contents.indexes.items():
            other_index = side.contents.indexes[kind]
            queries = live_of_kind(side, kind)
            if not queries.size:
                continue
            keys = partial(len, shard.contents.keys)
            mine = index.parts(partial(live_of_kind, shard, kind), keys)
            theirs = other_index.parts(partial(live_of_kind, side, kind), keys)
            for part, other in zip(mine, theirs, strict=True):
                part.adopt(other.whole(), slots[queries])
        shard.queries.end(slots[ended])
