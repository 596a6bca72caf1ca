"""What the blocks of a lane say together: the reference, and the answer, with bounds.

A lane of all events has one block. One of a window has several, each of a stretch of it. Blocks
that the window has left go as a whole. Of the oldest one left, some events may be out already:
nobody knows which, so bounds allow for any.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from everquery.core.arrays import Array, Floats
from everquery.core.jit import callee
from everquery.kinds.correlated.cuts import AVG, COUNT, MAX, MEAN, MIN, WITHIN, cuts, ordered
from everquery.kinds.correlated.histograms import (
    FIRST_MARK,
    LAST_MARK,
    LEAST_MARK,
    MOST_MARK,
    X_LEAST,
    X_MOST,
    X_REST,
    X_SIZE,
    X_SPREAD,
    X_SUM,
    Y_ABOVE,
    Y_BELOW,
    Y_LEAST,
    Y_MOST,
    N,
    up_to,
)

PIECES = 8  # of a window: it has one block more, because it begins and ends within one
DOUBLE_ERROR = 2.0**-100  # of a sum in twice the precision, a number added
SINGLE_ERROR = 2.0**-52
ERRORS = 2.0  # standard errors of an average to each side that its edges are for
LARGEST = 1e307  # sums up to here are far from overflowing


class Ring(NamedTuple):
    """Where the blocks of a lane are.

    Attributes
    ----------
    start, size : int
        Where its first place is, and how many numbers a block takes.
    places : int
        How many blocks there is room for.
    first, blocks : int
        The oldest block, and how many there are.
    edges, measures : int
    """

    start: int
    size: int
    places: int
    first: int
    blocks: int
    edges: int
    measures: int


class Extent(NamedTuple):
    """How far a lane has come.

    Attributes
    ----------
    now : like marks
    length : like marks
        0 for all events.
    timed : bool
        Whether marks are times, and not numbers of rows.
    """

    now: float
    length: float
    timed: bool


class Reference(NamedTuple):
    """The MIN, MAX or AVG of x.

    Attributes
    ----------
    low, high, guess : float
        Bounds and an estimate.
    n, n_low, n_high : float
        How many events there are: an estimate, and bounds.
    """

    low: float
    high: float
    guess: float
    n: float
    n_low: float
    n_high: float


@callee
def is_out(mark: float, now: float, length: float) -> bool:
    """Tell whether a window has left a mark behind; differences beyond 64 bits are below 0."""
    return length > 0 and (now - mark >= length or now - mark < 0)


@callee
def left_of_block(
    pool: Floats, marks: Array, at: int, window: Extent
) -> tuple[float, float, float]:
    """Return how many events of a block are in the window: bounds and an estimate."""
    n = pool[at + N]
    if not is_out(marks[at + FIRST_MARK], window.now, window.length):
        return n, n, n
    if not window.timed:
        left = float(window.length - (window.now - marks[at + LAST_MARK]))
        return left, left, left
    begin = float(window.now - marks[at + FIRST_MARK])
    end = float(window.now - marks[at + LAST_MARK])
    share = 0.5
    if begin > end:
        share = (float(window.length) - end) / (begin - end)
    return 1.0, n - 1, min(max(np.floor(n * share), 1.0), n - 1)


@callee
def reference_of(pool: Floats, marks: Array, ring: Ring, window: Extent, to: int) -> Reference:
    """Return the MIN, MAX or AVG of x over a lane. Cost: a look at each block."""
    n = n_low = n_high = 0.0
    low = high = guess = np.inf if to == MIN else -np.inf
    total = rest = size = 0.0  # of x, in whole blocks
    cut = -1  # the block that some events are out of
    left_of_cut = 0.0
    for i in range(ring.blocks):
        at = ring.start + (ring.first + i) % ring.places * ring.size
        least, most, left = left_of_block(pool, marks, at, window)
        n += left
        n_low += least
        n_high += most
        whole = least == pool[at + N]
        if not whole:
            cut = at
            left_of_cut = left
        if to == MIN:
            alive = whole or not is_out(marks[at + LEAST_MARK], window.now, window.length)
            low = min(low, pool[at + X_LEAST])
            high = min(high, pool[at + X_LEAST] if alive else pool[at + X_MOST])
            guess = min(guess, pool[at + X_LEAST]) if alive else guess
        elif to == MAX:
            alive = whole or not is_out(marks[at + MOST_MARK], window.now, window.length)
            high = max(high, pool[at + X_MOST])
            low = max(low, pool[at + X_MOST] if alive else pool[at + X_LEAST])
            guess = max(guess, pool[at + X_MOST]) if alive else guess
        elif whole:
            added = total + pool[at + X_SUM]
            back = added - total
            rest += (total - (added - back)) + (pool[at + X_SUM] - back) + pool[at + X_REST]
            total = added
            size += pool[at + X_SIZE]
    if to != MEAN:
        return Reference(low, high, min(max(guess, low), high), n, n_low, n_high)
    if not size < LARGEST or (cut >= 0 and not pool[cut + X_SIZE] < LARGEST):
        return Reference(-np.inf, np.inf, 0.0, n, n_low, n_high)
    if cut < 0:
        slack = DOUBLE_ERROR * (n + 16) * size
        low, high = (total + (rest - slack)) / n, (total + (rest + slack)) / n
        return Reference(low, high, (total + rest) / n, n, n_low, n_high)
    inside = n - left_of_cut
    low, high = np.inf, -np.inf
    for turn in range(2):
        left = (n_low if turn == 0 else n_high) - inside
        least, most = left * pool[cut + X_LEAST], left * pool[cut + X_MOST]
        if n_low == n_high:
            out = pool[cut + N] - left
            least = max(least, pool[cut + X_SUM] - out * pool[cut + X_MOST])
            most = min(most, pool[cut + X_SUM] - out * pool[cut + X_LEAST])
        low = min(low, (total + least) / (inside + left))
        high = max(high, (total + most) / (inside + left))
    slack = SINGLE_ERROR * 64 * (size + pool[cut + X_SIZE]) / n_low
    slack += SINGLE_ERROR * 64 * max(abs(pool[cut + X_LEAST]), abs(pool[cut + X_MOST]))
    guess = (total + pool[cut + X_SUM] * ((n - inside) / pool[cut + N])) / n
    low, high = low - slack, high + slack
    return Reference(low, high, min(max(guess, low), high), n, n_low, n_high)


@callee
def cut_bounds(
    compared: int, factor: float, reference: Reference
) -> tuple[float, float, float, float, float, float]:
    """Return the least, largest and likely place of each end of what a query picks."""
    begin, end = cuts(compared, factor, reference.guess)
    if reference.low == reference.high:
        return begin, begin, begin, end, end, end
    begin_0, end_0 = cuts(compared, factor, reference.low)
    begin_1, end_1 = cuts(compared, factor, reference.high)
    begin_0, begin_1 = ordered(begin_0, begin_1)
    end_0, end_1 = ordered(end_0, end_1)
    if compared == WITHIN:
        if reference.low < 0 < reference.high:
            middle, around = cuts(compared, factor, 0.0)
            begin_0 = ordered(begin_0, middle)[0]
            begin_1 = ordered(begin_1, middle)[1]
            end_0 = ordered(end_0, around)[0]
            end_1 = ordered(end_1, around)[1]
        # The difference and the sum are rounded, so they need not rise with the reference.
        slack = 8 * SINGLE_ERROR * max(abs(reference.low), abs(reference.high)) * (1 + factor)
        if slack < np.inf:
            begin_0, begin_1 = begin_0 - slack, begin_1 + slack
            end_0, end_1 = end_0 - slack, end_1 + slack
        else:
            begin_0 = end_0 = np.nan
            begin_1 = end_1 = np.inf
    return begin_0, begin_1, begin, end_0, end_1, end


@callee
def picked(
    pool: Floats,
    marks: Array,
    ring: Ring,
    window: Extent,
    measure: int,
    ends: tuple[float, float, float, float, float, float],
) -> tuple[float, float, float]:
    """Return how much of a measure a query picks: bounds and an estimate."""
    begin_0, begin_1, begin, end_0, end_1, end = ends
    low = high = guess = 0.0
    for i in range(ring.blocks):
        at = ring.start + (ring.first + i) % ring.places * ring.size
        least = up_to(pool, at, ring.edges, measure, end_0)[0]
        least -= up_to(pool, at, ring.edges, measure, begin_1)[1]
        most = up_to(pool, at, ring.edges, measure, end_1)[1]
        most -= up_to(pool, at, ring.edges, measure, begin_0)[0]
        likely = up_to(pool, at, ring.edges, measure, end)[2]
        likely -= up_to(pool, at, ring.edges, measure, begin)[2]
        n = pool[at + N]
        left_low, left_high, left = left_of_block(pool, marks, at, window)
        if left_low < n:
            least = least - (n - left_low) if measure == 0 else 0.0
            most = min(most, left_high) if measure == 0 else most
            likely *= left / n
        low += max(least, 0.0)
        high += max(most, 0.0)
        guess += max(likely, 0.0)
    return low, high, min(max(guess, low), high)


@callee
def y_bounds(pool: Floats, ring: Ring) -> tuple[float, float, float, float]:
    """Return the least and largest y of a lane's blocks, and y above 0 and below 0 in all."""
    least, most = np.inf, -np.inf
    above = below = 0.0
    for i in range(ring.blocks):
        at = ring.start + (ring.first + i) % ring.places * ring.size
        least = min(least, pool[at + Y_LEAST])
        most = max(most, pool[at + Y_MOST])
        above += pool[at + Y_ABOVE]
        below += pool[at + Y_BELOW]
    return least, most, above, below


@callee
def estimate(
    pool: Floats,
    marks: Array,
    ring: Ring,
    window: Extent,
    reference: Reference,
    aggregate: int,
    compared: int,
    factor: float,
) -> tuple[float, float, float]:
    """Return the answer to a query with bounds; NaN for the average of nothing."""
    ends = cut_bounds(compared, factor, reference)
    low = high = guess = 0.0
    above_low = above_high = above_guess = 0.0
    below_low = below_high = below_guess = 0.0
    for measure in range(ring.measures):
        found_low, found_high, found_guess = picked(pool, marks, ring, window, measure, ends)
        if measure == 0:
            low, high, guess = found_low, found_high, found_guess
            if aggregate == COUNT:
                return np.rint(guess), low, high
        elif measure == 1:
            above_low, above_high, above_guess = found_low, found_high, found_guess
        else:
            below_low, below_high, below_guess = found_low, found_high, found_guess
    least, most, above, below = y_bounds(pool, ring)
    slack = SINGLE_ERROR * (reference.n_high + 64) * (above + below)
    if high == 0:
        value = 0.0 if aggregate != AVG else np.nan
        return value, value, value
    if not slack < LARGEST:
        return np.nan, -np.inf, np.inf
    sum_low, sum_high = above_low - below_high - slack, above_high - below_low + slack
    if aggregate != AVG:
        value = min(max(above_guess - below_guess, sum_low), sum_high)
        return value, sum_low, sum_high
    few = max(low, 1.0)
    slack = SINGLE_ERROR * (reference.n_high + 64) * max(abs(least), abs(most))
    low = max(sum_low / (high if sum_low >= 0 else few), least) - slack
    high = min(sum_high / (few if sum_high >= 0 else high), most) + slack
    value = (low + high) / 2
    if guess > 0:
        value = min(max((above_guess - below_guess) / guess, low), high)
    return value, low, high


@callee
def region_of(
    pool: Floats,
    marks: Array,
    ring: Ring,
    window: Extent,
    to: int,
    factor: float,
    around: bool,
) -> tuple[float, float]:
    """Return where the cuts of a lane's queries may be next: the region that edges are for.

    Of an extreme, between the cut and the end that it moves to (section 3.1.2); in a window, the
    cut of the least extreme of a block (4.1.2). Of an average, some standard errors to both sides
    (3.1.3).
    """
    reference = reference_of(pool, marks, ring, window, to)
    a = reference.guess
    least, most = np.inf, -np.inf
    far = a
    spread = 0.0
    for i in range(ring.blocks):
        at = ring.start + (ring.first + i) % ring.places * ring.size
        least = min(least, pool[at + X_LEAST])
        most = max(most, pool[at + X_MOST])
        spread += pool[at + X_SPREAD]
        if to == MIN:
            far = max(far, pool[at + X_LEAST])
        elif to == MAX:
            far = min(far, pool[at + X_MOST])
    if not (abs(a) < np.inf and abs(far) < np.inf and abs(factor * a) < np.inf):
        return 0.0, 0.0
    if to != MEAN:
        if around:
            return a - factor * abs(a), far + factor * abs(far)
        cut, other = factor * a, factor * far
        if (to == MIN) == (factor > 0):
            return least, max(cut, other)
        return min(cut, other), most
    error = ERRORS * np.sqrt(spread / reference.n) / np.sqrt(reference.n)
    if around:
        away = factor * abs(a)
        return a - away - error, a + away + error
    error *= abs(factor)
    return factor * a - error, factor * a + error
