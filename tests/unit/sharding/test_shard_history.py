"""Shards of a job keep their past, exactly once, and fill queries from it."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import everquery as eq
from everquery.kinds import KINDS
from everquery.sharding.shard_history import folder_of
from tests.conformance.sharded import ShardedRunner

STREAM = eq.Stream("trades", key="k", time="t", attributes=["x"], weight="w", keep="all")
BATCHES = 6


def batch(number, n=20):
    rng = np.random.default_rng(number)
    times = np.arange(number * n, (number + 1) * n)
    keys = [f"k{each}" for each in rng.integers(0, 7, n).tolist()]
    return pa.table({"k": keys, "t": times, "x": rng.uniform(0, 10, n), "w": rng.integers(1, 5, n)})


def asked():
    return [
        eq.Border("border", {"x": (2, 6)}, dwell=3, throttle=30),
        eq.Range("range", {"x": (0, 1)}, key="k1"),
        eq.Threshold("once", {"x": (0, 8)}, total=100),
        eq.Threshold("by key", {"x": (0, 8)}, total=20, by_key=True, repeat=True),
        eq.Threshold("one key", {"x": (0, 8)}, total=20, key="k2", repeat=True),
        eq.Quantile("median", "x", phi=0.5, epsilon=0.05),
        eq.Silence("silent", after=12),
        eq.Border("ends", {"x": (2, 6)}, ttl=70),
    ]


def told_by(runner, at, begin=None):
    rows = []
    for number in range(BATCHES):
        if number == at:
            runner.register(asked(), **({} if begin is None else {"begin": begin}))
        rows += runner.process(batch(number)).to_pylist()
    return Counter(
        (row["query_id"], row["event"], row["key"], row["time"], row["notice_id"]) for row in rows
    )


@pytest.mark.parametrize(("begin", "at"), [("oldest", 0), (40, 2)])
def test_queries_that_begin_in_the_past_are_as_if_they_had_been_there(tmp_path, begin, at):
    expected = told_by(ShardedRunner(STREAM), at)
    found = told_by(ShardedRunner(STREAM, history=str(tmp_path)), 4, begin)
    assert {row[0] for row in expected} >= {"border", "once", "by key", "median", "silent"}
    assert found == expected


def test_every_event_is_kept_once_whatever_is_done_again(tmp_path):
    runner = ShardedRunner(STREAM, history=str(tmp_path))  # attempts fail now and then
    for number in range(BATCHES):
        runner.process(batch(number))
    kept = [
        row
        for shard in range(runner.shards)
        for path in sorted(folder_of(str(tmp_path), shard).glob("*.parquet"))
        for row in pq.read_table(path, columns=["k", "t"]).to_pylist()
    ]
    sent = [row for number in range(BATCHES) for row in batch(number).to_pylist()]
    assert sorted((row["k"], row["t"]) for row in kept) == sorted(
        (row["k"], row["t"]) for row in sent
    )


def test_a_job_without_history_begins_now_and_says_so(caplog):
    expected = told_by(ShardedRunner(STREAM), 4)
    assert told_by(ShardedRunner(STREAM), 4, "oldest") == expected
    assert "not possible here" in caplog.text


def test_all_kinds_are_asked():
    assert {query.kind for query in asked()} <= set(KINDS)
