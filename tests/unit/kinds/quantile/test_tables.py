"""Tables of quantiles: good rows become blocks, bad ones have their reason."""

import time

import numpy as np
import pyarrow as pa
import pytest

import everquery as eq
from everquery.queries.table import check_table

TRADES = eq.Stream("trades", key="symbol", time="ts", attributes=["price", "volume"])
PRICES = eq.Stream("prices", attributes=["price"])


def none(ids):
    return np.zeros(len(ids), np.bool_)


def check(columns, stream=TRADES):
    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    return check_table(table, eq.Quantile, stream, already_live=none, repeated=none)


def row(**columns):
    """Return a table of a good row with some columns that are not."""
    good = {"id": "a", "attribute": "price", "phi": 0.5, "epsilon": 0.01}
    return {name: [value] for name, value in {**good, **columns}.items()}


def test_good_rows_become_blocks():
    checked = check(
        {
            "id": ["a", "b", "c", "d", "e"],
            "attribute": ["price", "volume", "price", "price", "volume"],
            "phi": [0.5, 1.0, 1e-300, 0.25, 0.75],
            "epsilon": [0.01, 0.01, 0.3, 0.5, 0.999],
            "last": [100, None, 2**31 - 1, None, 2],
            "by_key": [True, None, False, False, False],
            "key": [None, None, "IBM", None, "IBM"],
            "owner": ["ann", None, None, None, None],
            "labels": [None, '{"team": "fx"}', None, None, None],
            "ttl": [5, None, None, None, None],
            "throttle": [None, 7, None, None, None],
        }
    )
    assert checked.errors.num_rows == 0
    found = {tuple(block.ids.to_pylist()): block for block in checked.blocks}
    assert set(found) == {("a", "d"), ("b",), ("c",), ("e",)}
    block = found["a", "d"]
    assert (block.kind, block.attributes, block.keys) == ("quantile", (0,), None)
    assert np.all(block.low == -np.inf)
    assert np.all(np.isnan(block.high))
    assert block.low.shape == block.high.shape == (1, 2)
    assert block.options["by_key"].tolist() == [True, False]
    assert {name: column.tolist() for name, column in block.numbers.items()} == {
        "phi": [0.5, 0.25],
        "epsilon": [0.01, 0.5],
        "last": [100, 0],
        "by": [0, 0],
    }
    assert found["b",].attributes == (1,)
    assert found["b",].numbers["last"].tolist() == [0]
    assert found["c",].keys.to_pylist() == ["IBM"]
    assert list(found["a", "d"].spans) == ["ttl"]


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"attribute": None}, "attribute is null"),
        ({"attribute": "prise"}, "no such attribute (it has 'price', 'volume')"),
        ({"attribute": ""}, "no such attribute"),
        ({"phi": 0.0}, "phi must be above 0 and at most 1"),
        ({"phi": 1.0000000000000002}, "phi must be above 0 and at most 1"),
        ({"phi": 2}, "phi must be above 0 and at most 1"),
        ({"phi": float("inf")}, "phi must be above 0 and at most 1"),
        ({"phi": float("nan")}, "phi is NaN"),
        ({"phi": None}, "phi is null"),
        ({"epsilon": 0.0}, "epsilon must be above 0 and below 1"),
        ({"epsilon": 1.0}, "epsilon must be above 0 and below 1"),
        ({"epsilon": float("nan")}, "epsilon is NaN"),
        ({"epsilon": None}, "epsilon is null"),
        ({"last": 0}, "last must be 1 or more: an empty window"),
        ({"last": -(2**63)}, "last must be 1 or more: an empty window"),
        ({"last": 2**31}, "last must be at most 2,147,483,647 rows"),
        ({"last": 1e300}, "last must be at most 2,147,483,647 rows"),
        ({"last": 2.5}, "last must be a whole number"),
        ({"last": float("nan")}, "last must be a whole number"),
        ({"last": 99}, "last is shorter than 1/epsilon rows"),
        ({"last": 1, "epsilon": float("nan")}, "epsilon is NaN"),
        ({"by_key": True, "key": "IBM"}, "by_key is true, and it has a key already"),
        ({"id": None}, "id is null"),
        ({"ttl": -1}, "ttl must be positive"),
        ({"labels": "fx"}, "labels is not a JSON object"),
    ],
)
def test_bad_rows(columns, reason):
    checked = check(row(**columns))
    assert checked.blocks == ()
    (error,) = checked.errors.to_pylist()
    assert reason in error["reason"]
    # Beside a good row, only the bad one is left out.
    both = pa.concat_tables(
        [pa.table(row(**columns)), pa.table(row(id="good"))], promote_options="permissive"
    )
    assert check(both).errors.to_pylist() == [error]
    assert [block.ids.to_pylist() for block in check(both).blocks] == [["good"]]


def test_the_same_windows_are_taken_as_in_specs():
    random = np.random.default_rng(5)
    epsilon = np.concatenate([1 / random.integers(2, 500, 300), random.uniform(1e-3, 1, 300)])
    last = np.rint(1 / epsilon).astype(np.int64) + random.integers(-1, 2, 600)
    ids = [str(i) for i in range(600)]
    columns = {"id": ids, "phi": [0.5] * 600, "epsilon": epsilon, "last": last}
    bad = set(check({**columns, "attribute": ["price"] * 600}).errors["row"].to_pylist())
    for i in range(600):
        try:
            eq.Quantile("q", "price", phi=0.5, epsilon=epsilon[i], last=last[i])
        except eq.InvalidQueryError:
            assert i in bad
        else:
            assert i not in bad


def test_by_key_needs_a_stream_with_a_key():
    table = {"id": ["a", "b"], "phi": [0.5, 1], "epsilon": [0.1, 0.1], "by_key": [True, False]}
    checked = check(table, PRICES)
    (error,) = checked.errors.to_pylist()
    assert error["id"] == "a"
    assert error["reason"] == "by_key needs a stream with a key; 'prices' has none"


def test_the_only_attribute_need_not_be_named():
    (block,) = check({"id": ["a"], "phi": [1], "epsilon": [0.1]}, PRICES).blocks
    assert block.attributes == (0,)
    assert block.numbers["phi"].tolist() == [1.0]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"id": ["a"], "phi": [0.5], "epsilon": [0.1]}, "no column 'attribute'"),
        ({"id": ["a"], "attribute": ["price"], "epsilon": [0.1]}, "no column 'phi'"),
        ({"id": ["a"], "attribute": ["price"], "phi": [0.1]}, "no column 'epsilon'"),
        (row(price_lo=1.0), "has no column 'price_lo'"),
        (row(closed="both"), "has no column 'closed'"),
        (row(total=5), "has no column 'total'"),
        (row(epsilom=0.5), "did you mean 'epsilon'?"),
        (row(phi="0.5"), "column 'phi' has type string; it must be numbers"),
        (row(last="5"), "column 'last' has type string; it must be integers"),
        (row(last=True), "column 'last' has type bool; it must be integers"),
        (row(attribute=7), "column 'attribute' has type int64; it must be strings"),
        (row(by_key=1), "column 'by_key' has type int64; it must be true or false"),
    ],
)
def test_bad_tables(columns, said):
    with pytest.raises(eq.InvalidTableError) as caught:
        check(columns)
    assert said in str(caught.value)


def test_other_kinds_name_no_attribute():
    table = pa.table({"id": ["a"], "attribute": ["price"]})
    with pytest.raises(eq.InvalidTableError, match="no column 'attribute'"):
        check_table(table, eq.Border, TRADES, already_live=none, repeated=none)


def test_dictionaries_and_decimals_are_read():
    columns = row(phi=0.5) | {
        "attribute": pa.array(["volume"]).dictionary_encode(),
        "epsilon": pa.array([0.25]).cast(pa.decimal128(5, 3)),
        "last": pa.array([4], pa.uint8()),
    }
    (block,) = check(columns).blocks
    assert block.attributes == (1,)
    assert [column.tolist() for column in block.numbers.values()] == [[0.5], [0.25], [4], [0]]


def test_a_million_rows():
    n = 1_000_000
    random = np.random.default_rng(7)
    table = pa.table(
        {
            "id": pa.array(np.arange(n)).cast(pa.string()),
            "attribute": pa.array(["price", "volume"]).take(pa.array(random.integers(0, 2, n))),
            "phi": random.uniform(-0.1, 1.1, n),
            "epsilon": random.uniform(0, 1, n),
            "last": pa.array(random.integers(0, 100, n), mask=random.random(n) < 0.5),
            "by_key": random.random(n) < 0.5,
        }
    )
    begin = time.process_time()
    checked = check(table)
    assert time.process_time() - begin < 3  # 0.3 s here; a loop over rows takes much longer
    assert sum(map(len, checked.blocks)) + checked.errors.num_rows == n
    assert {block.attributes for block in checked.blocks} == {(0,), (1,)}
