"""The statistics that windows have, and what has to be kept of their events."""

from __future__ import annotations

# Statistics, by their place in the spec's list, from 1 on.
COUNT, SUM, MEAN, VARIANCE, MIN, MAX, DISTINCT, L1, L2 = range(1, 10)

# Families: what is kept of the events in a window. Statistics of one family share it. Exact norms
# share vectors; approximate ones have sizes (l1) and lengths (l2).
COUNTS, SUMS, SQUARES, MINIMA, MAXIMA, VALUES, VECTORS, SIZES, LENGTHS = range(9)

FAMILY = {
    COUNT: COUNTS,
    SUM: SUMS,
    MEAN: SUMS,
    VARIANCE: SQUARES,
    MIN: MINIMA,
    MAX: MAXIMA,
    DISTINCT: VALUES,
    L1: VECTORS,
    L2: VECTORS,
}

# Layouts: what an entry of a lane is. Exact lanes of a family have a layout of the same number.
# Approximate ones have samples of values or of events, sketches, or buckets.
VALUE_SAMPLES, EVENT_SAMPLES, SKETCHES, COUNT_BUCKETS, SUM_BUCKETS = range(7, 12)

MEASURES = (1, 3, 3, 1, 1, 1, 2, 1, 4, 2, 1, 3)
"""How many numbers an entry has, by layout. Of the first three families they are totals of all
events up to it: events; events, values above 0 and below 0; events, values and their squares, both
counted from the lane's first value. Of the next four they are what the event brought: its value,
and of vectors the place in the vector. Samples and sketches begin with the same, and have what
`samples.py` and `sketches.py` say. Of buckets they are the totals of the bucket's own events, as of
counts and sums; without the last one as long as no value is below 0."""

RESTS = (0, 2, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0)
"""How many of these, but for the first, also have what they round off: the totals of values."""

LARGEST = 1e140
"""Larger values have no place in a sum: a few squares of them would be beyond float64."""

UNCOUNTED = -1  # how many events a value is of, where nobody knows


APPROXIMATE = {
    COUNTS: COUNT_BUCKETS,
    SUMS: SUM_BUCKETS,
    VALUES: VALUE_SAMPLES,
    SIZES: EVENT_SAMPLES,
    LENGTHS: SKETCHES,
}
"""The layouts of approximate lanes, where these differ from exact ones."""


def family_of(statistic: int, *, exact: bool, positive: bool) -> int:
    """Return what is kept for a statistic; `positive` if its values can't be below 0.

    The sizes of sums of such values add up to the plain sum, whose bounds are those of a histogram.
    """
    if exact or statistic < L1:
        return FAMILY[statistic]
    if statistic == L1:
        return SUMS if positive else SIZES
    return LENGTHS


def layout_of(family: int, *, exact: bool) -> int:
    """Return what entries are in lanes of a family."""
    return family if exact else APPROXIMATE.get(family, family)
