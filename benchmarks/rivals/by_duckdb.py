"""DuckDB on one thread: a hash join for borders, a range join for ranges, ASOF for thresholds."""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa

from benchmarks.rivals.by_numpy import LastValues, NumpyBorders
from benchmarks.rivals.contestant import ENTER, FIRE, LEAVE, MATCH, Contestant
from benchmarks.rivals.thresholds_by_numpy import NumpySums
from benchmarks.rivals.work import Borders, Events, Ranges, Thresholds, Work

BORDERS = f"""
SELECT q.query, e.row, CASE WHEN e.value >= q.low AND e.value < q.high
                            THEN {ENTER} ELSE {LEAVE} END AS what
FROM events e JOIN queries q ON e.key = q.key
WHERE (e.value >= q.low AND e.value < q.high) <> (e.before >= q.low AND e.before < q.high)
"""
RANGES = f"""
SELECT q.query, e.row, {MATCH}::TINYINT AS what
FROM events e JOIN queries q ON e.value >= q.low AND e.value < q.high
"""
SUMS = """
WITH sums AS (
  SELECT value, sum(weight) OVER (ORDER BY value ROWS UNBOUNDED PRECEDING)::DOUBLE AS total
  FROM events
)
SELECT coalesce(upper.total, 0) - coalesce(lower.total, 0) AS gained
FROM queries q
ASOF LEFT JOIN sums upper ON q.high > upper.value
ASOF LEFT JOIN sums lower ON q.low > lower.value
ORDER BY q.query
"""


class InDuckDB(Contestant):
    """A connection of its own, and a table of the queries."""

    name = "DuckDB"

    def __init__(self, work: Work) -> None:
        self._connection = duckdb.connect(config={"threads": 1})
        columns = {"query": np.arange(work.queries), "low": work.low, "high": work.high}
        given = pa.table({**columns, **work.columns()})
        self._connection.register("given", given)
        self._connection.execute("CREATE TABLE queries AS SELECT * FROM given")
        self._connection.unregister("given")

    def _answer(self, question: str, events: pa.Table) -> pa.Table:
        self._connection.register("events", events)
        found = self._connection.sql(question).to_arrow_table()
        self._connection.unregister("events")
        return found

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class DuckBorders(InDuckDB):
    """Events and queries joined by key, where an event is inside and was not, or was and is not."""

    def __init__(self, work: Borders) -> None:
        super().__init__(work)
        self._count = work.queries
        self._last = LastValues(work.keys)
        self._last.before(work.first())

    def process(self, prepared: Events) -> pa.Table:
        """Join."""
        columns = {**prepared.columns(), "before": self._last.before(prepared)}
        events = pa.table({**columns, "row": np.arange(len(prepared))})
        return self._answer(BORDERS, events)

    def register(self, key: int, low: float, high: float) -> None:
        """Insert a row."""
        insert = "INSERT INTO queries (query, low, high, key) VALUES (?, ?, ?, ?)"
        self._connection.execute(insert, [self._count, low, high, key])
        self._count += 1

    def catch_up(self, other: Contestant) -> None:
        """Take over the keys' last values."""
        assert isinstance(other, NumpyBorders)
        self._last.value[:] = other.value


class DuckRanges(InDuckDB):
    """Events and queries joined where the value is between the ends."""

    def __init__(self, work: Ranges) -> None:
        super().__init__(work)

    def prepare(self, events: Events) -> pa.Table:
        """Return a table with row numbers."""
        return pa.table({**events.columns(), "row": np.arange(len(events))})

    def process(self, prepared: pa.Table) -> pa.Table:
        """Join."""
        return self._answer(RANGES, prepared)


class DuckSums(InDuckDB):
    """Sums of the weights by value, joined to both ends of each query; names no event."""

    name = "DuckDB, sums"
    names_events = False

    def __init__(self, work: Thresholds) -> None:
        super().__init__(work)
        self._left = work.total.astype(np.float64)

    def prepare(self, events: Events) -> pa.Table:
        """Return a table."""
        return pa.table(events.columns())

    def process(self, prepared: pa.Table) -> pa.Table:
        """Subtract what each query gains, and write out those that have nothing left."""
        self._left -= self._answer(SUMS, prepared)["gained"].to_numpy()
        fired = np.flatnonzero(self._left <= 0)
        self._left[fired] = np.inf
        row = np.full(fired.size, prepared.num_rows - 1)
        return pa.table({"query": fired, "row": row, "what": np.full(fired.size, FIRE, np.int8)})

    def catch_up(self, other: Contestant) -> None:
        """Take over what the queries still wait for."""
        assert isinstance(other, NumpySums)
        self._left = other.weight_left()
