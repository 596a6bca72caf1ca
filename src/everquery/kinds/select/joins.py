"""Pairs of rows of two streams: a symmetric join, with conditions pushed to their sides.

Conditions on one stream alone are evaluated on that stream's rows, once each. What is left compares
columns of both: the comparison with the fewest candidates drives the join, by a search in a sorted
order that all rows of the other side share; the others are checked on its candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from everquery.core.arrays import Array, Floats, Int64s
from everquery.errors import AnswerTooLargeError, InvalidQueryError
from everquery.kinds.select.factors import holds
from everquery.kinds.select.plan import Factor, Plan
from everquery.kinds.select.tables import Side
from everquery.kinds.select.windows import Moment, Window
from everquery.queries.sql.conditions import FLIPPED

MOST_PAIRS = 20_000_000  # that an answer is made of
BLOCK = 1 << 22  # candidates that are looked at together

NO_ROWS = np.empty(0, np.int64)


@dataclass(slots=True)
class Pairs:
    """The pairs of a query that were found before, and of which rows.

    Attributes
    ----------
    rows : two int64
        The pairs, in order of the first stream's rows and then of the other's.
    begin, end : two of int
        The rows of either stream that they are of: from one to before another.
    """

    rows: list[Int64s]
    begin: tuple[int, int]
    end: tuple[int, int]


class ToldPairs(NamedTuple):
    """What a join has told of its answer.

    Attributes
    ----------
    moments : two of Moment
        What it was as of, stream by stream.
    pairs : Pairs or None
        None where they are to be found anew, as behind a snapshot.
    """

    moments: tuple[Moment, ...]
    pairs: Pairs | None


def other_rows(plan: Plan, side: Side, rows: Int64s) -> Int64s:
    """Return the rows of the second stream that satisfy what is said of it alone."""
    stream, store = side.stream, side.store
    for factor in plan.factors:
        if factor.left.side != 1 or (factor.right is not None and factor.right.side != 1):
            continue
        if factor.left.name == stream.key:
            wanted = pc.index(side.keys(), pa.scalar(factor.constant)).as_py()
            rows = rows[store.column("key", rows) == wanted]
            continue
        left = store.values(stream.attributes.index(factor.left.name), rows)
        assert not isinstance(factor.constant, str)
        right: Floats | float = float(factor.constant)
        if factor.right is not None:
            place = stream.attributes.index(factor.right.name)
            right = store.values(place, rows) + factor.constant
        rows = rows[holds(left, factor.operator, right)]
    return rows


def joined_rows(
    plan: Plan, sides: Sequence[Side], first: Int64s, window: Window, known: Pairs | None = None
) -> list[Int64s]:
    """Return the pairs of a window: rows of either stream, as many of the one as of the other."""
    second = np.arange(window.begin, window.end)
    second = other_rows(plan, sides[1], window.narrow(sides[1].store, second))
    return pairs_of(plan, sides, first, second)


def grown_pairs(
    plan: Plan, sides: Sequence[Side], first: Int64s, windows: Sequence[Window], known: Pairs | None
) -> Pairs:
    """Return the pairs of a window, from those of an earlier one: new rows meet all others.

    Parameters
    ----------
    first : int64
        The rows of the first stream, of this window.
    """
    begin = windows[0].begin, windows[1].begin
    end = windows[0].end, windows[1].end
    pieces = all(window.is_piece for window in windows)
    if (
        known is None
        or not pieces
        or any(a < b for a, b in zip(begin, known.begin, strict=True))
        or any(a < b for a, b in zip(end, known.end, strict=True))
    ):
        return Pairs(joined_rows(plan, sides, first, windows[1]), begin, end)
    kept = (known.rows[0] >= begin[0]) & (known.rows[1] >= begin[1])
    new = first[np.searchsorted(first, known.end[0]) :]
    old = first[: first.size - new.size]
    fresh = np.arange(max(known.end[1], begin[1]), end[1])
    fresh = other_rows(plan, sides[1], fresh)
    parts = [[known.rows[0][kept], known.rows[1][kept]]]
    if new.size:
        parts.append(joined_rows(plan, sides, new, windows[1]))
    if fresh.size and old.size:
        parts.append(pairs_of(plan, sides, old, fresh))
    if len(parts) == 1:
        return Pairs(parts[0], begin, end)
    both = [np.concatenate([part[side] for part in parts]) for side in (0, 1)]
    order = np.lexsort((both[1], both[0]))
    return Pairs([each[order] for each in both], begin, end)


def pairs_of(plan: Plan, sides: Sequence[Side], first: Int64s, second: Int64s) -> list[Int64s]:
    """Return the pairs of two sets of rows that satisfy all that compares both streams."""
    factors = [factor for factor in plan.factors if factor.joins]
    if not first.size or not second.size:
        return [NO_ROWS, NO_ROWS]
    compared = [_compared(factor, sides, first, second) for factor in factors]
    found = [_candidates(*each) for each in compared]
    costs = [int((high - low).sum()) for low, high, _ in found]
    driver = int(np.argmin(costs))
    low, high, order = found[driver]
    rest = [each for place, each in enumerate(compared) if place != driver]
    parts: list[tuple[Int64s, Int64s]] = []
    total = 0
    for begin, end in _blocks(high - low):
        left, right = _expanded(low[begin:end], high[begin:end], order)
        left += begin
        for a, operator, b in rest:
            kept = holds(a[left], operator, b[right])
            left, right = left[kept], right[kept]
        total += left.size
        if total > MOST_PAIRS:
            raise AnswerTooLargeError(
                f"the join has more than {MOST_PAIRS:,} pairs in its window; join on more"
                " conditions, or over a shorter window"
            )
        parts.append((left, right))
    left, right = (np.concatenate(each) for each in zip(*parts, strict=True))
    by_row = np.lexsort((right, left))
    return [first[left[by_row]], second[right[by_row]]]


def _compared(
    factor: Factor, sides: Sequence[Side], first: Int64s, second: Int64s
) -> tuple[Floats, str, Floats]:
    """Return the numbers of both sides, and how the first's compare with the second's."""
    assert factor.right is not None
    assert not isinstance(factor.constant, str)
    rows = first, second
    columns = (factor.left, factor.right)
    if factor.left.name == sides[factor.left.side].stream.key:
        return _key_numbers(sides, rows[0], rows[1])
    left, right = (
        sides[column.side].store.values(
            sides[column.side].stream.attributes.index(column.name), rows[column.side]
        )
        for column in columns
    )
    right = right + factor.constant
    if factor.left.side == 0:
        return left, factor.operator, right
    return right, FLIPPED[factor.operator], left


def _key_numbers(
    sides: Sequence[Side], first: Int64s, second: Int64s
) -> tuple[Floats, str, Floats]:
    """Return keys as numbers of the second stream's keys; NaN where that has no such key."""
    theirs = sides[1].keys()
    ours = sides[0].keys()
    if ours.type != theirs.type and len(ours) and len(theirs):
        names = [side.stream.name for side in sides]
        raise InvalidQueryError(
            f"keys of {names[0]!r} are {ours.type}, and those of {names[1]!r} {theirs.type}: none"
            " of them are equal"
        )
    known = pc.index_in(ours.cast(theirs.type), value_set=theirs) if len(theirs) else None
    numbers = np.full(len(ours), np.nan)
    if known is not None:
        numbers = known.cast(pa.float64()).fill_null(np.nan).to_numpy(zero_copy_only=False)
    left = numbers[sides[0].store.column("key", first)]
    return left, "=", sides[1].store.column("key", second).astype(np.float64)


def _candidates(left: Floats, operator: str, right: Floats) -> tuple[Int64s, Int64s, Int64s]:
    """Return the stretch of the right side's order that each of the left compares with so."""
    order = np.argsort(right, kind="stable")
    order = order[: int(np.count_nonzero(right == right))]
    ordered = right[order]
    n = ordered.size
    below = np.searchsorted(ordered, left, "left")
    upto = np.searchsorted(ordered, left, "right")
    none, every = np.zeros(left.size, np.int64), np.full(left.size, n, np.int64)
    stretches: dict[str, tuple[Array, Array]] = {
        "=": (below, upto),
        "<": (upto, every),
        "<=": (below, every),
        ">": (none, below),
        ">=": (none, upto),
    }
    low, high = stretches[operator]
    unknown = left != left
    return low, np.where(unknown, low, high), order


def _blocks(counts: Int64s) -> list[tuple[int, int]]:
    """Return stretches of rows with not too many candidates each."""
    ends = np.cumsum(counts)
    blocks, begin, before = [], 0, 0
    while begin < counts.size:
        end = max(begin + 1, int(np.searchsorted(ends, before + BLOCK, "right")))
        blocks.append((begin, end))
        begin, before = end, int(ends[end - 1])
    return blocks


def _expanded(low: Int64s, high: Int64s, order: Int64s) -> tuple[Int64s, Int64s]:
    """Return all pairs of a row and a place in its stretch."""
    counts = high - low
    left = np.repeat(np.arange(counts.size), counts)
    start = np.repeat(np.cumsum(counts) - counts, counts)
    return left, order[np.repeat(low, counts) + np.arange(left.size) - start]
