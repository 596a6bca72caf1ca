"""How sketches are merged into larger ones, and what the l2 norm of a window is by them.

What they are, and why the bounds hold, is said in `sketch_parts.py`.
"""

from __future__ import annotations

import numpy as np

from everquery.core.arrays import Array, Floats, Int64s
from everquery.core.jit import kernel
from everquery.kinds.window.chances import CERTAIN, LEAST_SAMPLE, new_table, reach
from everquery.kinds.window.norms import norm
from everquery.kinds.window.samples import close_up
from everquery.kinds.window.sketch_parts import (
    EVENTS,
    HEAD,
    LENGTH,
    PLACE,
    SLACK,
    SUM,
    add_sketch,
    add_to_sketch,
    bucket_share,
    counters_of,
    events_of,
    is_any_sketch,
    is_bucket,
    is_sketch,
    length_of,
    place_of,
    rows_of,
    sketch_of,
    square_of,
    vector_of,
)


@kernel
def first_of_bucket(
    counters: int, most: float, most_events: float, total: Floats, at: Int64s, last: int
) -> int:
    """Return with which part a bucket would begin that ends with a given one.

    It may have a length, and a number of events, of at most so much. Cost: an entry of a vector is
    looked up in a table, or added to a sketch.
    """
    events = events_of(total, at[last])
    square = length_of(total, at[last]) ** 2
    first = last
    room = 0
    table, places, sums = new_table(0), np.empty(0), np.empty(0)
    sketch = np.empty(0)
    n = 0
    added = last + 1  # parts from here to the last are in the vector
    while first > 0:
        older = at[first - 1]
        events += events_of(total, older)
        # The square of a sum of two vectors of sizes is at least the sum of their squares.
        if events > most_events or square + length_of(total, older) ** 2 > most * most:
            break
        if room == 0:
            room = min(counters, at[last] + rows_of(total, at[last]) - at[0])
            table, places, sums = new_table(room), np.empty(room), np.empty(room)
            square = 0.0
        while added >= first:
            added -= 1
            if is_sketch(total, at[added], counters):
                if sketch.size == 0:
                    sketch = sketch_of(counters, places, sums, n)
                add_sketch(sketch, total, at[added], 1.0, 1.0)
                continue
            begin, end = vector_of(total, at[added])
            for entry in range(begin, end):
                size = abs(total[entry, SUM])
                if sketch.size:
                    add_to_sketch(sketch, size, total[entry, PLACE])
                else:
                    i, n = place_of(total[entry, PLACE], table, places, sums, n)
                    square += size * (2 * sums[i] + size)
                    sums[i] += size
        if sketch.size == 0 and 2 * n >= counters:
            sketch = sketch_of(counters, places, sums, n)
        if sketch.size:
            square = square_of(sketch)
        if square > most * most:
            break
        first -= 1
    return first


@kernel
def bucket_of(
    counters: int, total: Floats, at: Int64s, first: int, last: int
) -> tuple[Floats, bool]:
    """Return a bucket of some parts, as the numbers of its entries; and whether it is a sketch."""
    rows = at[last] + rows_of(total, at[last]) - at[first]
    table, places = new_table(rows), np.empty(rows)
    above, below = np.empty(rows), np.zeros(rows)
    n = 0
    events = 0.0
    sketched = False
    signed = False
    for one in range(first, last + 1):
        row = at[one]
        events += events_of(total, row)
        if is_sketch(total, row, counters):
            sketched = True
            signed = signed or int(total[row, SUM]) > counters >> 1
            continue
        begin, end = vector_of(total, row)
        for entry in range(begin, end):
            value = total[entry, SUM]
            i, n = place_of(total[entry, PLACE], table, places, above, n)
            above[i] += max(value, 0.0)
            below[i] += max(-value, 0.0)
            signed = signed or value < 0
    size = 0
    for i in range(n):
        size += int(above[i] > 0 or below[i] == 0) + int(below[i] > 0)
    half = counters >> 1
    if sketched or size >= half:
        upper = sketch_of(counters, places, above, n)
        lower = sketch_of(counters, places, below, n if signed else 0)
        for one in range(first, last + 1):
            if is_sketch(total, at[one], counters):
                add_sketch(upper, total, at[one], 1.0, 0.0)
                add_sketch(lower, total, at[one], 0.0, 1.0)
        size = counters if signed else half
        found = np.empty(2 * (HEAD + size))
        for i in range(counters):
            found[2 * HEAD + i] = upper[i]
            if signed:
                found[2 * HEAD + counters + i] = lower[i]
            upper[i] += lower[i]
        square = square_of(upper)
        sketched = True
    else:
        found = np.empty(2 * (HEAD + size))
        entry = 2 * HEAD
        square = 0.0
        for i in range(n):
            square += (above[i] + below[i]) ** 2
            if above[i] > 0 or below[i] == 0:
                found[entry], found[entry + 1] = above[i], places[i]
                entry += 2
            if below[i] > 0:
                found[entry], found[entry + 1] = -below[i], places[i]
                entry += 2
    found[0], found[1] = size, np.nan
    found[2], found[3] = events, np.sqrt(square)
    return found, sketched


@kernel
def settle_sketches(error: float, mark: Array, total: Floats, start: int, used: int) -> int:
    """Make buckets of the parts of a lane, newest first, as large as the error allows.

    Returns how many entries are left. Cost: two looks into tables an entry of a vector.
    """
    counters, share = counters_of(error), bucket_share(error)
    at = np.empty(used, np.int64)
    parts = 0
    row = start
    while row < start + used:
        at[parts] = row
        parts += 1
        row += rows_of(total, row)
    # All that is newer: its sizes by place, and a sketch of those that are sketches already. The
    # square of both together is at least the sum of both.
    table, places, sums = new_table(used), np.empty(used), np.empty(used)
    n = 0
    certain = 1 - 2 * np.sqrt(2 / counters)  # two standard deviations less
    newer = np.zeros(counters if is_any_sketch(total, at, parts, counters) else 0)
    events = square = 0.0
    kept = start + used
    last = parts - 1
    while last >= 0:
        most = share * np.sqrt(square + certain * square_of(newer))
        # The newest events stay as they are, so that a window of few is exact.
        most_events = 1 + share * (events + 1) if events >= LEAST_SAMPLE else 1.0
        first = first_of_bucket(counters, most, most_events, total, at, last)
        begin, end = at[first], at[last] + rows_of(total, at[last])
        newest = mark[end - 1]
        if first < last:
            bucket, sketched = bucket_of(counters, total, at, first, last)
            size = bucket.size >> 1
            if size < end - begin:
                # Its entries have been read, so their places are free.
                begin = end - size
                for i in range(size):
                    mark[begin + i] = newest
                    total[begin + i, 0], total[begin + i, 1] = bucket[2 * i], bucket[2 * i + 1]
                if sketched and newer.size == 0:
                    newer = np.zeros(counters)
        row = begin
        while row < end:
            rows = rows_of(total, row)
            events += events_of(total, row)
            if is_sketch(total, row, counters):
                add_sketch(newer, total, row, 1.0, 1.0)
            else:
                entry, stop = vector_of(total, row)
                while entry < stop:
                    size_here = abs(total[entry, SUM])
                    i, n = place_of(total[entry, PLACE], table, places, sums, n)
                    square += size_here * (2 * sums[i] + size_here)
                    sums[i] += size_here
                    entry += 1
            row += rows
        for row in range(end - 1, begin - 1, -1):
            kept -= 1
            mark[kept] = mark[row]
            total[kept, 0], total[kept, 1] = total[row, 0], total[row, 1]
        last = first - 1
    return close_up(mark, total, start, kept - start, used)


@kernel
def sketched_norm(
    error: float, total: Floats, begin: int, end: int
) -> tuple[float, float, float, int]:
    """Return the l2 norm of a window, its bounds, and of about how many events.

    The bounds of a sketch: its mean of squares is too large with no higher probability than that
    of a chi-squared variable (the moments of a sum with random signs are at most those of a normal
    one), and too small with one below ``exp(-counters * t**2 / 6)`` (Maurer's inequality).
    """
    buckets = 0
    counters = counters_of(error)
    sketch = np.empty(0)
    events = 0.0
    row = begin
    while row < end:
        if is_bucket(total, row):
            buckets += 1
            if sketch.size == 0 and is_sketch(total, row, counters):
                sketch = np.zeros(counters)
        events += events_of(total, row)
        row += rows_of(total, row)
    if buckets == 0:
        value = norm(2, total, begin, end)
        return value, value, value, end - begin
    table, places, sums = new_table(end - begin), np.empty(end - begin), np.empty(end - begin)
    n = 0
    sizes = 0.0
    row = begin
    while row < end:
        share = 0.5 if row == begin and is_bucket(total, row) else 1.0
        if is_sketch(total, row, counters):
            add_sketch(sketch, total, row, share, -share)
        else:
            entry, stop = vector_of(total, row)
            while entry < stop:
                i, n = place_of(total[entry, PLACE], table, places, sums, n)
                sums[i] += share * total[entry, SUM]
                sizes += abs(total[entry, SUM])
                entry += 1
        row += rows_of(total, row)
    off = 0.0  # of the oldest bucket
    if is_bucket(total, begin):
        off = total[begin + 1, LENGTH] / 2
        events -= (total[begin + 1, EVENTS] - 1) / 2
    if sketch.size == 0:
        square = 0.0
        for i in range(n):
            square += sums[i] * sums[i]
        value = float(np.sqrt(square))
        off += SLACK * (events + 64) * sizes
        return value, max(value - off, 0.0), value + off, int(events)
    for i in range(n):
        add_to_sketch(sketch, sums[i], places[i])
    value = float(np.sqrt(square_of(sketch)))
    _, most = reach(counters / 2)
    least = np.sqrt(1 - np.sqrt(6 * CERTAIN / counters))
    if is_sketch(total, begin, counters):
        off /= least
    return value, max(value / np.sqrt(most) - off, 0.0), value / least + off, int(events)
