"""Focused histograms: how much of x lies up to some edges, with bounds, where it matters.

A block has a few edges. Of each it knows how many events lie up to it, and how much their y add up
to: a lower bound, an upper bound and an estimate. Events count exactly at all edges that exist when
they come. A new edge begins with what its neighbours allow, so bounds widen where edges move, and
hold always. Edges are moved as the paper's piecemeal reallocation with uniform partitioning does:
those outside the region of interest go, and the widest gaps inside are split.

Paper: correlated-aggregates, sections 3.1 and 4.1.
"""

from __future__ import annotations

import numpy as np

from everquery.core.arrays import Array, Floats
from everquery.core.jit import callee

# Places in the head of a block.
N, X_LEAST, X_MOST, LEAST_MARK, MOST_MARK, X_SUM, X_REST, X_SIZE, X_MEAN, X_SPREAD = range(10)
Y_ABOVE, Y_BELOW, Y_LEAST, Y_MOST, FIRST_MARK, LAST_MARK, EDGES, SPARSE, FOCUSED, CENTRE = range(
    10, 20
)
HALF, HEAD = 20, 21
FEW = 4  # with fewer edges, none is spared outside the region


@callee
def begin_block(pool: Floats, at: int) -> None:
    """Make a block empty."""
    for i in range(HEAD):
        pool[at + i] = 0.0
    pool[at + X_LEAST] = pool[at + Y_LEAST] = np.inf
    pool[at + X_MOST] = pool[at + Y_MOST] = -np.inf
    pool[at + SPARSE] = 1.0  # every value so far is an edge


@callee
def edges_up_to(pool: Floats, at: int, value: float) -> int:
    """Return how many edges of a block are at most a value."""
    begin = 0
    end = int(pool[at + EDGES])
    while begin < end:
        middle = (begin + end) >> 1
        if pool[at + HEAD + middle] <= value:
            begin = middle + 1
        else:
            end = middle
    return begin


@callee
def up_to(
    pool: Floats, at: int, edges: int, measure: int, value: float
) -> tuple[float, float, float]:
    """Return bounds and an estimate of how much of a block lies up to a value; NaN is below all."""
    if not pool[at + X_LEAST] <= value:
        return 0.0, 0.0, 0.0
    total = pool[at + (N if measure == 0 else Y_ABOVE - 1 + measure)]
    if pool[at + X_MOST] <= value:
        return total, total, total
    below = edges_up_to(pool, at, value)
    low = high = guess = 0.0
    left = pool[at + X_LEAST]
    figures = at + HEAD + edges * (1 + 3 * measure) + below  # of the next edge
    if below > 0:
        left = pool[at + HEAD + below - 1]
        low = pool[figures - 1]
        high = pool[figures + edges - 1]
        guess = pool[figures + 2 * edges - 1]
        if left == value or pool[at + SPARSE] == 1.0:
            return low, high, guess
    elif measure == 0:
        low = 1.0  # the least value
    right = pool[at + X_MOST]
    high = total - 1 if measure == 0 else total
    next_guess = total
    if below < int(pool[at + EDGES]) and pool[at + HEAD + below] <= right:
        right = pool[at + HEAD + below]
        high = min(high, pool[figures + edges])
        next_guess = pool[figures + 2 * edges]
    share = 0.5
    if right - left < np.inf:
        share = (value - left) / (right - left)
    guess = min(max(guess + share * (next_guess - guess), low), high)
    return low, high, guess


@callee
def put_edge(pool: Floats, at: int, edges: int, measures: int, value: float) -> None:
    """Make a value an edge, with what its neighbours allow; there is room, and it is none yet."""
    used = int(pool[at + EDGES])
    place = edges_up_to(pool, at, value)
    for measure in range(measures):
        low, high, guess = up_to(pool, at, edges, measure, value)
        first = at + HEAD + edges * (1 + 3 * measure)
        for column in range(first, first + 3 * edges, edges):
            for i in range(used, place, -1):
                pool[column + i] = pool[column + i - 1]
        pool[first + place] = low
        pool[first + edges + place] = high
        pool[first + 2 * edges + place] = guess
    for i in range(used, place, -1):
        pool[at + HEAD + i] = pool[at + HEAD + i - 1]
    pool[at + HEAD + place] = value
    pool[at + EDGES] = used + 1


@callee
def drop_edge(pool: Floats, at: int, edges: int, measures: int, place: int) -> None:
    """Give up an edge: what lies on both sides of it is one bucket."""
    used = int(pool[at + EDGES])
    for column in range(1 + 3 * measures):
        first = at + HEAD + edges * column
        for i in range(place, used - 1):
            pool[first + i] = pool[first + i + 1]
    pool[at + EDGES] = used - 1


@callee
def end_of_gap(pool: Floats, at: int, place: int, low: float, high: float) -> float:
    """Return an edge, or the end of the region before the first or behind the last."""
    if place < 0:
        return low
    return float(pool[at + HEAD + place]) if place < int(pool[at + EDGES]) else high


@callee
def focus(pool: Floats, at: int, edges: int, measures: int, low: float, high: float) -> None:
    """Move edges into a region, about evenly, and only as far as need be.

    Cost: the square of the number of edges.
    """
    if not (high - low < np.inf and low < high):
        return
    # Of the edges outside, the nearest stay: the region may have been left for good.
    place = int(pool[at + EDGES]) - 1
    while place >= 0:
        value = pool[at + HEAD + place]
        left = value < low and (edges < FEW or end_of_gap(pool, at, place + 1, low, high) < low)
        right = value > high and (edges < FEW or end_of_gap(pool, at, place - 1, low, high) > high)
        if left or right:
            drop_edge(pool, at, edges, measures, place)
        place -= 1
    for turn in range(3 * edges):
        used = int(pool[at + EDGES])
        first = 1 if used > 0 and pool[at + HEAD] < low else 0
        last = used - 1 if used > 0 and pool[at + HEAD + used - 1] > high else used
        widest = -1.0
        gap = spare = used
        narrowest = np.inf
        for i in range(first, last + 1):
            begin = low if i == first else pool[at + HEAD + i - 1]
            end = high if i == last else pool[at + HEAD + i]
            if end - begin > widest:
                widest = end - begin
                gap = i
            after = high if i + 1 >= last else pool[at + HEAD + i + 1]
            if i < last and after - begin < narrowest:
                narrowest = after - begin
                spare = i
        if used == edges:
            if not 2 * narrowest < widest:
                break
            drop_edge(pool, at, edges, measures, spare)
            continue
        begin = low if gap == first else pool[at + HEAD + gap - 1]
        end = high if gap == last else pool[at + HEAD + gap]
        middle = begin + (end - begin) / 2
        if gap == first and turn < edges:
            middle = low
        elif gap == last and turn < edges:
            middle = high
        known = edges_up_to(pool, at, middle)
        if known > 0 and pool[at + HEAD + known - 1] == middle:
            middle = begin + (end - begin) / 2
        if not begin < middle < end and middle != low and middle != high:
            break
        known = edges_up_to(pool, at, middle)
        if known > 0 and pool[at + HEAD + known - 1] == middle:
            break
        put_edge(pool, at, edges, measures, middle)


@callee
def need_edge(pool: Floats, at: int, edges: int, measures: int, value: float) -> None:
    """Make a value within those of a block an edge, in the place of one where they are dense."""
    if not pool[at + X_LEAST] <= value < pool[at + X_MOST] or edges < FEW:
        return
    place = edges_up_to(pool, at, value)
    if place > 0 and pool[at + HEAD + place - 1] == value:
        return
    used = int(pool[at + EDGES])
    if used == edges:
        spare = used
        narrowest = np.inf
        for i in range(1, used - 1):
            width = pool[at + HEAD + i + 1] - pool[at + HEAD + i - 1]
            if width < narrowest:
                narrowest = width
                spare = i
        drop_edge(pool, at, edges, measures, spare)
    put_edge(pool, at, edges, measures, value)


@callee
def take(
    pool: Floats, marks: Array, at: int, edges: int, measures: int, x: float, y: float, mark: float
) -> None:
    """Take an event into a block. Cost: a pass over its edges."""
    place = edges_up_to(pool, at, x)
    if pool[at + SPARSE] == 1.0 and (place == 0 or pool[at + HEAD + place - 1] != x):
        if int(pool[at + EDGES]) < edges:
            put_edge(pool, at, edges, measures, x)
        else:
            pool[at + SPARSE] = 0.0
    first = edges_up_to(pool, at, x)
    if first > 0 and pool[at + HEAD + first - 1] == x:
        first -= 1
    used = int(pool[at + EDGES])
    for measure in range(measures):
        more = 1.0
        if measure > 0:
            more = max(y, 0.0) if measure == 1 else max(-y, 0.0)
        begin = at + HEAD + edges * (1 + 3 * measure)
        for column in range(begin, begin + 3 * edges, edges):
            for i in range(first, used):
                pool[column + i] += more
    if pool[at + N] == 0:
        marks[at + FIRST_MARK] = mark
    marks[at + LAST_MARK] = mark
    n = pool[at + N] + 1
    pool[at + N] = n
    if x <= pool[at + X_LEAST]:
        pool[at + X_LEAST] = x
        marks[at + LEAST_MARK] = mark
    if x >= pool[at + X_MOST]:
        pool[at + X_MOST] = x
        marks[at + MOST_MARK] = mark
    if abs(x) < np.inf:
        add_to_sum(pool, at, x)
        away = x - pool[at + X_MEAN]
        pool[at + X_MEAN] += away / n
        pool[at + X_SPREAD] += away * (x - pool[at + X_MEAN])
    if measures > 1:
        pool[at + Y_ABOVE] += max(y, 0.0)
        pool[at + Y_BELOW] += max(-y, 0.0)
        pool[at + Y_LEAST] = min(pool[at + Y_LEAST], y)
        pool[at + Y_MOST] = max(pool[at + Y_MOST], y)


@callee
def add_to_sum(pool: Floats, at: int, x: float) -> None:
    """Add to the sum of x in twice the precision."""
    total = pool[at + X_SUM]
    added = total + x
    back = added - total
    rest = (total - (added - back)) + (x - back) + pool[at + X_REST]
    pool[at + X_SUM] = added + rest
    pool[at + X_REST] = rest - (pool[at + X_SUM] - added)
    pool[at + X_SIZE] += abs(x)
