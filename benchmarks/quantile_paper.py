"""The paper continuous-quantiles one element at a time: its summary, eager and synchronous updates.

Tuples are a linked list in flat arrays. Two things differ from the text, which is wrong there: a
new tuple takes its upper rank from the tuple above (Section 2.3.1 takes it from the one below, but
all hidden values between them may be smaller), and a gap of one is always allowed (condition 3 of
Theorem 1 fails while ``2 epsilon N`` is below 1). Where no tuple is close enough, as with the first
elements, the closest answers.

The best tuple is found where alpha and beta cross, since one rises and the other falls along the
list; the paper looks at all tuples that are good enough. Asynchronous updates: `quantile_triggers`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from everquery.core.arrays import Floats, Int32s, Int64s
from everquery.core.jit import kernel, part
from everquery.kinds.quantile.gk_merge import band_of, capacity

NOWHERE = -1
FIRST, LAST, SIZE, FREE, SEEN = range(5)  # places in `Summary.state`
FIRED, EVALUATED, ANSWERED, REFORMED = range(4)  # places in counts
COUNTS = 4
ROOM = 1 << 17


class Summary(NamedTuple):
    """Tuples by slot.

    Attributes
    ----------
    value, minus, plus : a value, and the bounds of its rank
    before, after : the neighbours; `after` of a free slot is the next free one
    heir : the slot that a tuple was merged into; its own while it is in the list
    hanging : triggers at a slot, and merged slots whose heir it is
    band : scratch
    state : see `FIRST` and the words after it
    """

    value: Floats
    minus: Int64s
    plus: Int64s
    before: Int32s
    after: Int32s
    heir: Int32s
    hanging: Int64s
    band: Int64s
    state: Int64s


def new_summary(room: int = ROOM) -> Summary:
    """Return a summary of nothing."""
    slots = np.arange(room, dtype=np.int32)
    after = slots + np.int32(1)
    after[-1] = NOWHERE
    return Summary(
        value=np.zeros(room),
        minus=np.zeros(room, np.int64),
        plus=np.zeros(room, np.int64),
        before=np.full(room, NOWHERE, np.int32),
        after=after,
        heir=slots,
        hanging=np.zeros(room, np.int64),
        band=np.zeros(room, np.int64),
        state=np.array([NOWHERE, NOWHERE, 0, 0, 0]),
    )


def copy_of(summary: Summary) -> Summary:
    """Return a copy that may go another way."""
    return Summary._make(column.copy() for column in summary)


@part
def insert_value(summary: Summary, value: float) -> None:
    """Put a value before the first that is not less, and move the ranks of all from there on."""
    state, before, after = summary.state, summary.before, summary.after
    new = state[FREE]
    if new == NOWHERE:
        raise MemoryError
    state[FREE] = after[new]
    above = NOWHERE
    at = state[LAST]
    while at != NOWHERE and summary.value[at] >= value:
        summary.minus[at] += 1
        summary.plus[at] += 1
        above = at
        at = before[at]
    summary.value[new] = value
    summary.minus[new] = summary.minus[at] + 1 if at != NOWHERE else 1
    summary.plus[new] = summary.plus[above] - 1 if above != NOWHERE else state[SEEN] + 1
    before[new] = at
    after[new] = above
    if at != NOWHERE:
        after[at] = new
    else:
        state[FIRST] = new
    if above != NOWHERE:
        before[above] = new
    else:
        state[LAST] = new
    state[SIZE] += 1
    state[SEEN] += 1


@part
def let_go(summary: Summary, slot: int) -> None:
    """Take one off a slot; merged ones on which nothing hangs any more are free."""
    summary.hanging[slot] -= 1
    while summary.hanging[slot] == 0 and summary.heir[slot] != slot:
        heir = summary.heir[slot]
        summary.heir[slot] = slot
        summary.after[slot] = summary.state[FREE]
        summary.state[FREE] = slot
        slot = heir
        summary.hanging[slot] -= 1


@part
def find_tuple(summary: Summary, slot: int) -> int:
    """Return the tuple that a trigger hangs on by now.

    The paper moves the linked list of a merged tuple's triggers in constant time, and does not say
    how a trigger then knows its tuple. Here they are a forest, and ways are shortened on the way.
    """
    while summary.heir[slot] != slot:
        heir = summary.heir[slot]
        top = summary.heir[heir]
        if top != heir:
            summary.heir[slot] = top
            summary.hanging[top] += 1
            let_go(summary, heir)
        slot = top
    return slot


@part
def fold(summary: Summary, gone: int, kept: int) -> None:
    """Let a tuple that leaves the list be found where it was merged into."""
    if summary.hanging[gone] == 0:
        summary.after[gone] = summary.state[FREE]
        summary.state[FREE] = gone
    else:
        summary.heir[gone] = kept
        summary.hanging[kept] += 1
    summary.state[SIZE] -= 1


@part
def merge_tuples(summary: Summary, cap: int) -> None:
    """Merge tuples of no higher band into the next above, as far as the capacity allows."""
    before, band, minus, plus = summary.before, summary.band, summary.minus, summary.plus
    at = summary.state[LAST]
    while at != NOWHERE:
        band[at] = band_of(plus[at] - minus[at], cap)
        at = before[at]
    kept = summary.state[LAST]
    at = before[kept]
    while at != NOWHERE:
        below = before[at]
        if below != NOWHERE and band[at] <= band[kept]:
            while before[below] != NOWHERE and band[below] < band[at]:
                below = before[below]
            if plus[kept] - minus[below] <= cap:
                gone = before[kept]
                while gone != below:
                    following = before[gone]
                    fold(summary, gone, kept)
                    gone = following
                before[kept] = below
                summary.after[below] = kept
                at = below
                continue
        kept = at
        at = before[kept]


@part
def add_value(summary: Summary, epsilon: float, value: float) -> None:
    """Insert, and merge every ``1 / (2 epsilon)`` elements."""
    insert_value(summary, value)
    n = summary.state[SEEN]
    if n % max(1, int(1 / (2 * epsilon))) == 0:
        merge_tuples(summary, capacity(epsilon, n))


@part
def lasting(
    summary: Summary, slot: int, low: float, high: float, epsilon: float
) -> tuple[float, float]:
    """Return alpha and beta of a tuple: equations 10 and 11."""
    n = summary.state[SEEN]
    alpha, beta = math.inf, math.inf
    if low > epsilon:
        alpha = (summary.minus[slot] - (low - epsilon) * n) / (low - epsilon)
    if high + epsilon < 1.0:
        beta = ((high + epsilon) * n - summary.plus[slot]) / (1.0 - high - epsilon)
    return alpha, beta


@part
def best_tuple(
    summary: Summary, low: float, high: float, epsilon: float, at: int
) -> tuple[int, float]:
    """Return the tuple that stays an answer for longest, and for how many elements it surely does.

    From `at`, to the right as long as alpha is the lower one, else to the left.
    """
    alpha, beta = lasting(summary, at, low, high, epsilon)
    best, longest = at, min(alpha, beta)
    rising = alpha < beta
    while longest < math.inf:
        at = summary.after[at] if rising else summary.before[at]
        if at == NOWHERE:
            break
        alpha, beta = lasting(summary, at, low, high, epsilon)
        if min(alpha, beta) > longest:
            best, longest = at, min(alpha, beta)
        if rising != (alpha < beta):
            break
    return best, longest


@part
def note_answer(summary: Summary, slot: int, cluster: int, answer: Floats, counts: Int64s) -> None:
    """Write the answer of a cluster, and count it."""
    counts[EVALUATED] += 1
    if answer[cluster] != summary.value[slot]:
        counts[ANSWERED] += 1
        answer[cluster] = summary.value[slot]


@part
def evaluate_all(
    summary: Summary, epsilon: float, low: Floats, high: Floats, first: int, after: Int32s,
    answer: Floats, counts: Int64s,
) -> float:  # fmt: skip
    """Algorithm 3: one pass over tuples and clusters; return how long all answers surely stay.

    Both are in order, so the best tuple of a cluster is not far from that of the one before.
    """
    at = summary.state[FIRST]
    least = math.inf
    cluster = first
    while cluster != NOWHERE:
        at, longest = best_tuple(summary, low[cluster], high[cluster], epsilon, at)
        note_answer(summary, at, cluster, answer, counts)
        least = min(least, longest)
        cluster = after[cluster]
    counts[FIRED] += 1
    return least


@kernel
def run_summary(summary: Summary, epsilon: float, values: Floats) -> None:
    """Keep the summary alone."""
    for i in range(values.size):
        add_value(summary, epsilon, values[i])


@kernel
def run_eager(
    summary: Summary, epsilon: float, values: Floats, low: Floats, high: Floats, answer: Floats,
    counts: Int64s,
) -> None:  # fmt: skip
    """Evaluate every query at every element: the first hit of Section 2.2."""
    for i in range(values.size):
        add_value(summary, epsilon, values[i])
        n = summary.state[SEEN]
        for query in range(low.size):
            least, most = (low[query] - epsilon) * n, (high[query] + epsilon) * n
            at = summary.state[FIRST]
            while at != NOWHERE and (summary.minus[at] < least or summary.plus[at] > most):
                at = summary.after[at]
            if at == NOWHERE:
                last = summary.state[LAST]
                at, _ = best_tuple(summary, low[query], high[query], epsilon, last)
            note_answer(summary, at, query, answer, counts)


@kernel
def run_synchronous(
    summary: Summary, epsilon: float, values: Floats, low: Floats, high: Floats, first: int,
    after: Int32s, answer: Floats, trigger: Floats, counts: Int64s,
) -> None:  # fmt: skip
    """Evaluate all clusters whenever one answer may have become wrong (SU and CSU).

    Parameters
    ----------
    low, high : float64, by cluster
    first, after : the clusters by ascending intersection, as a linked list
    trigger : float64, shape (1,): elements that may come until then
    """
    for i in range(values.size):
        add_value(summary, epsilon, values[i])
        trigger[0] -= 1.0
        if trigger[0] < 0.0:
            trigger[0] = max(
                0.0, evaluate_all(summary, epsilon, low, high, first, after, answer, counts)
            )
