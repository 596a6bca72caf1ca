"""What an event writes into a lane, and what lies between two entries."""

from __future__ import annotations

from everquery.core.arrays import Array, Floats
from everquery.core.jit import part
from everquery.kinds.window.double_double import added, multiplied, two_product, two_sum
from everquery.kinds.window.families import (
    EVENT_SAMPLES,
    LARGEST,
    MAXIMA,
    MINIMA,
    SKETCHES,
    SQUARES,
    SUM_BUCKETS,
    SUMS,
    VALUES,
    VECTORS,
)
from everquery.kinds.window.lanes import Pools
from everquery.kinds.window.room import move_entry


@part
def is_taken(family: int, value: float, by: float) -> bool:
    """Tell whether a lane takes an event with such a value in."""
    if value != value or by != by:
        return False
    if SUMS <= family <= SQUARES or family in (VECTORS, EVENT_SAMPLES, SKETCHES, SUM_BUCKETS):
        return abs(value) <= LARGEST
    return True


@part
def before(total: Floats, base: Floats, lane: int, start: int, entry: int, measure: int) -> float:
    """Return a total up to before an entry of a lane."""
    if entry == 0:
        return float(base[lane, measure])
    return float(total[start + entry - 1, measure])


@part
def difference(
    total: Floats, rest: Floats, base: Floats, base_rest: Floats, lane: int, start: int, first: int,
    end: int, measure: int,
) -> tuple[float, float]:  # fmt: skip
    """Return a total, not the first, of the entries of a lane from `first` to before `end`."""
    newest = start + end - 1
    low = base_rest[lane, measure - 1] if first == 0 else rest[start + first - 1, measure - 1]
    return added(
        total[newest, measure],
        rest[newest, measure - 1],
        -before(total, base, lane, start, first, measure),
        -low,
    )


@part
def sum_of(
    total: Floats, rest: Floats, base: Floats, base_rest: Floats, lane: int, start: int, first: int,
    end: int, measure: int,
) -> float:  # fmt: skip
    """Return the same, rounded; 0 of none. Buckets are compared by it: it is quick."""
    if first >= end:
        return 0.0
    newest = start + end - 1
    whole = total[newest, measure] - before(total, base, lane, start, first, measure)
    low = base_rest[lane, measure - 1] if first == 0 else rest[start + first - 1, measure - 1]
    return float(whole + (rest[newest, measure - 1] - low))


@part
def spread_of(
    total: Floats, rest: Floats, base: Floats, base_rest: Floats, lane: int, start: int, first: int,
    end: int,
) -> float:  # fmt: skip
    """Return the sum of squared distances from the mean of the entries of a lane; 0 of none."""
    if first >= end:
        return 0.0
    n = total[start + end - 1, 0] - before(total, base, lane, start, first, 0)
    one, one_low = difference(total, rest, base, base_rest, lane, start, first, end, 1)
    two, two_low = difference(total, rest, base, base_rest, lane, start, first, end, 2)
    square, square_low = multiplied(one, one_low, one, one_low)
    most, most_low = multiplied(two, two_low, n, 0.0)
    over, over_low = added(most, most_low, -square, -square_low)
    return float(max((over + over_low) / n, 0.0))


@part
def append_totals(
    family: int, total: Floats, rest: Floats, base: Floats, base_rest: Floats, shift: float,
    lane: int, at: int, used: int, value: float,
) -> None:  # fmt: skip
    """Write the totals up to an event into a lane's next entry."""
    total[at, 0] = (base[lane, 0] if used == 0 else total[at - 1, 0]) + 1.0
    for measure in range(1, total.shape[1]):
        more_rest = 0.0
        if family == SUMS:
            more = max(value, 0.0) if measure == 1 else max(-value, 0.0)
        else:
            more, more_rest = two_sum(value, -shift)
            if measure == 2:
                crossed = 2 * more * more_rest
                more, more_rest = two_product(more, more)
                more_rest += crossed
        so_far = base[lane, measure] if used == 0 else total[at - 1, measure]
        low = base_rest[lane, measure - 1] if used == 0 else rest[at - 1, measure - 1]
        total[at, measure], rest[at, measure - 1] = added(so_far, low, more, more_rest)


@part
def append_value(
    family: int, mark: Array, total: Floats, start: int, used: int, value: float, by: float
) -> int:
    """Make place for an event's value behind a lane's entries, and write it; return the place.

    Entries that it makes needless go: of minima and maxima those that it beats, of distinct values
    the earlier event with the same.
    """
    if family == MINIMA:
        while used > 0 and total[start + used - 1, 0] >= value:
            used -= 1
    elif family == MAXIMA:
        while used > 0 and total[start + used - 1, 0] <= value:
            used -= 1
    elif family == VALUES:
        old = used - 1
        while old >= 0 and total[start + old, 0] != value:
            old -= 1
        if old >= 0:
            for i in range(old + 1, used):
                mark[start + i - 1] = mark[start + i]
                total[start + i - 1, 0] = total[start + i, 0]
            used -= 1
    total[start + used, 0] = value
    if family == VECTORS:
        total[start + used, 1] = by
    return used


@part
def thin(error: float, pools: Pools, lane: int, start: int, used: int) -> int:
    """Make the buckets of approximate squares as large as the error allows, newest first.

    What a window may hold of a bucket or not is at most twice the error of all that is newer. Its
    newest event is in every window that reaches into it, so that one less is uncertain. Returns how
    many are left. Cost: a few comparisons an entry.
    """
    total, rest, base, base_rest = pools.total, pools.rest, pools.base, pools.base_rest
    double = 2 * error
    last = used - 1
    kept = used  # what has been kept stands from here on
    while last >= 0:
        n = total[start + last, 0]
        most = double * (total[start + used - 1, 0] - n + 1) + 1
        spread = spread_of(total, rest, base, base_rest, lane, start, last + 1, used)
        first = last
        while first > 0 and n - before(total, base, lane, start, first - 1, 0) <= most:
            wider = spread_of(total, rest, base, base_rest, lane, start, first - 1, used)
            if wider > (1 + double) * spread:
                break
            first -= 1
        kept -= 1
        if kept > last:
            # Entries from `last` on have been looked at, so their places are free.
            move_entry(pools, start + last, start + kept)
        last = first - 1
    if kept > 0:
        for i in range(kept, used):
            move_entry(pools, start + i, start + i - kept)
    return used - kept
