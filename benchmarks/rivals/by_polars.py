"""Polars on one thread: `join_where` for borders and ranges, `search_sorted` for thresholds."""

from __future__ import annotations

import os

os.environ.setdefault("POLARS_MAX_THREADS", "1")  # it is read when Polars is imported

import numpy as np
import polars as pl

from benchmarks.rivals.by_numpy import LastValues, NumpyBorders
from benchmarks.rivals.contestant import ENTER, FIRE, LEAVE, MATCH, Contestant
from benchmarks.rivals.thresholds_by_numpy import NumpySums
from benchmarks.rivals.work import Borders, Events, Ranges, Thresholds

THREADS = pl.thread_pool_size()
COLUMNS = "query", "row", "what"


class PolarsBorders(Contestant):
    """Events and queries joined by key, where an event is inside and was not, or was and is not."""

    name = "Polars"

    def __init__(self, work: Borders) -> None:
        self._queries = pl.DataFrame(
            {
                "query": np.arange(work.queries),
                "of": work.key,
                "low": work.low,
                "high": work.high,
            }
        )
        self._last = LastValues(work.keys)
        self._last.before(work.first())

    def process(self, prepared: Events) -> pl.DataFrame:
        """Join, and tell entering from leaving."""
        before = self._last.before(prepared)
        events = pl.DataFrame(
            {"key": prepared.key, "before": before, "value": prepared.value}
        ).with_row_index("row")
        now, was = (
            (pl.col(name) >= pl.col("low")) & (pl.col(name) < pl.col("high"))
            for name in ("value", "before")
        )
        return (
            events.lazy()
            .join_where(self._queries.lazy(), pl.col("key") == pl.col("of"), now != was)
            .with_columns(
                what=pl.when(pl.col("value") >= pl.col("low"), pl.col("value") < pl.col("high"))
                .then(pl.lit(ENTER, pl.Int8))
                .otherwise(pl.lit(LEAVE, pl.Int8))
            )
            .select(COLUMNS)
            .collect()
        )

    def register(self, key: int, low: float, high: float) -> None:
        """Append a row."""
        row = {"query": [len(self._queries)], "of": [key], "low": [low], "high": [high]}
        self._queries = self._queries.vstack(pl.DataFrame(row, schema=self._queries.schema))

    def catch_up(self, other: Contestant) -> None:
        """Take over the keys' last values."""
        assert isinstance(other, NumpyBorders)
        self._last.value[:] = other.value


class PolarsRanges(Contestant):
    """Events and queries joined where the value is between the ends."""

    name = "Polars"

    def __init__(self, work: Ranges) -> None:
        self._queries = pl.DataFrame(
            {"query": np.arange(work.queries, dtype=np.int32), "low": work.low, "high": work.high}
        ).sort("low")

    def prepare(self, events: Events) -> pl.DataFrame:
        """Return a frame with row numbers."""
        return pl.DataFrame({"value": events.value}).with_row_index("row")

    def process(self, prepared: pl.DataFrame) -> pl.DataFrame:
        """Join."""
        return (
            prepared.lazy()
            .join_where(
                self._queries.lazy(),
                pl.col("value") >= pl.col("low"),
                pl.col("value") < pl.col("high"),
            )
            .select("query", "row", what=pl.lit(MATCH, pl.Int8))
            .collect()
        )


class PolarsSums(Contestant):
    """Sums of the weights by value, looked up at both ends of each query; names no event."""

    name = "Polars, sums"
    names_events = False

    def __init__(self, work: Thresholds) -> None:
        order = np.argsort(work.low)
        self._query = pl.Series(order)
        self._low, self._high = pl.Series(work.low[order]), pl.Series(work.high[order])
        self._left = pl.Series(work.total[order].astype(np.float64))
        self._order = order

    def prepare(self, events: Events) -> pl.DataFrame:
        """Return a frame."""
        return pl.DataFrame(events.columns())

    def process(self, prepared: pl.DataFrame) -> pl.DataFrame:
        """Subtract what each query gains, and write out those that have nothing left."""
        events = prepared.sort("value")
        value = events["value"]
        sums = pl.concat([pl.Series([0]), events["weight"].cum_sum()])
        begin, end = (value.search_sorted(side) for side in (self._low, self._high))
        self._left = self._left - (sums.gather(end) - sums.gather(begin))
        fired = (self._left <= 0).arg_true()
        if len(fired):
            self._left = self._left.scatter(fired, np.inf)
        told = pl.DataFrame({"query": self._query.gather(fired)})
        return told.with_columns(row=pl.lit(len(events) - 1), what=pl.lit(FIRE, pl.Int8))

    def catch_up(self, other: Contestant) -> None:
        """Take over what the queries still wait for."""
        assert isinstance(other, NumpySums)
        self._left = pl.Series(other.weight_left()[self._order])
