"""Which structure finds a box: one attribute with containment-encoded intervals, or tiles of two.

What a box costs is how often an event meets it as a candidate that is then checked. Measured on
100,000 boxes (docs/architecture.md): a candidate costs about 7 ns in the lists of one attribute and
about 12 ns in a tile, so the rarer path wins wherever the two differ by more than a factor of two.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from everquery.index.arrays import Floats, Int32s, Int64s
from everquery.index.cei import CeiSegment, rank_ends
from everquery.index.rows import Rows, joined
from everquery.index.tiles import TileSegment, Tiling

TILE_COST = 2.0  # of a candidate, next to one in the lists of a single attribute
FEWEST_TILED = 256  # rows for which tiles are worth a search of their own


@dataclass(frozen=True, slots=True)
class BoxSegment:
    """An immutable set of boxes of one shape, each in the structure that finds it cheapest."""

    parts: tuple[CeiSegment | TileSegment, ...]

    @classmethod
    def build(cls, rows: Rows) -> BoxSegment:
        """Choose each box's path by its expected candidates."""
        attributes = len(rows.shape.attributes)
        if attributes == 1:
            return cls((CeiSegment.build(rows),))
        share = np.stack([share_of_lane(rows, a) for a in range(attributes)])
        path = share.argmin(axis=0)  # the attribute to search by
        tiling = None
        if not rows.shape.keyed and len(rows) >= FEWEST_TILED:
            first, second = np.argsort(share.mean(axis=1), kind="stable")[:2].tolist()
            tiling = Tiling.plan(rows, (first, second))
            tiled = TILE_COST * tiling.hit_rate() < share.min(axis=0)
            if np.count_nonzero(tiled) >= FEWEST_TILED:
                path[tiled] = attributes
        parts: list[CeiSegment | TileSegment] = []
        for chosen in np.unique(path).tolist():
            picked = np.flatnonzero(path == chosen)
            if chosen == attributes and tiling is not None:
                parts.append(TileSegment.build(rows.take(picked), tiling.take(picked)))
            else:
                parts.append(CeiSegment.build(rows.take(picked), primary=chosen))
        return cls(tuple(parts))

    def all_rows(self) -> Rows:
        """Return the rows of all parts."""
        return joined([part.rows for part in self.parts])

    def renumbered(self, slots: Int32s) -> BoxSegment:
        """Return the same with other slots, given by the present ones."""
        return BoxSegment(tuple(part.renumbered(slots) for part in self.parts))

    def __len__(self) -> int:
        return sum(len(part.rows) for part in self.parts)

    def nbytes(self) -> int:
        """Return the bytes of all arrays."""
        return sum(part.nbytes() for part in self.parts)


def share_of_lane(rows: Rows, attribute: int) -> Floats:
    """Return the share of its lane's distinct ends that each box spans on an attribute.

    It estimates how many of the lane's events are inside, if they are where the ends are.
    """
    order = np.lexsort((rows.low[attribute], rows.key))
    lane_size: Int64s = np.unique(rows.key, return_counts=True)[1]
    _, rank_start, first, last = rank_ends(
        rows.low[attribute][order], rows.high[attribute][order], lane_size
    )
    ranks = np.repeat(np.diff(rank_start), lane_size)
    share = np.empty(len(rows))
    share[order] = (last - first) / ranks
    return share
