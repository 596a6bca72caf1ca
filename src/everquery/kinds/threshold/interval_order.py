"""An order of intervals in which similar ones are neighbours."""

from __future__ import annotations

import numpy as np

from everquery.core.arrays import Int64s


def neighbours_first(lane: Int64s, first: Int64s, last: Int64s) -> Int64s:
    """Return an order of rows by lane in which those with similar intervals stand together.

    The bits of both ends take turns (a Z-order), so that a run of rows is a small part of the plane
    of all intervals. Intervals of one length are in order of their ends.

    Parameters
    ----------
    lane, first, last : int64, a row
        Its lane's number, and its ends as ranks of the lane.
    """
    bits = int(last.max(initial=1)).bit_length()
    spare = 63 - int(lane.max(initial=0)).bit_length()
    lost = max(0, bits - spare // 2)  # of each end; what is lost makes groups wider, and no more
    place = _spread(first >> lost) << 1 | _spread(last >> lost)
    order: Int64s = np.argsort(lane << 2 * (bits - lost) | place, kind="stable")
    return order


def _spread(bits: Int64s) -> Int64s:
    """Return numbers of up to 31 bits with a 0 in front of each bit."""
    for shift, mask in (
        (16, 0x0000_FFFF_0000_FFFF),
        (8, 0x00FF_00FF_00FF_00FF),
        (4, 0x0F0F_0F0F_0F0F_0F0F),
        (2, 0x3333_3333_3333_3333),
        (1, 0x5555_5555_5555_5555),
    ):
        bits = (bits | bits << shift) & mask
    return bits
