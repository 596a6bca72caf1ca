"""What joins tell after a call on one of their streams: new pairs, or how answers changed.

A pair is told at the event that completes it, if both its events are in the window as of then: so
many rows, and as far as time had come with that event. So it does not matter how events are cut
into batches. How answers changed is the difference of two of them, as for one stream.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from everquery.core.arrays import Array, Bools, Int64s
from everquery.errors import EverqueryError
from everquery.index.flags import LIVE, LIVE_MASK, Flags
from everquery.index.rows import ChangedPairs
from everquery.kinds.answer import Asked
from everquery.kinds.select.changes import Told, told_between
from everquery.kinds.select.index import SelectIndex
from everquery.kinds.select.joins import (
    NO_ROWS,
    Pairs,
    ToldPairs,
    grown_pairs,
    joined_rows,
    other_rows,
    pairs_of,
)
from everquery.kinds.select.matching import LAZY, TELLS_CHANGES, TELLS_MATCHES
from everquery.kinds.select.plan import Plan
from everquery.kinds.select.sides import latest, side_of, sides_of
from everquery.kinds.select.store import COLUMNS
from everquery.kinds.select.tables import Side
from everquery.kinds.select.windows import Moment, Window, time_of, window_of

MATCH = 0  # among the outcomes of the kind


class Call(NamedTuple):
    """A call on one of the streams of an engine.

    Attributes
    ----------
    stream : str
    now : number or None
        How far its time had come before.
    """

    stream: str
    now: Any


def begin_call(asked: Asked) -> Call:
    """Note that a call on the stream begins."""
    index = cast("SelectIndex", asked.index)
    index.fresh = 0
    return Call(asked.stream.name, side_of(asked).now)


def fresh_events(asked: Asked) -> tuple[Int64s, Int64s]:
    """Return the number of the key, and the `seq`, of each event that the call let out."""
    index = cast("SelectIndex", asked.index)
    if index.store is None:
        return NO_ROWS, NO_ROWS
    rows = np.arange(index.store.end - index.fresh, index.store.end)
    return index.store.column("key", rows).astype(np.int64), index.store.column("seq", rows)


def joins_that_tell(asked: Asked, *, flags: Flags) -> list[str]:
    """Return the second streams of joins that tell."""
    index = cast("SelectIndex", asked.index)
    index.read_plans(asked.said)
    slots = _telling(index, flags)
    plans = {int(index.plan[slot]) for slot in slots.tolist()}
    return sorted({index.plans[code].sources[1].stream for code in plans})


def _telling(index: SelectIndex, flags: Flags) -> Int64s:
    """Return the joins that tell."""
    flags = flags[: index.plan.size]
    slots = np.flatnonzero(flags & (TELLS_MATCHES | TELLS_CHANGES))
    found: Int64s = slots[index.joins_among(slots)]
    return found


def tell_joins(
    asked: Asked, *, flags: Flags, others: Mapping[str, Asked], call: Call
) -> list[ChangedPairs]:
    """Return what the joins of a stream tell behind a call on it or on another one."""
    index = cast("SelectIndex", asked.index)
    index.read_plans(asked.said)
    found: dict[str, list[tuple[int, _Found]]] = {}
    slots = _telling(index, flags)
    for slot in slots[flags[slots] & LIVE_MASK == LIVE].tolist():
        plan = index.plans[index.plan[slot]]
        second = plan.sources[1].stream
        if second not in others or call.stream not in (asked.stream.name, second):
            continue
        try:
            told = _told(index, slot, flags, [asked, others[second]], call)
        except EverqueryError as error:
            index.report(slot, asked.said.ids(np.array([slot], np.int32))[0], str(error))
            continue
        if told is not None:
            found.setdefault(second, []).append((slot, told))
    return [_changed(second, told) for second, told in found.items()]


class _Found(NamedTuple):
    """What a join tells: `place` is after how many events of the call."""

    sides: Sequence[Side]
    told: Told
    place: Int64s
    moments: tuple[Moment, ...] | None


def _told(
    index: SelectIndex, slot: int, flags: Flags, asked: Sequence[Asked], call: Call
) -> _Found | None:
    """Return what a join tells; None if that is nothing."""
    plan = index.plans[index.plan[slot]]
    sides = sides_of(asked, plan)
    if index.store is None:
        return None
    held = index.held(slot, lazy=bool(flags[slot] & LAZY))
    rows = held.rows[held.gone : held.size]
    called = 0 if call.stream == asked[0].stream.name else 1
    fresh = cast("SelectIndex", asked[called].index).fresh
    if flags[slot] & TELLS_MATCHES:
        pairs, place = _completed(plan, sides, rows, called, fresh, call.now)
        code = np.full(place.size, MATCH)
        told = Told(pairs, code, np.full(place.size, np.nan))
        return _Found(sides, told, place, None) if place.size else None
    moments = _moments(sides)
    before = index.told_joins.get(slot)
    if before is not None and before.moments == moments:
        return None
    known = None
    if before is not None:
        known = before.pairs or _pairs_then(plan, sides, rows, before.moments)
    windows = _windows(plan, sides, moments)
    now = grown_pairs(plan, sides, _within(windows[0], sides[0], rows), windows, known)
    old = [NO_ROWS, NO_ROWS] if known is None else _kept(known.rows, sides)
    told = told_between(plan, sides, old, now.rows)
    index.told_joins[slot] = ToldPairs(moments, now)
    place = np.full(told.code.size, fresh)
    return _Found(sides, told, place, moments if plan.aggregates else None)


def _moments(sides: Sequence[Side]) -> tuple[Moment, ...]:
    now = latest(side.now for side in sides)
    return tuple(Moment(side.store.end, now) for side in sides)


def _windows(plan: Plan, sides: Sequence[Side], moments: Sequence[Moment]) -> list[Window]:
    return [
        window_of(plan, side.store, moment, side.time_type, side.stream.time, partial=True)
        for side, moment in zip(sides, moments, strict=True)
    ]


def _within(window: Window, side: Side, rows: Int64s) -> Int64s:
    begin, end = np.searchsorted(rows, [window.begin, window.end])
    return window.narrow(side.store, rows[begin:end])


def _pairs_then(
    plan: Plan, sides: Sequence[Side], rows: Int64s, moments: Sequence[Moment]
) -> Pairs:
    """Return the pairs of an answer that was told, which a snapshot does not hold."""
    windows = _windows(plan, sides, moments)
    found = joined_rows(plan, sides, _within(windows[0], sides[0], rows), windows[1])
    begin, end = ((getattr(windows[0], end), getattr(windows[1], end)) for end in ("begin", "end"))
    return Pairs(found, begin, end)


def _kept(rows: Sequence[Int64s], sides: Sequence[Side]) -> list[Int64s]:
    """Return the pairs whose rows are here still; of others nothing can be told."""
    here = (rows[0] >= sides[0].store.first) & (rows[1] >= sides[1].store.first)
    return [each[here] for each in rows]


def _completed(
    plan: Plan,
    sides: Sequence[Side],
    rows: Int64s,
    called: int,
    fresh: int,
    before: Any,  # noqa: ANN401 - a number
) -> tuple[list[Int64s], Int64s]:
    """Return the pairs that new rows of a stream complete, and at which of these, in their order.

    Parameters
    ----------
    rows : int64
        The rows of the first stream that satisfy what is said of it.
    called : int
        Which stream has the new rows.
    before : number or None
        How far that stream's time had come before them.
    """
    mine, other = sides[called], sides[1 - called]
    start = mine.store.end - fresh
    new = np.arange(start, mine.store.end)
    if not fresh:
        return [NO_ROWS, NO_ROWS], NO_ROWS
    now = _nows(mine, new, latest([before, other.now]))
    moment = Moment(other.store.end, None if now is None else now[0].item())
    (window,) = _windows(plan, [other], [moment])
    if called == 0:
        first, second = rows[np.searchsorted(rows, start) :], np.arange(window.begin, moment.rows)
    else:
        first, second = rows[np.searchsorted(rows, window.begin) :], new
    pairs = pairs_of(plan, sides, first, other_rows(plan, sides[1], second))
    place = pairs[called] - start
    then = None if now is None else now[place]
    kept = _is_in(plan, mine, pairs[called], pairs[called] + 1, then)
    kept &= _is_in(plan, other, pairs[1 - called], other.store.end, then)
    pairs, place = [each[kept] for each in pairs], place[kept]
    order = np.lexsort((pairs[1 - called], place))
    return [each[order] for each in pairs], place[order]


def _nows(side: Side, rows: Int64s, before: Any) -> Array | None:  # noqa: ANN401 - a number
    """Return how far time has come with each of some rows that follow each other."""
    if side.time_type is None or side.stream.time is None:
        return None if before is None else np.full(rows.size, before)
    now = np.maximum.accumulate(side.store.column("time", rows))
    return now if before is None else np.maximum(now, before)


def _is_in(plan: Plan, side: Side, rows: Int64s, end: Int64s | int, now: Array | None) -> Bools:
    """Tell which rows are in the window, each as of its own moment: so many rows, so far in time.

    The window ends now.
    """
    if plan.by_rows or side.time_type is None or side.stream.time is None or now is None:
        back = int(plan.begin.amount) if plan.begin.kind == "rows_ago" else 0  # type: ignore[arg-type]
        return rows >= (0 if plan.begin.kind == "oldest" else end - back)
    times = side.store.column("time", rows)
    low = time_of(plan.begin, now, side.time_type, side.stream.time)
    kept: Bools = times <= now
    return kept if low is None else kept & (times >= low)


def _changed(second: str, found: Sequence[tuple[int, _Found]]) -> ChangedPairs:
    """Return what several joins of the same streams tell, as columns, in order of events."""
    slot = np.concatenate([np.full(each.place.size, slot) for slot, each in found])
    place = np.concatenate([each.place for _, each in found])
    order = np.argsort(place, kind="stable")
    sides = found[0][1].sides
    rows = [np.concatenate([each.told.rows[s] for _, each in found])[order] for s in (0, 1)]
    salt = np.concatenate([np.full(each.place.size, _salt(each.moments)) for _, each in found])
    columns = [
        {name: side.store.column(name, mine) for name in COLUMNS}
        for side, mine in zip(sides, rows, strict=True)
    ]
    return ChangedPairs(
        other=second,
        slot=slot[order],
        code=np.concatenate([each.told.code for _, each in found])[order].astype(np.uint8),
        first=columns[0],
        second=columns[1],
        figures={"value": np.concatenate([each.told.value for _, each in found])[order]},
        salt=salt[order],
        place=place[order],
    )


def _salt(moments: tuple[Moment, ...] | None) -> np.uint64:
    """Return what tells aggregates apart whose last pair is the same: how many rows had come."""
    if moments is None:
        return np.uint64(0)
    first, second = (moment.rows for moment in moments)
    return np.uint64(((first + 1) << 32 ^ (second + 1)) % 2**64)
