"""What boxes of two attributes gain from a batch: one sweep over the events and all box edges.

Events are taken up in the order of the first attribute. At each lower and upper edge of a box the
weight so far between its ends on the second attribute is looked up; the difference of both is what
the box gained. Weights are kept in blocks of about the root of their number: an event costs two
short runs of additions, which vectorize, and an edge four reads. A Fenwick tree costs an edge four
times as much, and there are more edges than events.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from everquery.core.arrays import Bools, Floats, Int32s, Int64s
from everquery.core.jit import kernel, part
from everquery.index.rows import Rows


class Edges(NamedTuple):
    """The ends of boxes in order, lane by lane: a lane has twice as many as rows.

    Attributes
    ----------
    first, second : float64
        On each of the two attributes; NaN, which has no limit, comes last.
    first_edge, second_edge : int32
        Whose they are: twice the row, and one more for an upper end.
    """

    first: Floats
    second: Floats
    first_edge: Int32s
    second_edge: Int32s

    @classmethod
    def of(cls, rows: Rows) -> Edges:
        """Sort the ends of rows, which are in order of their keys."""
        lane = np.repeat(rows.key, 2)
        found = []
        for axis in range(2):
            ends = np.stack([rows.low[axis], rows.high[axis]], axis=1).ravel()
            order = np.lexsort((ends, lane))
            found.append((ends[order], order.astype(np.int32)))
        (first, first_edge), (second, second_edge) = found
        return cls(first, second, first_edge, second_edge)

    def among(self, begin: int, end: int, kept: Bools) -> Edges:
        """Return the edges of some of the rows of a lane, numbered anew; no sorting is needed.

        Parameters
        ----------
        begin, end : int
            The lane's rows.
        kept : bool, shape (end - begin,)
        """
        place = np.cumsum(kept, dtype=np.int32) - 1
        found = []
        for ends, edge in ((self.first, self.first_edge), (self.second, self.second_edge)):
            here = edge[2 * begin : 2 * end]
            picked = np.flatnonzero(kept[(here >> 1) - begin])
            whose = here[picked]
            number = 2 * place[(whose >> 1) - begin] + (whose & 1)
            found.append((ends[2 * begin : 2 * end][picked], number))
        (first, first_edge), (second, second_edge) = found
        return Edges(first, second, first_edge, second_edge)


@part
def weight_below(rank: int, shift: int, inner: Int64s, outer: Int64s) -> int:
    """Return the weight of all events so far with a lower rank."""
    return outer[(rank - 1) >> shift] + inner[rank - 1] if rank > 0 else 0


@kernel
def sweep(
    edges: tuple[Floats, Floats, Int32s, Int32s],
    begin: int,
    end: int,
    first: Floats,
    second: Floats,
    rank: Int64s,
    weight: Int64s,
    ranks: Int32s,
    gain: Int64s,
) -> None:
    """Write what each box gained from some events.

    Parameters
    ----------
    edges : the fields of `Edges`
    begin, end : int
        Which of the edges.
    first, weight : of the events, ascending by the first attribute
    rank : int64
        Of the same events, by the second attribute.
    second : the second attribute, ascending
    ranks, gain : by edge and by row; `gain` comes zeroed where it counts
    """
    first_end, second_end, first_edge, second_edge = edges
    n = first.size
    below = 0
    for i in range(begin, end):
        bound = second_end[i]
        while below < n and not bound <= second[below]:
            below += 1
        ranks[second_edge[i]] = below
    shift = 4
    while 1 << 2 * shift < n:
        shift += 1
    blocks = (n >> shift) + 1
    inner = np.zeros(blocks << shift, np.int64)
    outer = np.zeros(blocks, np.int64)
    at = 0
    for i in range(begin, end):
        bound = first_end[i]
        while at < n and not bound <= first[at]:
            block = rank[at] >> shift
            for j in range(rank[at], (block + 1) << shift):
                inner[j] += weight[at]
            for j in range(block + 1, blocks):
                outer[j] += weight[at]
            at += 1
        edge = first_edge[i]
        row = edge >> 1
        held = weight_below(ranks[2 * row + 1], shift, inner, outer) - weight_below(
            ranks[2 * row], shift, inner, outer
        )
        gain[row] += held if edge & 1 else -held
