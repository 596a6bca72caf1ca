"""Which segments are to be merged: three rules over their sizes, largest first.

*Proportion*: while events come, each segment is at least `RATIO` times as large as all that follow,
so there are few of them. *Doubling*: while queries are only loaded, nobody walks the segments, so
many are merged at a time, and each row's segment at least doubles: a row is written
O(log n) times. *Rent*: segments in proportion may stay apart for ever, and every event pays for
each of them. Once events have paid as much as a merge costs, it is done: all in all, that
is at most twice what the better choice from the start would have cost.
"""

from __future__ import annotations

from collections.abc import Sequence

RATIO = 8
MERGED_AT_ONCE = 16_384  # rows; about 3 ms
TINY, SPARE = 64, 4  # rows, and how many segments of so few in all may stay apart

# Measured with borders over 500 rows a key (docs/architecture.md).
BUILD_NS = 200.0  # a row that is merged
WALK_NS = 30.0  # a segment more that an event looks at, where it is not in the cache
SMALL_WALK_NS = 4.0  # the same of a segment of up to `MERGED_AT_ONCE` rows


def out_of_proportion(
    sizes: Sequence[int], *, smallest: int = 0, largest: int | None = None
) -> int | None:
    """Return where the longest tail out of proportion begins, or None.

    Its total size is above `smallest` and, where there is a `largest`, not above that.
    """
    tail, first = 0, None
    for i in range(len(sizes) - 1, -1, -1):
        size = sizes[i]
        if largest is not None and tail + size > largest:
            break
        if tail > 0 and size < RATIO * tail and tail + size > smallest:
            first = i
        tail += size
    return first


def worth_at_once(sizes: Sequence[int]) -> int | None:
    """Return where the tail begins that is merged as soon as a segment is added, or None.

    A few tiny ones may stay apart: queries that come one by one would pay for a merge each.
    """
    first = out_of_proportion(sizes, largest=MERGED_AT_ONCE)
    if first is not None and len(sizes) - first < SPARE and sum(sizes[first:]) < TINY:
        return None
    return first


def doubling(sizes: Sequence[int]) -> int | None:
    """Return where the longest tail begins that is twice as large as its largest segment, or None.

    It has at least `RATIO` segments, and is larger than what is merged at once.
    """
    tail, largest, first = 0, 0, None
    for i in range(len(sizes) - 1, -1, -1):
        tail += sizes[i]
        largest = max(largest, sizes[i])
        if len(sizes) - i >= RATIO and tail >= 2 * largest and tail > MERGED_AT_ONCE:
            first = i
    return first


def rent(sizes: Sequence[int]) -> float:
    """Return what an event pays for it that there is not one segment, in nanoseconds."""
    return sum(SMALL_WALK_NS if size <= MERGED_AT_ONCE else WALK_NS for size in sizes[1:])


def paid_for(sizes: Sequence[int], paid: float) -> int | None:
    """Return where the longest tail begins whose merge costs no more than was paid, or None."""
    tail, first = 0, None
    for i in range(len(sizes) - 1, -1, -1):
        tail += sizes[i]
        if tail * BUILD_NS > paid:
            break
        if i < len(sizes) - 1:
            first = i
    return first
