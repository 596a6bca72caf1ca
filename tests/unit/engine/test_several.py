"""Engines of several streams."""

import pytest

import everquery as eq

TRADES = eq.Stream("trades", key="symbol", attributes=["price"])
QUOTES = eq.Stream("quotes", key="symbol", time="ts", attributes=["bid"])


@pytest.fixture
def engine():
    with eq.Engine([TRADES, QUOTES]) as engine:
        yield engine


def test_each_stream_is_as_if_alone(engine):
    assert isinstance(engine, eq.Engine)
    engine.register(eq.Border("b", {"price": (40, 50)}), stream="trades")
    engine.register(eq.Range("r", {"bid": (0, 10)}), stream="quotes")
    alone = eq.Engine(TRADES)
    alone.register(eq.Border("b", {"price": (40, 50)}))
    batch = {"symbol": ["IBM", "IBM"], "price": [45.0, 60.0]}
    assert engine.process(batch, stream="trades").equals(alone.process(batch))
    assert engine.push({"symbol": "IBM", "ts": 1, "bid": 4.0}, stream="quotes")[0].event == "match"
    assert engine.queries()["stream"].to_pylist() == ["trades", "quotes"]
    engine.pause(["b", "r"])
    assert set(engine.queries()["state"].to_pylist()) == {"paused"}
    engine.deregister(["b", "r"])
    assert engine.queries().num_rows == 0


def test_streams_and_ids_must_be_clear(engine):
    with pytest.raises(eq.InvalidBatchError, match="say which"):
        engine.process({"symbol": ["IBM"], "price": [1.0]})
    with pytest.raises(eq.UnknownStreamError, match="did you mean"):
        engine.process({"symbol": ["IBM"], "price": [1.0]}, stream="trade")
    engine.register(eq.Range("r", {"bid": (0, 10)}), stream="quotes")
    with pytest.raises(eq.InvalidQueryError, match="live already"):
        engine.register(eq.Range("r", {"price": (0, 10)}), stream="trades")
    with pytest.raises(eq.UnknownQueryError):
        engine.deregister(["r", "other"])
    assert engine.queries().num_rows == 1
    with pytest.raises(eq.InvalidStreamError, match="twice"):
        eq.Engine([TRADES, TRADES])
    with pytest.raises(eq.InvalidBatchError, match="not 'quotes'"):
        eq.Engine(TRADES).process({"symbol": ["IBM"], "price": [1.0]}, stream="quotes")


def test_joins_outlive_the_process(tmp_path):
    url = f"sqlite:///{tmp_path}/queries.db"
    with eq.Engine([TRADES, QUOTES], registry=url, create=True) as engine:
        engine.sql(
            "CREATE STANDING QUERY j AS SELECT trades.symbol, price, bid FROM trades, quotes"
            " WHERE trades.symbol = quotes.symbol AND price > bid BEGIN NOW - 5 ROWS END NOW"
        )
    with eq.Engine(["trades", "quotes"], registry=url) as engine:
        engine.process({"symbol": ["IBM"], "price": [45.0]}, stream="trades")
        engine.process({"symbol": ["IBM"], "ts": [1], "bid": [44.0]}, stream="quotes")
        assert engine.invoke("j").to_pylist() == [{"symbol": "IBM", "price": 45.0, "bid": 44.0}]
        snapshot = engine.snapshot()
        with pytest.raises(eq.InvalidQueryError, match="open an Engine of both"):
            eq.Engine("trades", registry=url).invoke("j")
    with eq.Engine([TRADES, QUOTES]) as other:
        other.restore(snapshot)
        assert other.invoke("j").num_rows == 1
        with pytest.raises(eq.SnapshotError):
            other.restore(b"nothing")
        assert other.invoke("j").num_rows == 1


def test_bad_joins(engine):
    def refused(select):
        with pytest.raises(eq.EverqueryError) as caught:
            engine.sql(f"CREATE STANDING QUERY j AS SELECT {select}")
        return str(caught.value)

    window = "BEGIN NOW - 5 ROWS END NOW"
    assert "ambiguous" in refused(f"symbol FROM trades, quotes WHERE price > bid {window}")
    assert "no column 'bit'" in refused(f"price FROM trades, quotes WHERE price > bit {window}")
    assert "the bound that is missing" in refused(
        "price FROM trades, quotes WHERE price > bid BEGIN OLDEST END NOW"
    )
    assert "nothing joins" in refused(f"price FROM trades, quotes WHERE price > 1 {window}")
    assert "two streams" in refused(f"price FROM trades, quotes, trades WHERE price > bid {window}")
    assert "no time column" in refused(
        "price FROM trades, quotes WHERE price > bid BEGIN NOW - 5 END NOW"
    )


def test_the_past_of_several_streams(tmp_path):
    streams = [eq.Stream(name, time="t", attributes=["x"], keep="all") for name in ("a", "b")]
    engine = eq.Engine(streams, history=tmp_path)
    engine.process({"t": [1, 2], "x": [1.0, 2.0]}, stream="a")
    engine.compact_history()
    assert [held["events"] for held in engine.history().values()] == [2, 0]
    tried = engine.dry_run(eq.Range("r", {"x": (0, 9)}), stream="a")
    assert tried["time"].to_pylist() == [1, 2]
    engine.close()
    again = eq.Engine(streams, history=tmp_path)
    assert again.history()["a"]["events"] == 2


def test_what_only_one_stream_has_is_refused():
    engine = eq.Engine([eq.Stream(name, attributes=["x"]) for name in ("a", "b")])
    for question in ("place", "position", "left_out"):
        with pytest.raises(eq.InvalidStreamError):
            getattr(engine, question)
    with pytest.raises(eq.InvalidStreamError, match="at least one"):
        eq.Engine([])
