"""The networks in examples/ run, both ways."""

from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import yaml

import everquery as eq
from tests.unit.network.plants import assert_same_every_way, bag, readings

EXAMPLES = Path(__file__).parents[3] / "examples"


def test_the_plant_runs():
    network = eq.Network.load(EXAMPLES / "plant.yaml")
    assert eq.Network.load(network.dump()) == network
    found = assert_same_every_way(network, {"readings": readings(300)})
    assert all(found[name] for name in ("celsius", "minutes", "highest", "trouble", "alarms"))


def test_the_fleet_runs():
    rng = np.random.default_rng(5)
    count = 200
    van = np.array(["a", "b"])[np.arange(count) % 2]
    positions = pa.table(
        {
            "van": van,
            "ts": np.arange(count) * 5,
            "odometer": np.arange(count) // 2 / 8.0,
            "speed": np.round(rng.uniform(-5, 60, count).clip(0)),
            "fuel": 100 - np.arange(count) / 16,
        }
    )
    ticks = pa.table({"van": ["a", "b"] * 16, "ts": np.repeat(np.arange(16) * 60, 2)})
    network = eq.Network.load(EXAMPLES / "fleet.yaml")
    assert eq.Network.load(network.dump()) == network
    found = assert_same_every_way(network, {"positions": positions, "ticks": ticks})
    assert len(found["placed"]) == 32
    assert all(found[name] for name in network.outputs)
    exact = [row for row in found["placed"] if row["van"] == "a" and row["ts"] == 120]
    assert exact == [{"van": "a", "ts": 120, "odometer": 1.5, "fuel": 98.5}]


def loaded(name):
    network = eq.Network.load(EXAMPLES / name)
    assert eq.Network.load(network.dump()) == network
    return network


def stickers(count):
    rng = np.random.default_rng(8)
    return pa.table(
        {
            "item": rng.choice(["projector", "laptop", "screen"], count),
            "ts": np.sort(rng.integers(0, 9000, count)),
            "x": rng.integers(-20, 120, count).astype(float),
            "y": rng.integers(0, 100, count).astype(float),
            "battery": rng.integers(0, 65, count) / 64,
            "booked": rng.integers(0, 2, count).astype(float),
        }
    )


def test_the_police_is_told_of_what_leaves_unbooked():
    network, seen = loaded("tracking.yaml"), stickers(300)
    found = assert_same_every_way(network, {"stickers": seen})
    wanted = duckdb.sql("SELECT * FROM seen WHERE (x < 0 OR x > 100) AND booked = 0")
    assert found["police"] == wanted.order("ts").to_arrow_table().to_pylist()
    assert all(found[name] for name in network.outputs)
    assert sum(row["n"] for row in found["usage"]) == seen.num_rows


def test_the_duty_cycle_is_asked_later_and_begins_in_the_past():
    seen = stickers(300)
    run = loaded("tracking.yaml").start()
    run.process({"stickers": seen.slice(0, 200)})
    question = yaml.safe_load((EXAMPLES / "duty_cycle.yaml").read_text())
    told = run.attach(question["boxes"], question["outputs"], begin="oldest")["duty"].to_pylist()
    told += run.process({"stickers": seen.slice(200)})["duty"].to_pylist()
    told += run.finish()["duty"].to_pylist()
    wanted = duckdb.sql(
        "SELECT item, avg(booked) AS duty, ts // 3600 * 3600 AS window_start FROM seen"
        " GROUP BY item, ts // 3600"
    )
    assert bag(told) == bag(wanted.to_arrow_table().to_pylist())


def market(count):
    rng = np.random.default_rng(9)
    symbols = np.array(["AAA", "BBB"])
    ts = np.sort(rng.integers(0, 600, count))
    middle = rng.integers(380, 430, count) / 4
    trades = {
        "symbol": rng.choice(symbols, count),
        "ts": ts,
        "price": rng.integers(380, 430, count) / 4,
        "shares": rng.integers(1, 40, count) * 50.0,
    }
    quotes = {
        "symbol": rng.choice(symbols, count),
        "ts": np.sort(rng.integers(0, 600, count)),
        "bid": middle - 0.25,
        "ask": middle + 0.25,
    }
    return {"trades": pa.table(trades), "quotes": pa.table(quotes)}


def test_the_market_runs():
    given = market(400)
    found = assert_same_every_way(loaded("market.yaml"), given)
    assert all(found.values())
    trades, quotes = given["trades"], given["quotes"]  # noqa: F841 - DuckDB finds them by name
    minutes = duckdb.sql(
        "SELECT symbol, ts // 60 * 60 AS window_start, arg_max(price, place) AS closed,"
        " sum(price * shares) / sum(shares) AS average"
        " FROM (SELECT *, row_number() OVER () AS place FROM trades) GROUP BY symbol, ts // 60"
    )
    assert bag(found["minutes"]) == bag(minutes.to_arrow_table().to_pylist())
    through = duckdb.sql(
        "SELECT t.*, bid, ask FROM trades t ASOF JOIN (SELECT symbol, ts, last(bid ORDER BY place)"
        " AS bid, last(ask ORDER BY place) AS ask FROM (SELECT *, row_number() OVER () AS place"
        " FROM quotes) GROUP BY symbol, ts) q ON t.symbol = q.symbol AND t.ts >= q.ts"
        " WHERE t.ts - q.ts <= 5 AND (price < bid OR price > ask)"
    )
    assert bag(found["through"]) == bag(through.to_arrow_table().to_pylist())
