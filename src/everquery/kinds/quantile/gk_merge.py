"""The loops over quantile summaries: merge a sorted run in, compress, pick the tuple of a rank.

A summary is tuples ``(value, r_minus, r_plus)`` in order of value: the rank of that value among all
`n` values seen lies between the two (Section 2.1 of continuous-quantiles). Equal values have some
order that is fixed once, so every value has one rank.

All loops keep the gap ``r_plus[i] - r_minus[i - 1]`` of neighbours within a capacity, which is what
Theorem 1 asks for. Of a gap of `w`, at most ``w - 1`` hidden values and the upper neighbour have
unknown places in it; a new value that falls into it and is the `k`-th of its run there may be kept
as ``(r_minus[i - 1] + k, r_plus[i] - 1 + k)``. Its upper rank comes from the neighbour *above*, as
with Greenwald and Khanna; Section 2.3.1 takes it from the neighbour below, which is no bound: the
hidden values of the gap may all be smaller than the new one.
"""

from __future__ import annotations

from everquery.core.arrays import Floats, Int64s
from everquery.core.jit import kernel, part

# Keeps the product of two floats from being rounded up to the next whole number.
BELOW_ONE = 1 - 2.0**-50


@part
def capacity(epsilon: float, n: int) -> int:
    """Return the widest gap allowed among `n` values: ``2 epsilon n``, and one where that is less.

    Ranks are whole numbers: with gaps of one, every rank is known exactly, and no gap is smaller.
    """
    return max(1, int(2 * epsilon * n * BELOW_ONE))


@part
def first_above(values: Floats, begin: int, end: int, value: float) -> int:
    """Return the first place in a sorted run that holds more than `value`, from `begin` on.

    By doubling steps: the run is gone through by as many values as the summary has, in order, so
    the place is near.
    """
    low = begin
    step = 1
    while low + step <= end and values[low + step - 1] <= value:
        low += step
        step *= 2
    high = min(low + step - 1, end)
    while low < high:
        middle = (low + high) >> 1
        if values[middle] <= value:
            low = middle + 1
        else:
            high = middle
    return low


@part
def merge_sorted(first: Floats, second: Floats, out: Floats) -> None:
    """Merge two sorted runs of values; `out` may begin with `first` and is then filled in place."""
    i, j = first.size - 1, second.size - 1
    while j >= 0:
        if i >= 0 and first[i] > second[j]:
            out[i + j + 1] = first[i]
            i -= 1
        else:
            out[i + j + 1] = second[j]
            j -= 1
    while i >= 0:
        out[i] = first[i]
        i -= 1


@kernel
def merge_run(
    old: tuple[Floats, Int64s, Int64s], n_old: int, run: Floats, cap: int,
    out: tuple[Floats, Int64s, Int64s],
) -> int:  # fmt: skip
    """Merge a sorted run of values into a summary; return how many tuples `out` holds.

    The ranks of the old tuples move by an exact count. Of the run only those values are kept that
    hold a gap within the capacity; for the others a count is enough. So the cost is that of a
    search in the run for each old tuple, and of the values kept, but not of the run's length. The
    lowest and the highest value of all are always kept.

    Parameters
    ----------
    old : values, r_minus and r_plus, shape (m,) each
        No gap is above `cap`.
    n_old : int
        How many values the old tuples stand for.
    run : float64, shape (k,)
        Ascending, no NaN, infinities allowed.
    cap : int
        The widest gap, of ``n_old + k`` values.
    out : arrays with room for ``m + k`` tuples
    """
    values, r_minus, r_plus = old
    out_values, out_minus, out_plus = out
    m, k = values.size, run.size
    n = 0
    at = 0
    below = 0  # r_minus of the lower neighbour
    for i in range(m + 1):
        above = r_plus[i] if i < m else n_old + 1
        end = first_above(run, at, k, values[i]) if i < m else k
        # All values of the gap between two tuples become `gap - 1` wide themselves, so they may
        # stand `spare + 1` apart, and the tuple above takes in the last `spare` of them.
        spare = cap - (above - below)
        last = end - spare if i < m else k
        keep = last - 1 - (last - 1 - at) // (spare + 1) * (spare + 1) if last > at else end
        if i == 0 and at < end and keep > at:
            out_values[n], out_minus[n], out_plus[n] = run[at], below + at + 1, above + at
            n += 1
        while keep < last:
            out_values[n] = run[keep]
            out_minus[n] = below + keep + 1
            out_plus[n] = above + keep
            n += 1
            keep += spare + 1
        if i < m:
            out_values[n] = values[i]
            out_minus[n] = r_minus[i] + end
            out_plus[n] = r_plus[i] + end
            n += 1
            below = r_minus[i]
        at = end
    return n


@part
def band_of(spread: int, cap: int) -> int:
    """Return the band of a tuple by ``r_plus - r_minus``; younger tuples have lower bands.

    Band `a` holds spreads some ``2 ** (a - 1)`` to ``2 ** a`` below the capacity. The limits are
    shifted by the capacity's lower bits, so that tuples that share a band do so for ever.
    """
    distance = cap - spread
    band = 0
    while distance >> band:
        band += 1
    if band > 0 and distance < (1 << (band - 1)) + (cap & ((1 << (band - 1)) - 1)):
        band -= 1
    return band


@kernel
def compress(
    tuples: tuple[Floats, Int64s, Int64s], size: int, cap: int, band: Int64s
) -> tuple[int, int]:
    """Drop tuples that the capacity no longer needs; return where those left begin and end.

    From the highest tuple down, one is dropped along with the run of lower bands before it, if it
    is of no higher band than the tuple above and the gap that is left is within the capacity. What
    is left stands at the end of the arrays; the first and last tuple always stay.

    Dropping old tuples for the sake of young ones would be smaller on most streams, but bands are
    what bounds the size on all of them: see `everquery.kinds.quantile.gk_summary`.

    Parameters
    ----------
    band : int64, scratch, room for `size`
    """
    values, r_minus, r_plus = tuples
    for i in range(size):
        band[i] = band_of(r_plus[i] - r_minus[i], cap)
    kept = size - 1
    i = size - 2
    while i >= 0:
        below = i - 1
        if i > 0 and band[i] <= band[kept]:
            while below > 0 and band[below] < band[i]:
                below -= 1
            if r_plus[kept] - r_minus[below] <= cap:
                i = below
                continue
        kept -= 1
        values[kept], r_minus[kept], r_plus[kept] = values[i], r_minus[i], r_plus[i]
        band[kept] = band[i]
        i -= 1
    return max(kept, 0), size


@part
def nearest(r_minus: Int64s, r_plus: Int64s, begin: int, end: int, rank: float) -> int:
    """Return which tuple of a run surely is nearest to a rank.

    Of all tuples it has the least ``max(rank - r_minus, r_plus - rank)``. The first term falls and
    the second rises along the summary, so a binary search finds where they cross. The first hit of
    Section 2.2 is within epsilon too, but up to twice as far off.
    """
    low, high = begin, end - 1
    while low < high:
        middle = (low + high) >> 1
        if r_plus[middle] - rank >= rank - r_minus[middle]:
            high = middle
        else:
            low = middle + 1
    if low > begin:
        before = max(rank - r_minus[low - 1], r_plus[low - 1] - rank)
        if before <= max(rank - r_minus[low], r_plus[low] - rank):
            low -= 1
    return low


@kernel
def pick_tuples(
    r_minus: Int64s, r_plus: Int64s, ranks: Floats, picked: Int64s
) -> None:  # fmt: skip
    """Write for each rank which tuple surely is nearest to it."""
    for k in range(ranks.size):
        picked[k] = nearest(r_minus, r_plus, 0, r_minus.size, ranks[k])
