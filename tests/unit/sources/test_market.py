"""The simulated market: the statistics that the paper asks for, and nothing left to chance."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import everquery as eq
from everquery.sources.market import (
    EVENT_INTERVAL_US,
    Market,
    market_queries,
    market_stream,
    query_ids,
    query_numbers,
    repeats,
)
from everquery.sources.market_files import MarketFiles

EVENTS = 40_000


def table(market, events=EVENTS, batch_size=7_000):
    return pa.Table.from_batches(market.batches(events, batch_size))


def steps(events):
    """Return the distances between consecutive prices of each symbol."""
    symbols = np.asarray(events["symbol"].combine_chunks().indices)
    order = np.argsort(symbols, kind="stable")
    prices = np.asarray(events["price"])[order]
    return np.diff(prices)[np.diff(symbols[order]) == 0]


@pytest.mark.parametrize("fluctuation", [0.0001, 0.001, 0.05])
def test_mean_step_is_the_fluctuation_level(fluctuation):
    moves = steps(table(Market(symbols=20, fluctuation=fluctuation, seed=1)))
    assert np.abs(moves).mean() / 1_000_000.0 == pytest.approx(fluctuation, rel=0.03)
    assert abs(moves.mean()) < 0.03 * np.abs(moves).mean() + 2.0 * np.abs(moves).mean() ** 0.5


@pytest.mark.parametrize("fluctuation", [0.0001, 0.2])
def test_prices_stay_inside_the_domain(fluctuation):
    prices = table(Market(symbols=3, fluctuation=fluctuation, domain=8.0, seed=2))["price"]
    low, high = pc.min_max(prices).as_py().values()
    assert 0.0 < low < high < 8.0


def test_level_of_one_batch():
    market = Market(symbols=2, fluctuation=0.0001, seed=3)
    calm, wild = market.batch(5_000), market.batch(5_000, fluctuation=0.01)
    means = [np.abs(steps(pa.Table.from_batches([each]))).mean() for each in (calm, wild)]
    assert means[1] / means[0] == pytest.approx(100, rel=0.1)


def test_all_symbols_trade_about_equally_often():
    counts = table(Market(symbols=20, seed=4))["symbol"].combine_chunks().value_counts()
    assert len(counts) == 20
    assert pc.min(counts.field("counts")).as_py() > 0.9 * EVENTS / 20


def test_clock_is_simulated_and_strictly_advancing():
    times = np.asarray(table(Market(symbols=2, seed=5))["ts"].cast(pa.int64()))
    assert (np.diff(times) == EVENT_INTERVAL_US).all()


def test_shares_are_whole_lots():
    shares = np.asarray(table(Market(symbols=2, seed=6))["shares"])
    assert set(shares.tolist()) == set(range(100, 1_001, 100))


def test_seed_decides_everything():
    first, same, other = (table(Market(symbols=9, seed=seed)) for seed in (7, 7, 8))
    assert first.equals(same)
    assert not first["price"].equals(other["price"])
    assert not first["symbol"].equals(other["symbol"])


def test_batches_are_invisible():
    whole = table(Market(symbols=9, seed=9), batch_size=EVENTS)
    for batch_size in (1_001, 4_096):
        parts = table(Market(symbols=9, seed=9), batch_size=batch_size)
        assert parts.combine_chunks().equals(whole.combine_chunks())


def test_symbols_are_distinct_and_readable():
    names = Market(symbols=30_000).symbols.to_pylist()
    assert len(set(names)) == 30_000
    assert all(len(name) == 4 and name.isalpha() for name in names)


def test_more_symbols_than_four_letters_can_name():
    assert pc.count_distinct(Market(symbols=26**4 + 3).symbols).as_py() == 26**4 + 3


def test_stream_fits_the_events():
    engine = eq.Engine(market_stream())
    market = Market(symbols=4, seed=10)
    engine.register(eq.Range("all", {"price": (None, None)}))
    notices = engine.process(market.batch(50))
    assert notices.num_rows == 50
    assert engine.stats()["dead_letters"] == 0


@pytest.mark.parametrize("kind", ["border", "range", "threshold"])
def test_queries_are_valid(kind):
    symbols = Market(symbols=50).symbols
    queries = market_queries(5_000, kind, symbols=symbols, width=0.002, seed=1)
    engine = eq.Engine(market_stream())
    assert engine.register_table(queries, kind=kind).registered == 5_000
    low, high = (np.asarray(queries[name]) for name in ("price_lo", "price_hi"))
    np.testing.assert_allclose(high - low, 2_000.0)
    assert 0.0 <= low.min() < low.max() < 1_000_000.0
    assert low.mean() == pytest.approx(500_000, rel=0.03)
    assert set(queries["key"].to_pylist()) == set(symbols.to_pylist())


def test_thresholds_have_totals_and_some_repeat():
    queries = market_queries(5_000, "threshold", symbols=["A", "B"], seed=1, first=2)
    total = np.asarray(queries["total"])
    assert 10_000 <= total.min() < 11_000
    assert 99_000 < total.max() <= 100_000
    numbers = query_numbers(queries["id"])
    assert numbers.tolist() == list(range(2, 5_002))
    assert queries["repeat"].to_pylist() == repeats(numbers).tolist()
    assert repeats(numbers).sum() == 1_250
    assert "total" not in market_queries(1, "border", symbols=["A"]).column_names


def test_queries_of_every_symbol_have_no_key():
    assert "key" not in market_queries(3, "range", symbols=None).schema.names


def test_tables_of_queries_differ_by_kind_number_and_seed():
    symbols = ["A", "B"]
    tables = [
        market_queries(100, "border", symbols=symbols),
        market_queries(100, "range", symbols=symbols),
        market_queries(100, "border", symbols=symbols, first=100),
        market_queries(100, "border", symbols=symbols, seed=1),
    ]
    for one, two in pairwise(tables):
        assert not one["price_lo"].equals(two["price_lo"])
    ids = [name for each in tables[:3] for name in each["id"].to_pylist()]
    assert len(set(ids)) == 300
    assert tables[0].equals(market_queries(100, "border", symbols=symbols))


def test_ids_are_those_of_the_queries():
    queries = market_queries(5, "border", symbols=["A"], first=9_999_998)
    assert queries["id"].combine_chunks().equals(query_ids("border", 9_999_998, 5))


@pytest.mark.parametrize(
    "bad",
    [
        {"symbols": 0},
        {"fluctuation": 0.0},
        {"fluctuation": 0.25},
        {"fluctuation": float("nan")},
        {"domain": -1.0},
        {"domain": float("inf")},
        {"seed": -1},
    ],
)
def test_impossible_markets_are_refused(bad):
    (name,) = bad
    with pytest.raises(eq.InvalidStreamError, match=name):
        Market(**bad)


def test_impossible_batches_are_refused():
    with pytest.raises(eq.InvalidStreamError, match="batch_size"):
        next(Market(symbols=1).batches(10, 0))


@pytest.mark.parametrize("bad", [{"count": -1}, {"width": 0.0}, {"seed": -1}, {"first": -1}])
def test_impossible_queries_are_refused(bad):
    (name,) = bad
    with pytest.raises(eq.InvalidQueryError, match=name):
        market_queries(**{"count": 1, "kind": "range", "symbols": None, **bad})


def test_files_of_a_market_are_forgotten_from_the_first_on(tmp_path):
    files = MarketFiles(tmp_path, Market(symbols=3), events=10, fluctuations=(0.01,))
    written = [files.write() for _ in range(6)]
    assert files.newest(4) == written[2:]
    files.forget(45, kept=1)  # three whole files but one: the fifth is not read to its end
    assert sorted(tmp_path.iterdir()) == written[3:]
    assert files.newest(4) == written[3:]
    assert files.newest(2) == written[4:]
