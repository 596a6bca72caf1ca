"""Hashes of values, as random numbers that are the same everywhere; and how far luck may go.

Samples and sketches need chance. It comes from the events themselves, by a hash that is fixed: a
replay, a restored engine and both runtimes then have the same luck, and give the same values. What
is said of errors takes the hash for a random function. Who knows it can choose values that mislead
it; exact windows can't be misled.
"""

from __future__ import annotations

import numpy as np

from everquery.core.arrays import Floats, Int64s
from everquery.core.jit import part
from everquery.core.mixing import scramble
from everquery.state.pairs import FREE

NORMAL = 2.5758  # as many standard deviations hold 99 of 100 draws
CERTAIN = 22.1  # ln(4e9): the bounds of an answer fail with a probability below 1e-9
LEAST_SAMPLE = 64
MOST = 1 << 31  # no sample or sketch is larger, however small the error
LEAST_ERROR = 1e-6  # for which it would have to be

_SEED = np.uint64(0x8C61_9F4A_35D7_02EB)
_ODD = np.uint64(0x9E37_79B9_7F4A_7C15)


@part
def hash_of(value: float) -> np.uint64:
    """Return a word for a float; 0.0 and -0.0, which are equal, must be given as 0.0."""
    return scramble(scramble(np.float64(value).view(np.uint64) ^ _SEED) + _ODD)


@part
def word_of(seed: np.uint64, number: int) -> np.uint64:
    """Return one of the random words that belong to a hash."""
    return scramble(seed + np.uint64(number + 1) * _ODD)


@part
def share_of(word: np.uint64) -> float:
    """Return a word as a number above 0 and below 1."""
    return (float(word >> np.uint64(11)) + 0.5) * 2.0**-53


@part
def sample_size(error: float) -> int:
    """Return how large a sample must be to be off by a share in 1 of 100 cases.

    A small one is too low more often than a normal distribution says, and so is a little larger.
    """
    wanted = np.ceil((NORMAL / max(error, LEAST_ERROR)) ** 2 * (1 + error)) + 2
    return int(min(max(wanted, LEAST_SAMPLE), MOST))


@part
def reach(n: float) -> tuple[float, float]:
    """Return between which shares of it a count of `n` rare things may stand, but for luck.

    Chernoff's bound: a count with the expectation ``r * n`` is as far off as `n` with a probability
    below ``exp(-n * (r - 1 - ln r))``. Half of the mean of squares of a sketch has the same bound
    above it.
    """
    most = CERTAIN / n
    low, high = 0.0, 1.0
    for _ in range(60):
        r = (low + high) / 2
        if r > 0 and r - 1 - np.log(r) <= most:
            high = r
        else:
            low = r
    least = low
    low, high = 1.0, 2.0 + 2 * most
    for _ in range(60):
        r = (low + high) / 2
        if r - 1 - np.log(r) <= most:
            low = r
        else:
            high = r
    return least, high


@part
def new_table(n: int) -> Int64s:
    """Return an empty table with room for so many numbers, which stand in an array elsewhere."""
    size = 16
    while size < 2 * n:
        size *= 2
    return np.full(size, FREE, np.int64)


@part
def find_number(number: float, table: Int64s, numbers: Floats) -> int:
    """Return where in a table a number stands, or would."""
    mask = table.size - 1
    place = int(hash_of(number) >> np.uint64(32)) & mask
    while table[place] != FREE and numbers[table[place]] != number:
        place = (place + 1) & mask
    return place
