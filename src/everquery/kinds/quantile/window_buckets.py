"""The loops over sliding windows: rings of rows, samples of buckets, the summary of both.

A full bucket of `length` rows is kept as every `step`-th of its values in order, the highest among
them. With buckets all alike, the samples of all of them in one sorted array have ranks that need
not be kept: `i` samples up to a value stand for at least ``i * step`` rows, and for at most
``step - 1`` more of each bucket.
"""

from __future__ import annotations

from typing import NamedTuple

from everquery.core.arrays import Floats, Int32s, Int64s
from everquery.core.jit import kernel
from everquery.index.slices import Slices, make_room
from everquery.kinds.quantile.gk_merge import capacity

# Windows of so many rows are kept whole and sorted when asked. Where all rows of a longer one have
# to be kept, they are kept sorted in buckets, unless those were so short that passes over all rows
# would be too many: of 40,000 rows, sorting takes 1.4 ms and a pass 0.1.
WHOLE = 8192
SHORTEST = 64


class BucketPlan(NamedTuple):
    """How a window is cut.

    Attributes
    ----------
    length : int
        Rows of a bucket, a multiple of `step`; those of the window if it is to be kept whole.
    step : int
        Of how many rows one is kept.
    """

    length: int
    step: int


def plan_buckets(epsilon: float, window: int) -> BucketPlan:
    """Return the buckets for a window.

    The rows of the oldest bucket that are still in the window are known by number only, so it may
    widen gaps by its whole length; each other bucket by ``step - 1``. With buckets of ``epsilon *
    window`` rows, half of Theorem 1's ``2 epsilon window`` goes to either, which makes the steps
    the longest: ``epsilon ** 2 * window``. Section 2.3.2 takes buckets of half the length, and as
    many samples of each.
    """
    longest = int(epsilon * window)
    for step in range(int(epsilon * longest) + 1, 1, -1):
        length = longest // step * step
        if length and fits(BucketPlan(length, step), epsilon, window):
            return BucketPlan(length, step)
    if window <= WHOLE or longest < SHORTEST:
        return BucketPlan(window, 1)
    return BucketPlan(longest, 1)


def fits(plan: BucketPlan, epsilon: float, window: int) -> bool:
    """Return whether all gaps are within the capacity while the window fills, and ever after."""
    length, spread = plan.length, plan.step - 1
    most = window // length
    filling = all(
        full * spread + 1 <= capacity(epsilon, full * length) for full in range(1, most + 1)
    )
    return filling and most * spread + 1 + length <= capacity(epsilon, window)


@kernel
def append_rows(
    first: int, groups: tuple[Int32s, Int64s, Int64s, Floats], most: int, whole: bool,
    slices: Slices, seen: Int64s, pool: Floats,
) -> tuple[int, int]:  # fmt: skip
    """Write the rows of each group into the ring of its key, from group `first` on.

    Parameters
    ----------
    groups : keys, first rows, ends (groups,), values in order of arrival
    most : int
        The length of a full ring; row `i` of a key is at ``i % most``.
    whole : bool
        Rows stay when the ring starts again; if not, no group goes beyond its end.

    Returns
    -------
    how many groups are done, and what room the next one needs if the pool is full
    """
    group_key, begins, ends, values = groups
    for group in range(first, group_key.size):
        key = group_key[group]
        rows = ends[group] - begins[group]
        held = min(seen[key], most) if whole else seen[key] % most
        needed = min(held + rows, most)
        if not make_room(slices, key, needed, most, held, pool):
            return group, needed
        for i in range(max(0, rows - most), rows):
            pool[slices.start[key] + (seen[key] + i) % most] = values[begins[group] + i]
        seen[key] += rows
    return group_key.size, 0


@kernel
def merge_samples(
    old: tuple[Floats, Int32s], oldest: int, fresh: tuple[Floats, Int32s],
    out: tuple[Floats, Int32s],
) -> int:  # fmt: skip
    """Merge new samples into a window's, without those of buckets before `oldest`.

    Returns how many there are; the cost is a pass over all.
    """
    values, buckets = old
    new_values, new_buckets = fresh
    out_values, out_buckets = out
    n = 0
    j = 0
    for i in range(values.size + 1):
        while j < new_values.size and (i == values.size or new_values[j] < values[i]):
            out_values[n], out_buckets[n] = new_values[j], new_buckets[j]
            n += 1
            j += 1
        if i < values.size and buckets[i] >= oldest:
            out_values[n], out_buckets[n] = values[i], buckets[i]
            n += 1
    return n


@kernel
def window_tuples(
    samples: tuple[Floats, Int32s], rows: Floats, lowest: float, n: int, gone: int,
    shape: tuple[int, int, int, int], out: tuple[Floats, Int64s, Int64s],
) -> int:  # fmt: skip
    """Write a window's summary; return how many tuples it has.

    Values of the oldest bucket are not in it, as they may have left the window. How many of its
    rows are below a value is bounded by its samples and by how many rows have left.

    Parameters
    ----------
    samples : values and buckets, in order of value; those before the oldest bucket are left out
    rows : float64, ascending, of the bucket that is not full
    lowest : float
        The lowest value of the rows and all full buckets.
    n, gone : int
        Rows in the window; rows of the oldest bucket that have left it.
    shape : number of the oldest bucket, length and step of buckets, buckets wholly in the window
    """
    values, buckets = samples
    out_values, out_minus, out_plus = out
    oldest, length, step, full = shape
    left = length - gone if gone else 0
    lower_old = 0
    for i in range(values.size if gone else 0):
        if values[i] >= lowest:
            break
        lower_old += step if buckets[i] == oldest else 0
    out_values[0], out_minus[0] = lowest, 1
    out_plus[0] = 1 + min(left, lower_old + step - 1)
    size = 1
    j = 0
    before, before_old = 0, 0
    for i in range(values.size + 1):
        fewest = before + max(0, before_old - gone)
        most = before + min(left, before_old + step - 1)
        while j < rows.size and (i == values.size or rows[j] < values[i]):
            out_values[size] = rows[j]
            out_minus[size] = fewest + j + 1
            out_plus[size] = min(n, most + full * (step - 1) + j + 1)
            size += 1
            j += 1
        if i == values.size:
            break
        if buckets[i] < oldest:
            continue
        if gone and buckets[i] == oldest:
            before_old += step
            continue
        before += step
        out_values[size] = values[i]
        out_minus[size] = fewest + step + j
        out_plus[size] = min(n, most + step + (full - 1) * (step - 1) + j)
        size += 1
    return size
