"""Which structure finds a box: one attribute with containment-encoded intervals, or tiles of two.

What a box costs is how often an event meets it as a candidate that is then checked, and what a
structure costs is one search an event. Measured (docs/benchmarks.md, access paths): a candidate
takes about 6 ns in the lists of one attribute and 5 in a tile; a search before any candidate 25 and
40.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from everquery.core.arrays import Floats, Int32s, Int64s
from everquery.index.cei import CeiSegment
from everquery.index.few_boxes import FewBoxes
from everquery.index.kind import Explained
from everquery.index.rank_grid import rank_ends
from everquery.index.rows import Rows, joined
from everquery.index.tiles import TileSegment, Tiling

LIST_NS, LIST_CANDIDATE_NS = 25.0, 6.0
TILE_NS, TILE_CANDIDATE_NS = 40.0, 5.0
MATCH_NS = 2.0  # a match of one attribute, written out without a check
FEWEST_INDEXED = 8  # rows up to which each event looks at all of its key's
FEWEST_TILED = 256  # rows below which tiles are not even planned


@dataclass(frozen=True, slots=True)
class BoxSegment:
    """An immutable set of boxes of one shape, each in the structure that finds it cheapest."""

    parts: tuple[CeiSegment | TileSegment | FewBoxes, ...]

    @classmethod
    def build(cls, rows: Rows) -> BoxSegment:
        """Choose each box's path by its expected candidates."""
        attributes = len(rows.shape.attributes)
        if len(rows) <= FEWEST_INDEXED:
            return cls((FewBoxes.build(rows),))
        if attributes == 1:
            return cls((CeiSegment.build(rows),))
        share = np.stack([share_of_lane(rows, a) for a in range(attributes)])
        candidates = LIST_CANDIDATE_NS * share
        tiling = None
        if not rows.shape.keyed and len(rows) >= FEWEST_TILED:
            first, second = np.argsort(share.mean(axis=1), kind="stable")[:2].tolist()
            tiling = Tiling.plan(rows, (first, second))
            candidates = np.vstack([candidates, TILE_CANDIDATE_NS * tiling.hit_rate()])
        path = choose_paths(candidates, attributes)
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

    def explain(self, slot: int) -> Explained | None:
        """Return which structure finds a query, by which attributes; None if it is not here."""
        for part in self.parts:
            row = np.flatnonzero(part.rows.slot == slot)
            if row.size:
                return _explain(part, int(row[0]))
        return None

    def renumbered(self, slots: Int32s) -> BoxSegment:
        """Return the same with other slots, given by the present ones."""
        return BoxSegment(tuple(part.renumbered(slots) for part in self.parts))

    def __len__(self) -> int:
        return sum(len(part.rows) for part in self.parts)

    def nbytes(self) -> int:
        """Return the bytes of all arrays."""
        return sum(part.nbytes() for part in self.parts)


def choose_paths(candidates: Floats, attributes: int) -> Int64s:
    """Return the path of each box: one for all, or each its best, whichever is cheaper in all.

    Parameters
    ----------
    candidates : shape (paths, n)
        What each box adds to an event's cost on each path, in nanoseconds; tiles come last.
    """
    search = np.full(len(candidates), LIST_NS)
    search[attributes:] = TILE_NS
    alone = search + candidates.sum(axis=1)
    best: Int64s = candidates.argmin(axis=0)
    each = search[np.unique(best)].sum() + candidates.min(axis=0).sum()
    if alone.min() <= each:
        return np.full(candidates.shape[1], alone.argmin())
    return best


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


def _explain(part: CeiSegment | TileSegment | FewBoxes, row: int) -> Explained:
    named = part.rows.shape.attributes
    lane = int(np.count_nonzero(part.rows.key == part.rows.key[row]))
    if isinstance(part, FewBoxes):
        return Explained(
            "a look at each of a few boxes", named, 1.0, LIST_CANDIDATE_NS, lane, len(part.rows)
        )
    if isinstance(part, TileSegment):
        share = float(part.hit_rate[row])
        path = f"tiles of two attributes ({len(part.layers)} layers), then a check"
        axes = tuple(named[axis] for axis in part.tiling_axes)
        return Explained(path, axes, share, share * TILE_CANDIDATE_NS, lane, len(part.rows))
    share = float(share_of_lane(part.rows, part.primary)[row])
    path = f"containment-encoded intervals (L = {1 << part.levels})"
    cost = MATCH_NS
    if len(named) > 1:
        path += ", then a check"
        cost = LIST_CANDIDATE_NS
    return Explained(path, (named[part.primary],), share, share * cost, lane, len(part.rows))
