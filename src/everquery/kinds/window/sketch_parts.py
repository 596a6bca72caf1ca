"""l2 norms within an error: a histogram whose buckets are vectors, or sketches of them.

A lane is a list of parts, oldest first. A part is an event (an entry: its value, and its place in
the vector), or a bucket of several. A bucket is two entries with its numbers, and then its vector:

    (entries of the vector, NaN), (events, length), vector

All of them have the mark of the bucket's newest event. The vector has an entry (sum, place) for
each place with values above 0, and one for each with values below 0. Where that would be as many
entries as half of the counters of a sketch, it is a sketch instead, of two counters an entry; where
there are values below 0, a second one follows with these. A counter is the sum of the vector, each
place with a sign by chance: the mean of the counters' squares is about the square of the vector's
length, and counters of buckets add up (Alon, Matias and Szegedy; paper:
sliding-window-statistics, section 5, with a stable distribution of two values).

What a window may hold of its oldest bucket, x, is between nothing and all of it, place by place. So
it is half of the bucket, and off by at most half of the length of the bucket's sizes. A bucket is
made only if that length is at most a share of that of all newer sizes (`bucket_share`), and then
stays so, for the latter only grows. Half of the error is for that, the other half for the sketch.
(The paper's invariants compare squares, and allow a factor of two; lengths need more buckets, and
give any error.) A bucket that takes no less room than its events is not made.
"""

from __future__ import annotations

import numpy as np

from everquery.core.arrays import Array, Floats, Int64s
from everquery.core.jit import kernel, part
from everquery.kinds.window.chances import LEAST_ERROR, MOST, NORMAL, find_number, hash_of, word_of
from everquery.state.pairs import FREE

LEAST_COUNTERS = 512
SLACK = 2.0**-52  # more than what rounding can come to, as a share of sizes, for each event

SUM, PLACE = range(2)  # numbers of an entry
EVENTS, LENGTH = range(2)  # numbers of a bucket's second entry
HEAD = 2  # entries of a bucket before its vector


@part
def counters_of(error: float) -> int:
    """Return how many counters a sketch has, so that it is off by half of the error.

    Its standard deviation, as a share of the length, is ``1 / sqrt(2 * counters)``.
    """
    wanted = 64 * np.ceil(2 * (NORMAL / max(error, LEAST_ERROR)) ** 2 / 64)
    return int(min(max(wanted, LEAST_COUNTERS), MOST))


@part
def bucket_share(error: float) -> float:
    """Return how long a bucket may be, as a share of all that is newer.

    The sketch takes half of the error, or less, where it has more counters than it needs; half of
    the bucket's length takes the rest.
    """
    return float(max(2 * (error - NORMAL / np.sqrt(2 * counters_of(error))), 0.0))


@part
def is_bucket(total: Floats, row: int) -> bool:
    """Tell whether a part is a bucket, and not an event."""
    return bool(total[row, PLACE] != total[row, PLACE])


@part
def rows_of(total: Floats, row: int) -> int:
    """Return how many entries a part has."""
    return HEAD + int(total[row, SUM]) if is_bucket(total, row) else 1


@part
def events_of(total: Floats, row: int) -> float:
    """Return how many events a part is of."""
    return float(total[row + 1, EVENTS]) if is_bucket(total, row) else 1.0


@part
def length_of(total: Floats, row: int) -> float:
    """Return the length of the vector of a part's sizes."""
    return float(total[row + 1, LENGTH]) if is_bucket(total, row) else abs(total[row, SUM])


@part
def is_sketch(total: Floats, row: int, counters: int) -> bool:
    """Tell whether a part is a bucket with a sketch."""
    return is_bucket(total, row) and 2 * int(total[row, SUM]) >= counters


@part
def vector_of(total: Floats, row: int) -> tuple[int, int]:
    """Return where the entries of a part's vector, which is no sketch, begin and end."""
    if is_bucket(total, row):
        return row + HEAD, row + HEAD + int(total[row, SUM])
    return row, row + 1


@part
def place_of(place: float, table: Int64s, places: Floats, sums: Floats, n: int) -> tuple[int, int]:
    """Return where a place's sum stands, 0 if it is a new one, and how many places there are."""
    found = find_number(place, table, places)
    if table[found] == FREE:
        table[found] = n
        places[n], sums[n] = place, 0.0
        n += 1
    return table[found], n


@part
def add_to_sketch(sketch: Floats, value: float, place: float) -> None:
    """Add a value at a place to all counters, with the signs of the place: 64 in each word."""
    seed = hash_of(place)
    for word in range(sketch.size >> 6):
        signs = word_of(seed, word)
        for i in range(64):
            up = (signs >> np.uint64(i)) & np.uint64(1)
            sketch[64 * word + i] += value if up else -value


@part
def add_sketch(sketch: Floats, total: Floats, row: int, share: float, below_share: float) -> None:
    """Add shares of both sketches of a bucket, of values above 0 and of those below, if any."""
    half = sketch.size >> 1
    for i in range(half):
        sketch[2 * i] += share * total[row + HEAD + i, 0]
        sketch[2 * i + 1] += share * total[row + HEAD + i, 1]
    if int(total[row, SUM]) > half:
        for i in range(half):
            sketch[2 * i] += below_share * total[row + HEAD + half + i, 0]
            sketch[2 * i + 1] += below_share * total[row + HEAD + half + i, 1]


@kernel
def sketch_of(counters: int, places: Floats, sums: Floats, n: int) -> Floats:
    """Return the sketch of a vector."""
    sketch = np.zeros(counters)
    for i in range(n):
        add_to_sketch(sketch, sums[i], places[i])
    return sketch


@part
def square_of(sketch: Floats) -> float:
    """Return the square of the length that a sketch stands for."""
    square = 0.0
    for i in range(sketch.size):
        square += sketch[i] * sketch[i]
    return square / max(sketch.size, 1)


@part
def is_any_sketch(total: Floats, at: Int64s, parts: int, counters: int) -> bool:
    """Tell whether any part is a sketch."""
    for one in range(parts):
        if is_sketch(total, at[one], counters):
            return True
    return False


@kernel
def bad_part(counters: Int64s, used: Int64s, mark: Array, total: Floats) -> int:
    """Return the first entry of saved lanes that can't be where it is, or -1.

    Parameters
    ----------
    counters, used : of each lane, how many counters its sketches have, and how many entries it has
    """
    start = 0
    for lane in range(used.size):
        end = start + used[lane]
        half = counters[lane] >> 1
        row = start
        while row < end:
            if total[row, SUM] != total[row, SUM]:
                return row
            rows = 1
            if is_bucket(total, row):
                size = total[row, SUM]
                fits = 1 <= size <= end - row - HEAD and size == np.floor(size)
                if not fits or (size > half and size != 2 * half):
                    return row
                rows = HEAD + int(size)
                if not (total[row + 1, EVENTS] >= 1 and total[row + 1, LENGTH] >= 0):
                    return row + 1
            for inner in range(row + 1, row + rows):
                if mark[inner] != mark[row]:
                    return inner
                for number in range(2):
                    if total[inner, number] != total[inner, number]:
                        return inner
            row += rows
        start = end
    return -1
