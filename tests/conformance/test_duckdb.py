"""DuckDB as a second, independent oracle, over a million events."""

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import everquery as eq

EVENTS, KEYS, QUERIES = 1_000_000, 200, 3_000

pytestmark = pytest.mark.million


@pytest.fixture(scope="module")
def events():
    """Return random walks on a lattice, so that values fall on borders often."""
    rng = np.random.default_rng(7)
    key = rng.integers(0, KEYS, EVENTS)
    order = np.argsort(key, kind="stable")
    steps = rng.integers(-3, 4, EVENTS) / 4
    walk = np.cumsum(steps[order])
    first = np.searchsorted(key[order], np.arange(KEYS))
    base = np.where(first > 0, walk[first - 1], 0.0)
    x = np.empty(EVENTS)
    x[order] = np.abs(walk - base[key[order]]) % 100
    y = rng.integers(0, 400, EVENTS) / 4
    names = np.array([f"key{i}" for i in range(KEYS)])
    return pa.table({"k": names[key], "n": np.arange(EVENTS), "x": x, "y": y})


@pytest.fixture(scope="module")
def queries():
    rng = np.random.default_rng(8)
    low = rng.integers(0, 396, (2, QUERIES)) / 4
    high = low + rng.integers(1, 16, (2, QUERIES)) / 4
    both = rng.random(QUERIES) < 0.5
    keys = np.array([f"key{i}" for i in range(KEYS)])[rng.integers(0, KEYS, QUERIES)]
    keyless = rng.random(QUERIES) < 0.02
    return pa.table(
        {
            "id": [f"q{i}" for i in range(QUERIES)],
            "key": pa.array(keys, mask=keyless),
            "x_lo": low[0],
            "x_hi": high[0],
            "y_lo": pa.array(low[1], mask=~both),
            "y_hi": pa.array(high[1], mask=~both),
        }
    )


INSIDE = """
    SELECT id, e.k, e.n, seq
    FROM numbered e JOIN queries q
    ON (q.key IS NULL OR q.key = e.k) AND e.x >= x_lo AND e.x < x_hi
       AND (y_lo IS NULL OR (e.y >= y_lo AND e.y < y_hi))
"""
NUMBERED = "SELECT *, row_number() OVER (PARTITION BY k ORDER BY n) - 1 AS seq FROM events"
RANGES = f"WITH numbered AS ({NUMBERED}) SELECT id, k, seq, 'match' FROM ({INSIDE})"
# Inside now and not at the key's event before: enter. Inside before and not now: leave.
BORDERS = f"""
    WITH numbered AS ({NUMBERED}), inside AS ({INSIDE})
    SELECT id, k, seq, 'enter' FROM inside i
    WHERE NOT EXISTS (FROM inside b WHERE b.id = i.id AND b.k = i.k AND b.seq = i.seq - 1)
    UNION ALL
    SELECT i.id, i.k, e.seq, 'leave'
    FROM inside i JOIN numbered e ON e.k = i.k AND e.seq = i.seq + 1
    WHERE NOT EXISTS (FROM inside a WHERE a.id = i.id AND a.k = i.k AND a.seq = i.seq + 1)
"""


@pytest.mark.parametrize(("kind", "sql"), [("range", RANGES), ("border", BORDERS)])
def test_a_million_events_end_to_end(new_runner, events, queries, kind, sql):
    runner = new_runner(eq.Stream("s", key="k", attributes=["x", "y"]))
    runner.register_table(queries, kind=kind)
    told = []
    for batch in events.to_batches(max_chunksize=70_001):
        notices = runner.process(batch).select(["query_id", "key", "seq", "event"])
        told.append(notices.cast(pa.schema([(name, pa.int64() if name == "seq" else pa.string())
                                            for name in notices.column_names])))  # fmt: skip
    ours = pa.concat_tables(told)
    with duckdb.connect(config={"threads": 2}) as connection:
        for name, table in (("events", events), ("queries", queries), ("ours", ours)):
            connection.register(name, table)
        connection.execute(f"CREATE TEMP TABLE theirs AS {sql}")
        missing, extra, total = connection.execute(
            "SELECT (SELECT count(*) FROM (FROM theirs EXCEPT ALL FROM ours)),"
            " (SELECT count(*) FROM (FROM ours EXCEPT ALL FROM theirs)), count(*) FROM theirs"
        ).fetchone()
    assert (missing, extra) == (0, 0)
    assert total == ours.num_rows > 250_000
