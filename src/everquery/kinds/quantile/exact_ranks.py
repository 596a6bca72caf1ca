"""Which ranks a quantile query allows, worked out from all rows."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

from everquery.kinds.quantile.spec import Quantile

COARSEST, COARSEST_WINDOW, FINEST = 0.005, 0.02, 0.0001  # of summaries; see docs/quantiles.md


class FeedName(NamedTuple):
    """Which rows are ranked together: by attribute and window, and whether by key."""

    attribute: str
    last: int | None
    keyed: bool


@dataclass
class Feed:
    """All rows since queries want them, by lane: a key, or None; and the finest epsilon."""

    lanes: dict[Any, list[float]] = field(default_factory=dict)
    finest: float | None = None


def feed_of(query: Quantile) -> FeedName:
    """Return the feed that answers a query."""
    return FeedName(query.attribute, query.last, query.by_key or query.key is not None)


def allowed_ranks(phi: float, epsilon: float, n: int) -> tuple[set[int], int]:
    """Return the ranks that a query allows, and the best one.

    Fractions are read as they are written: 0.7 is seven tenths.
    """
    target, spread = Fraction(repr(phi)) * n, Fraction(repr(epsilon)) * n
    quantile = math.ceil(target)
    ranks = {rank for rank in range(1, n + 1) if abs(rank - target) < spread}
    if not ranks:
        return {quantile}, quantile
    nearer = {rank for rank in ranks if quantile - rank < spread}
    ranks = nearer or ranks
    return ranks, min(max(quantile, min(ranks)), max(ranks))


def ranks_of(value: float, rows: list[float]) -> set[int]:
    """Return the ranks that a value has among sorted rows, or would have."""
    first = bisect_left(rows, value) + 1
    return set(range(first, max(bisect_right(rows, value), first) + 1))
