"""The brute-force answer of correlated queries: exactly, whatever their epsilon."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, NamedTuple

from everquery.kinds import twin
from everquery.kinds.correlated.spec import AVG, COUNT, WITHIN, Correlated
from everquery.kinds.told_values import one_told
from everquery.queries.spec import Query
from everquery.stream import Stream


class Row(NamedTuple):
    """An event that counts."""

    x: float
    y: float
    time: Any


class Twin(twin.Twin):
    """All events since registration are gone through for each answer."""

    def __init__(self, stream: Stream) -> None:
        super().__init__(stream)
        self._rows: dict[str, dict[object, list[Row]]] = {}
        self._said: dict[str, dict[object, float]] = {}

    def begin(self, query: Query) -> None:
        """Take note of a query that has seen nothing."""
        super().begin(query)
        self._rows[query.id], self._said[query.id] = {}, {}

    def set_back(self, time: Any) -> None:  # noqa: ANN401 - a number
        """Let no event be later."""
        for lanes in self._rows.values():
            for lane, rows in lanes.items():
                lanes[lane] = [row._replace(time=min(row.time, time)) for row in rows]

    def take_in(self, seen: twin.Seen) -> None:
        """Take an event in for the queries that see it, also those that are paused."""
        for query in self.queries.values():
            row = self.row_of(query, seen)
            if row is not None:
                rows = self._rows[query.id].setdefault(_lane(query, seen.key), [])
                if rows and row.time is not None:
                    row = row._replace(time=max(row.time, rows[-1].time))
                rows.append(row)

    def row_of(self, query: Correlated, seen: twin.Seen) -> Row | None:
        """Return what a query sees of an event, or None."""
        if query.key not in (None, seen.key) or not self.sees(query, seen.values):
            return None
        point = dict(zip(self.stream.attributes, seen.values, strict=True))
        x, y = point[query.where], 0.0 if query.of is None else point[query.of]
        assert x is not None
        assert y is not None
        if (query.to == AVG and math.isinf(x)) or (query.aggregate != COUNT and math.isinf(y)):
            return None
        return Row(x, y, seen.time)

    def rows(self, query: Correlated, lane: object) -> list[Row]:
        """Return the events that count."""
        rows = self._rows[query.id].get(lane, [])
        if query.last is not None:
            assert isinstance(query.last, int)
            return rows[-query.last :]
        if query.span is not None and rows:
            return [row for row in rows if rows[-1].time - row.time < query.span]
        return rows

    def value(self, query: Correlated, lane: object) -> tuple[float, int]:
        """Return the true value, NaN for none, and of how many events the reference is."""
        rows = self.rows(query, lane)
        if not rows:
            return math.nan, 0
        x = [row.x for row in rows]
        reference = min(x) if query.to == "min" else max(x)
        if query.to == AVG:
            reference = _average(x)
        picked = [row.y for row in rows if _relates(query, row.x, reference)]
        if query.aggregate == COUNT:
            return float(len(picked)), len(rows)
        if query.aggregate == AVG:
            return _average(picked) if picked else math.nan, len(rows)
        return _sum(picked), len(rows)

    def answer(self, query: Correlated, seen: twin.Seen) -> Iterator[twin.Happened]:
        """Yield a change, an entry or an exit."""
        if self.row_of(query, seen) is None:
            return
        lane, said = _lane(query, seen.key), self._said[query.id]
        value, n = self.value(query, lane)
        assert not isinstance(query.when, tuple)
        before = said.get(lane)
        if math.isnan(value):
            event = None
            if before is not None and (query.when is None or query.when.contains(before)):
                event = "change" if query.when is None else "leave"
        elif query.when is None and before == value:
            event = None
        else:
            event = one_told(query.when, None, value, before)
        if event is not None:
            if math.isnan(value):
                del said[lane]
                yield twin.Happened(event, (("n", n),))
                return
            said[lane] = value
            bounds = ("low", value), ("high", value)
            yield twin.Happened(event, (("value", value), *bounds, ("n", n)))


def _lane(query: Correlated, key: object) -> object:
    return key if query.by_key else None


def _sum(values: list[float]) -> float:
    """Return the float64 nearest to a sum."""
    total = sum(map(Fraction, values), Fraction(0))
    try:
        return float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf


def _average(values: list[float]) -> float:
    """Return the float64 nearest to a sum, divided; also where the sum is beyond all float64."""
    total = _sum(values)
    if math.isinf(total):
        return float(sum(map(Fraction, values)) / 2**64) / len(values) * 2.0**64
    return total / len(values)


def _relates(query: Correlated, x: float, reference: float) -> bool:
    """Tell whether a value relates to the reference as the query says."""
    if query.compared == WITHIN:
        away = query.factor * abs(reference)
        if math.isinf(reference):
            return x == reference
        if math.isinf(away):
            return True
        return reference - away <= x <= reference + away
    limit = query.factor * reference
    relations = {"<": x < limit, "<=": x <= limit, ">": x > limit, ">=": x >= limit}
    return relations[query.compared]
