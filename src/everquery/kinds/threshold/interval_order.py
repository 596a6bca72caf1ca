"""An order of intervals in which similar ones are neighbours."""

from __future__ import annotations

import numpy as np

from everquery.core.arrays import Int64s
from everquery.core.jit import kernel


def neighbours_first(lane: Int64s, first: Int64s, last: Int64s) -> Int64s:
    """Return an order of rows by lane in which those with similar intervals stand together.

    Both ends are a point of a plane, and points are taken along a Hilbert curve: a run of them is a
    small part of the plane. (In a Z-order, whose runs may have two ends far
    apart, nodes of the lower levels span a third more beyond their rows.)

    Parameters
    ----------
    lane, first, last : int64, a row
        Its lane's number, and its ends as ranks of the lane.
    """
    bits = int(last.max(initial=1)).bit_length()
    spare = 63 - int(lane.max(initial=0)).bit_length()
    lost = max(0, bits - spare // 2)  # of each end; what is lost makes groups wider, and no more
    place = np.empty(lane.size, np.int64)
    places_on_curve(first >> lost, last >> lost, bits - lost, place)
    order: Int64s = np.argsort(lane << 2 * (bits - lost) | place, kind="stable")
    return order


@kernel
def places_on_curve(x: Int64s, y: Int64s, bits: int, out: Int64s) -> None:
    """Write where points are on the Hilbert curve through a square of ``2**bits`` a side.

    From the largest quarters down: each has a place among the four, and the way through it is
    turned or mirrored so that it ends where the next one begins.
    """
    for i in range(out.size):
        a, b, place = x[i], y[i], 0
        for bit in range(bits - 1, -1, -1):
            side = 1 << bit
            right, upper = a >> bit & 1, b >> bit & 1
            place = place << 2 | (3 * right) ^ upper
            a, b = a & (side - 1), b & (side - 1)
            if not upper:
                if right:
                    a, b = side - 1 - a, side - 1 - b
                a, b = b, a
        out[i] = place
