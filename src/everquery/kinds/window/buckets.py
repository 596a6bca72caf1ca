"""Approximate counts and sums: lanes whose entries are the buckets of an exponential histogram.

A bucket has the mark of its newest event and the totals of its own events: how many, the sum of
values above 0, and that of values below 0. Nothing is subtracted for ever, so that plain floats do:
a value that has left the window takes its rounding with it, however large it was. The base of a
lane has the totals of all its buckets.

A bucket may be as large as the error allows, measured by all that is newer. That only grows, so the
error holds for ever, and for every window (paper: sliding-window-statistics, sections 2 and 4).
"""

from __future__ import annotations

import numpy as np

from everquery.core.arrays import Array, Floats
from everquery.core.jit import part
from everquery.kinds.window.families import MEAN

# More than what rounding can come to, as a share of a sum, for each event that was added up.
SLACK = 2.0**-50


@part
def add_up(total: Floats, begin: int, end: int) -> tuple[float, float, float]:
    """Return the totals of buckets."""
    n = one = two = 0.0
    columns = total.shape[1]
    if columns == 1:
        for i in range(begin, end):
            n += total[i, 0]
    elif columns == 2:
        for i in range(begin, end):
            n += total[i, 0]
            one += total[i, 1]
    else:
        for i in range(begin, end):
            n += total[i, 0]
            one += total[i, 1]
            two += total[i, 2]
    return n, one, two


@part
def set_base(base: Floats, lane: int, n: float, one: float, two: float) -> None:
    """Write the totals of a lane."""
    base[lane, 0] = n
    if base.shape[1] > 1:
        base[lane, 1] = one
    if base.shape[1] > 2:
        base[lane, 2] = two


@part
def totals_from(
    total: Floats, n: float, one: float, two: float, start: int, first: int, end: int
) -> tuple[float, float, float]:
    """Return the totals of a lane's buckets from one on; those of all are `n`, `one` and `two`.

    It is all but the first ones, where these are few, and too small for the difference to lose
    digits.
    """
    if 2 * first < end:
        gone, one_gone, two_gone = add_up(total, start, start + first)
        if 2 * one_gone <= one and 2 * two_gone <= two:
            return n - gone, one - one_gone, two - two_gone
    return add_up(total, start + first, start + end)


@part
def bucket_value(
    statistic: int, summed: bool, most: float, one_high: float, two_high: float, oldest: float,
    one_oldest: float, two_oldest: float, added: float,
) -> tuple[float, float, float, int]:  # fmt: skip
    """Return a statistic of a window, its bounds, and of how many events.

    The newest event of the oldest bucket is in the window; of the others nobody knows. Bounds of
    sums have room for rounding.

    Parameters
    ----------
    most, one_high, two_high : the totals of the buckets that reach into the window
    oldest, one_oldest, two_oldest : those of the oldest of them; 0 if there is none
    added : how many events were added up in the lane
    """
    if oldest == 0:
        value = np.nan if statistic == MEAN else 0.0
        return value, value, value, 0
    least = most - (oldest - 1)
    n = int((most + least) / 2)
    if not summed:
        return (least + most) / 2, least, most, n
    one_low, two_low = one_high, two_high
    if oldest > 1:
        one_low = max(one_high - one_oldest, 0.0)
        two_low = max(two_high - two_oldest, 0.0)
    slack = SLACK * (added + 64) * (one_high + two_high)
    low = one_low - two_high - slack
    high = one_high - two_low + slack
    if statistic == MEAN:
        low /= most if low >= 0 else least
        high /= least if high >= 0 else most
    return (low + high) / 2, low, high, n


@part
def merge_buckets(
    double: float, mark: Array, total: Floats, start: int, gone: int, used: int
) -> tuple[int, float, float, float]:
    """Make the buckets of a lane as large as its error allows, newest first.

    Returns how many there are then, and the totals of all.

    What a window may hold of a bucket or not is at most `double` (twice the error) of all that is
    newer. Its newest event is in every window that reaches into it, so that one less is uncertain.
    The first `gone` ones go. Cost: a few comparisons a bucket.
    """
    columns = total.shape[1]
    newer = newer_one = newer_two = 0.0
    last = start + used - 1
    kept = start + used  # what has been kept stands from here on
    begin = start + gone
    while last >= begin:
        n = total[last, 0]
        one = total[last, 1] if columns > 1 else 0.0
        two = total[last, 2] if columns > 2 else 0.0
        most, most_one, most_two = double * (newer + 1) + 1, double * newer_one, double * newer_two
        older = last - 1
        while older >= begin:
            more = n + total[older, 0]
            if more > most:
                break
            if columns > 1:
                more_one = one + total[older, 1]
                if more_one > most_one:
                    break
                if columns > 2:
                    more_two = two + total[older, 2]
                    if more_two > most_two:
                        break
                    two = more_two
                one = more_one
            n = more
            older -= 1
        kept -= 1
        mark[kept] = mark[last]
        total[kept, 0] = n
        if columns > 1:
            total[kept, 1] = one
        if columns > 2:
            total[kept, 2] = two
        newer += n
        newer_one += one
        newer_two += two
        last = older
    left = start + used - kept
    if kept > start:
        for i in range(left):
            mark[start + i] = mark[kept + i]
        for i in range(left):
            for column in range(columns):
                total[start + i, column] = total[kept + i, column]
    return left, newer, newer_one, newer_two
