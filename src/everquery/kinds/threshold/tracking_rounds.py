"""Distributed tracking of single rows: signals, rounds, and what a row lends to its nodes.

The algorithm of range-thresholding, sections 3.2, 4 and 7, with its slack kept as credit. A row
with `left` weight to go lends each of its h nodes the weight that it may count unheard, and keeps
the rest as spare, so that lent + spare is at most `left`: while no node has used up its loan, the
row cannot be due. A node that has used it up signals, and gets another loan out of the spare; when
the spare is too small the round is over, and the row asks for the exact counters.

A plain round lends left/(2h) to each node, and the same for a signal: the paper's round of h
signals, which at least halves what is left. But traffic is rarely even, and the counters tell
where it goes. So a row first tries a round that lends by share, nearly all of what is left; each
signal gets half of the spare, so that such a round has O(log h) signals. If it did not halve what
is left, the next round is plain. So for any traffic a row has at most about 2 log2(need) rounds,
where the paper has log(need) to the base 3/2, and O(h log need) signals. On the paper's workload
(100,000 rows, a need of 20 million) it has 35 signals and 10 rounds instead of 178 and 15 with one
attribute, and 420 and 16 instead of 1205 and 14 with two.
"""

from __future__ import annotations

from everquery.core.arrays import Int32s, Int64s
from everquery.core.jit import kernel, part
from everquery.kinds.threshold.node_heaps import (
    BASE,
    COUNT,
    DUE,
    SIZE,
    Heaps,
    set_key,
    sift_down,
)

# The columns of a row, int64: one cache line.
SPARE = 0  # not lent to any node; in the final phase all that is left
SLACK = 1  # the least loan for a signal in this round; or FINAL, PAUSED, ENDED
SHARED = 2  # what was left when a round by share began; 0 in a plain round
SINCE = 3  # the sum of its nodes' counters when it began; what it saw, if it stands still
NEED = 4  # the weight that it fires at
TOTAL = 5  # the need after that; 0 for none
ROUNDS = 6
SIGNALS = 7
FINAL = 0  # every change is told
PAUSED = -1
ENDED = -2

FINAL_PHASE = 6  # weight left for each node, at which the final phase begins (section 3.2)
FIRST_ROUND = 4  # the first round ends after h/4 signals: enough to know the shares
# Of what is left, a round by share lends 0.85 by share and 1/8 evenly. With 0.75 by share there
# were a fifth more signals on the paper's workload, with 0.6 half as many again.
BY_SHARE = 0.85
EVENLY = 8
# A node that got no traffic is lent a quarter of its loan, and what it still has is left with it
# while it is no less: most nodes of a row are cold, and keep their place in the heap for rounds.
COLD = 2
PLENTY = 4  # a loan of this many times the traffic that is expected of a node is enough for it

Owned = tuple[Int64s, Int32s, Int32s]  # where a row's entries begin; an entry's node; its row


@part
def count_of(row: int, nodes: Int64s, owned: Owned) -> int:
    """Return the sum of the counters of a row's nodes: they are disjoint, so it cannot wrap."""
    row_start, node, _ = owned
    count = 0
    for e in range(row_start[row], row_start[row + 1]):
        count += nodes[node[e], COUNT]
    return count


@part
def lend_evenly(row: int, loan: int, nodes: Int64s, heaps: Heaps, owned: Owned) -> None:
    """Lend each node of a row the same."""
    row_start, node, _ = owned
    for e in range(row_start[row], row_start[row + 1]):
        set_key(nodes, heaps, node[e], e, nodes[node[e], COUNT] + loan)


@part
def lend_by_share(
    row: int, count: int, left: int, slack: int, nodes: Int64s, heaps: Heaps, owned: Owned
) -> int:
    """Lend each node by its share of the `count`; return what is not lent."""
    row_start, node, _ = owned
    due, _, slot = heaps
    share = BY_SHARE * left / count
    for e in range(row_start[row], row_start[row + 1]):
        u = node[e]
        expected = int(share * nodes[u, COUNT])
        loan = slack + expected
        if slot[e] >= 0:
            kept = due[slot[e]] - nodes[u, COUNT]
            if 0 < kept <= loan and kept >= loan >> COLD:
                left -= kept
                continue
        if expected < loan >> COLD:  # and so no product wraps
            loan = max(loan >> COLD, PLENTY * expected)
        set_key(nodes, heaps, u, e, nodes[u, COUNT] + loan)
        left -= loan
    return left


@part
def start_round(
    row: int, count: int, left: int, nodes: Int64s, heaps: Heaps, rows: Int64s, owned: Owned
) -> None:
    """Lend a row's nodes what they may count unheard; `count` is the sum of their counters."""
    h = owned[0][row + 1] - owned[0][row]
    before = rows[row, SHARED]
    rows[row, ROUNDS] += 1
    rows[row, SHARED] = 0
    if h == 0:  # an empty box
        rows[row, SLACK] = FINAL
        return
    if left >= EVENLY * h and count > 0 and (before == 0 or left <= before >> 1):
        slack = left // (EVENLY * h)
        rows[row, SHARED] = left
        rows[row, SLACK] = slack
        rows[row, SPARE] = lend_by_share(row, count, left, slack, nodes, heaps, owned)
        return
    loan = left // (2 * h)
    rows[row, SLACK] = loan
    rows[row, SPARE] = left - h * loan
    if left <= FINAL_PHASE * h:
        loan = 1
        rows[row, SLACK] = FINAL
        rows[row, SPARE] = left
    lend_evenly(row, loan, nodes, heaps, owned)


@part
def take_signal(row: int, u: int, e: int, nodes: Int64s, heaps: Heaps, rows: Int64s) -> bool:
    """Lend more to node `u`, whose first entry `e` is due; false if the round is over."""
    due = heaps[0]
    counted = nodes[u, COUNT]
    over = counted - due[nodes[u, BASE]]
    rows[row, SIGNALS] += 1
    loan = 1
    if rows[row, SLACK] == FINAL:
        rows[row, SPARE] -= over + 1
        if rows[row, SPARE] <= 0:
            return False
    else:
        loan = rows[row, SLACK]
        if rows[row, SHARED] > 0:
            loan = max(loan, rows[row, SPARE] >> 1)
        if over + loan > rows[row, SPARE]:
            return False
        rows[row, SPARE] -= over + loan
    sift_down(heaps, nodes[u, BASE], nodes[u, SIZE], 0, counted + loan, e)
    nodes[u, DUE] = due[nodes[u, BASE]]
    return True


@part
def end_round(row: int, nodes: Int64s, heaps: Heaps, rows: Int64s, owned: Owned) -> int:
    """Collect the counters; start the next round, end the row, or begin it again if it repeats.

    Returns what the row has seen if it is due, else 0.
    """
    count = count_of(row, nodes, owned)
    seen: int = count - rows[row, SINCE]
    left = rows[row, NEED] - seen
    due = left <= 0
    if due and rows[row, TOTAL] <= 0:
        rows[row, SLACK] = ENDED
        rows[row, SINCE] = seen
        return seen
    if due:
        left = rows[row, TOTAL]
        rows[row, NEED] = left
        rows[row, SINCE] = count
        rows[row, SHARED] = 0
    start_round(row, count, left, nodes, heaps, rows, owned)
    return seen if due else 0


@kernel
def stop_rows(picked: Int64s, to: int, nodes: Int64s, rows: Int64s, owned: Owned) -> None:
    """Let rows stand still, `to` PAUSED or ENDED; O(h) for each.

    Their entries stay in the heaps until they come up there, if ever: then one costs what taking it
    out at once would have cost. A heap has its room anyway.
    """
    for row in picked:
        if rows[row, SLACK] >= 0:
            rows[row, SINCE] = count_of(row, nodes, owned) - rows[row, SINCE]
            rows[row, SLACK] = to
        elif to == ENDED:
            rows[row, SLACK] = to


@kernel
def resume_rows(picked: Int64s, nodes: Int64s, heaps: Heaps, rows: Int64s, owned: Owned) -> None:
    """Let paused rows go on from what they have seen."""
    for row in picked:
        if rows[row, SLACK] == PAUSED:
            count = count_of(row, nodes, owned)
            left = rows[row, NEED] - rows[row, SINCE]
            rows[row, SINCE] = count - rows[row, SINCE]
            rows[row, SHARED] = 0
            start_round(row, count, left, nodes, heaps, rows, owned)


@kernel
def see(picked: Int64s, nodes: Int64s, rows: Int64s, owned: Owned, out: Int64s) -> None:
    """Write the weight that each picked row has seen since it began; O(h) for each."""
    for i in range(picked.size):
        row = picked[i]
        out[i] = rows[row, SINCE]
        if rows[row, SLACK] >= 0:
            out[i] = count_of(row, nodes, owned) - rows[row, SINCE]
