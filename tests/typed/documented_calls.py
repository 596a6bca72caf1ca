"""Calls as the documentation writes them: mypy accepts them, and refuses those that are wrong.

`tests/unit/test_typing.py` gives this file to mypy, and runs it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, assert_type

import pandas as pd
import polars as pl
import pyarrow as pa

import everquery as eq


def streams() -> None:
    """Streams, with spans of time as numbers, timedeltas and texts."""
    eq.Stream("trades", key="symbol", time="ts", attributes=["price", "volume"], weight="shares")
    stream = eq.Stream("rooms", attributes=("celsius",), time="t", grace=timedelta(seconds=5))
    eq.Stream("rooms", attributes=["celsius"], time="t", grace=5, expire_after=60.0)
    eq.Stream("rooms", attributes=["celsius"], time="t", grace="5s", expire_after="1h30m")
    eq.Stream("logins", key="user", attributes=[])
    assert_type(stream.attributes, Sequence[str])
    assert_type(stream.columns(), tuple[str, ...])


def queries() -> list[eq.Query]:
    """Queries of all kinds, with all that their fields take."""
    border = eq.Border("b1", {"price": (40, 50)}, emit="enter", labels={"team": "fx"}, key="IBM")
    assert_type(border.emit, Sequence[str])
    assert_type(border.labels, Mapping[str, str])
    assert_type(border.key, str | int | None)
    assert_type(border.silent, bool)
    assert border.emit == ("enter",)
    assert border.labels["team"] == "fx"
    assert border.box["price"].lo == 40
    latency = eq.Quantile("q1", "price", phi=[0.5, 0.99], epsilon=0.005, by_key=True)
    assert_type(latency.epsilon, float)
    assert_type(latency.parts(), tuple[eq.Query, ...])
    return [
        border,
        latency,
        eq.Border("b2", {"price": (None, 50)}, emit=["enter"], dwell=2),
        eq.Border("b3", {"price": (40, None)}, emit=("enter", "leave"), dwell=5, silent=True),
        eq.Border("b4", {"price": [40, 50.5]}, owner="ann", ttl=100, throttle=2.0),
        eq.Range("r1", {"price": eq.Interval(40, 50, closed="both"), "volume": (0, 1)}),
        eq.Range("r2", {}, throttle=1, labels={}),
        eq.Range("r3", eq.Box({"price": (1, 2)})),
        eq.Threshold("t1", {"price": (100, 105)}, total=100_000, key="AAPL"),
        eq.Threshold("t2", {}, total=3, repeat=True, count=True),
        eq.Quantile("q2", "price", phi=0.99, epsilon=0.005, last=10_000),
        eq.Quantile("q3", "price", phi=(0.1, 1), epsilon=0.01, key="IBM"),
        eq.Quantile("q4", "price", phi=0.95, epsilon=0.01, when=(500, None), by=0.1),
        eq.Quantile("q5", "price", phi=0.95, epsilon=0.01, when=eq.Interval(None, 5)),
        eq.Silence("s1", after=600, key="IBM", throttle=60),
    ]


def spans_of_time() -> None:
    """Spans of time, for streams whose times have a unit."""
    hot = eq.Border("hot", {"celsius": (30, None)}, dwell=timedelta(minutes=2))
    assert hot.dwell == timedelta(minutes=2)
    eq.Range("warm", {}, throttle=timedelta(seconds=1), ttl=timedelta(days=1))
    eq.Silence("off", after="10m", keys=["attic", "cellar"])
    eq.Border("hot", {"celsius": (30, None)}, dwell="2m", throttle="PT90S", ttl="1d")
    eq.Silence("offline", after="10m", key=7)
    eq.Threshold("limit", {}, total=1_000, by_key=True, every="1d", zone="Europe/Berlin")


def integer_keys() -> None:
    """A key may be an integer as well."""
    engine = eq.Engine(eq.Stream("pings", key="van", attributes=["lat"]))
    engine.register(eq.Border("zone", {"lat": (52.51, 52.52)}, key=7))
    assert engine.process(pa.table({"van": [7], "lat": [52.515]})).num_rows == 1
    engine.expire(7)
    engine.expire([7, 8])


def engine() -> None:
    """What an engine is given, and what it returns."""
    stream = eq.Stream("trades", key="symbol", time="ts", attributes=["price", "volume"])
    batch = pa.table({"symbol": ["IBM"], "ts": [1], "price": [45.0], "volume": [1.0]})
    with eq.Engine(stream, labels=True) as one:
        one.register(queries())
        one.register(eq.Range("all", {}))
        one.register(eq.Range("all", {"price": (0, 1)}), replace=True)
        table = pa.table({"id": ["a"], "price_lo": [1.0], "price_hi": [2.0]})
        done = one.register_table(table, kind="border", on_error="skip")
        assert_type(done, eq.Registered)
        assert_type(done.registered, int)
        one.pause("r1")
        one.resume(["r1"])
        one.sql("DROP STANDING QUERY all", {})
        notices: list[dict[str, Any]] = one.process(batch).to_pylist()
        one.process(batch.to_batches()[0])
        one.process([{"symbol": "IBM", "ts": 2, "price": 46.0, "volume": 1}])
        one.process({"symbol": ["IBM"], "ts": [3], "price": [46.0], "volume": [1]})
        one.process(pd.DataFrame({"symbol": ["IBM"], "ts": [4], "price": [5.0], "volume": [1.0]}))
        one.process(pl.DataFrame({"symbol": ["IBM"], "ts": [5], "price": [5.0], "volume": [1.0]}))
        assert notices
        assert_type(one.answer("q2"), Any)  # each kind has its own
        answers = one.answer("q1", key="IBM")
        assert isinstance(answers, tuple)
        assert_type(one.quantiles("price", phi=[0.5], last=10_000), list[eq.Answer])
        assert_type(one.explain("r1").path, str | Any)
        assert_type(one.progress("t2"), int)
        assert_type(one.parts("q1"), list[str])
        assert_type(one.stats(), dict[str, Any])
        assert_type(one.position, int)
        assert_type(one.stream, eq.Stream)
        one.set_quota("ann", 1)
        one.set_quota(None, 100)
        assert_type(one.quotas(), dict[str | None, int])
        listed: list[str] = one.queries(owner="ann", labels={"a": "b"}, like="r%")["id"].to_pylist()
        assert not listed
        calls = one.on({"team": "fx"}, lambda notice: print(notice.event))
        calls.off()
        eq.readable(one.process(batch)).to_pylist()
        one.advance(10)
        one.reset_time(9)
        one.flush()
        one.deregister(["r1", "q1"])
        saved = one.snapshot()
        assert_type(saved, bytes)
        one.restore(saved)
        for letters in (one.dead_letters(), one.quarantined()):
            assert letters.num_rows >= 0


def registry(folder: Path) -> None:
    """Engines by the URL of their registry, and the registry itself."""
    url = f"sqlite:///{folder / 'queries.db'}"
    stream = eq.Stream("trades", key="symbol", time="ts", attributes=["price"])
    eq.Engine(stream, registry=url, create=True).close()
    assert_type(eq.open(url, read_only=True), eq.Engine)
    opened = eq.Registry(url)
    assert_type(opened.streams(), dict[str, eq.Stream])
    opened.close()
    one = eq.open(url, "trades")
    one.process(pa.table({"symbol": ["a"], "ts": [datetime(2026, 1, 1)], "price": [1.0]}))
    one.advance(datetime(2026, 1, 2))


def errors() -> str:
    """Errors are caught as everquery's own, or as Python's."""
    try:
        eq.Range("r", {"price": (2, 1)})
    except eq.InvalidQueryError as error:
        wrong: ValueError = error
    try:
        eq.Engine(eq.Stream("t", attributes=["x"])).deregister("r")
    except eq.UnknownQueryError as error:
        missing: KeyError = error
    return f"{wrong}; {missing}"


def wrong() -> None:
    """Not called: mypy must refuse each of these lines, or complain of an ignore without use."""
    eq.Border("b", {"price": (40, 50)}, key=1.5)  # type: ignore[arg-type]
    eq.Border("b", {"price": (40, 50)}, emit=1)  # type: ignore[arg-type]
    eq.Border("b", {"price": (40, 50)}, labels={"team": 1})  # type: ignore[dict-item]
    eq.Border("b", {"price": (40, 50)}, dwel=5)  # type: ignore[call-arg]
    eq.Threshold("t", {"price": (40, 50)})  # type: ignore[call-arg]
    eq.Interval(1, 2, closed="all")  # type: ignore[arg-type]
    eq.Engine("trades", label=True)  # type: ignore[call-arg]
