"""The brute-force answer of select queries: what they tell, and what they read."""

from __future__ import annotations

import operator
from collections.abc import Iterator

from everquery.kinds import twin
from everquery.kinds.select.plan import Factor
from everquery.kinds.select.spec import Select

COMPARE = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Twin(twin.Twin):
    """Every event that satisfies the condition is told, if matches are told at all."""

    def answer(self, query: Select, seen: twin.Seen) -> Iterator[twin.Happened]:
        """Yield a match if the event satisfies all."""
        if query.tell != "matches" or not self.inside(query, seen.key, seen.values):
            return
        point = dict(zip(self.stream.attributes, seen.values, strict=True))
        if all(satisfies(factor, point) for factor in query.parsed.factors):
            yield twin.Happened("match")


def satisfies(factor: Factor, point: dict[str, float | None]) -> bool:
    """Tell whether a condition between two attributes holds; not if one is unknown."""
    assert factor.right is not None
    assert not isinstance(factor.constant, str)
    left, right = point[factor.left.name], point[factor.right.name]
    if left is None or right is None:
        return False
    return bool(COMPARE[factor.operator](left, right + factor.constant))
