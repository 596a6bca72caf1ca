"""Answers over the past that jobs and engines keep in files."""

import pytest

import everquery as eq
from everquery.spark import invoke

TRADES = eq.Stream("trades", key="symbol", time="ts", attributes=["price"], keep="all", grace=2)
QUOTES = eq.Stream("quotes", key="symbol", time="ts", attributes=["bid"], keep="all")


def test_the_files_of_several_shards_are_read_while_one_is_written(tmp_path):
    url, past = f"sqlite:///{tmp_path}/queries.db", tmp_path / "past"
    with eq.Engine(TRADES, registry=url, create=True) as engine:
        engine.sql(
            "CREATE STANDING QUERY dear AS SELECT symbol, price FROM trades WHERE price > 40"
            " BEGIN NOW - 10 END NOW"
        )
    for number, symbol in enumerate(("IBM", "HP")):
        with eq.Engine(TRADES, history=past / f"shard-00{number}") as shard:
            shard.process({"symbol": [symbol] * 2, "ts": [number, 9], "price": [45.0, 50.0]})
            shard.flush()
    unfinished = past / "shard-001" / "now.part"
    unfinished.write_bytes(b"half")
    found = invoke(url, "dear", history=past)
    assert sorted(found.to_pylist(), key=repr) == [
        {"symbol": "HP", "price": 45.0},
        {"symbol": "HP", "price": 50.0},
        {"symbol": "IBM", "price": 45.0},
        {"symbol": "IBM", "price": 50.0},
    ]
    assert unfinished.exists()
    assert invoke(url, "dear", history=past, limit=1).num_rows == 1


def test_a_join_reads_the_files_of_both_streams(tmp_path):
    url = f"sqlite:///{tmp_path}/queries.db"
    folders = {name: str(tmp_path / name) for name in ("trades", "quotes")}
    with eq.Engine([TRADES, QUOTES], registry=url, create=True, history=folders) as engine:
        engine.sql(
            "CREATE STANDING QUERY above AS SELECT trades.symbol, price, bid FROM trades, quotes"
            " WHERE trades.symbol = quotes.symbol AND price > bid BEGIN NOW - 10 END NOW"
        )
        engine.process({"symbol": ["IBM"], "ts": [1], "price": [45.0]}, stream="trades")
        engine.process({"symbol": ["IBM"], "ts": [2], "bid": [44.0]}, stream="quotes")
        engine.flush(stream="trades")
        wanted = engine.invoke("above").to_pylist()
    assert invoke(url, "above", history=folders).to_pylist() == wanted != []


def test_a_folder_that_is_not_there(tmp_path):
    url = f"sqlite:///{tmp_path}/queries.db"
    eq.Engine(TRADES, registry=url, create=True).close()
    with pytest.raises(eq.InvalidStreamError, match="no folder"):
        invoke(url, "dear", history=tmp_path / "nowhere")
