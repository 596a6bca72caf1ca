"""Streams long enough that structures grow, are compacted and are given up again."""

import contextlib
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import everquery as eq
from tests.conformance.sharded import ShardedRunner
from tests.spark import market

FILES, QUERIES, CHANGES = 14, 150, 40


def told(runner, first, *, churned=False, restored=False):
    """Return the notices of queries that are registered before the file `first`.

    With `churned`, some come and some go in front of each file behind that.
    """
    rng = np.random.default_rng(first)
    tables, live = [], []
    for number in range(FILES):
        if number == first:
            live = [register(runner, each) for each in range(QUERIES)]
        elif churned and number > first:
            change(runner, rng, live, QUERIES + CHANGES * number)
        tables.append(runner.process(market.events(number)))
        if restored:
            snapshot = runner.snapshot()
            runner.close()
            runner = eq.Engine(market.STREAM, all_columns=True, snapshot=snapshot)
    runner.close()
    return pa.concat_tables(tables, promote_options="permissive").to_pylist()


def register(runner, number):
    query = market.query(number)
    runner.register(query)
    return query.id


def change(runner, rng, live, number):
    """Register, drop, pause and resume queries; those that have ended by themselves stay so."""
    for each in range(CHANGES):
        what = rng.choice(["register", "deregister", "pause", "resume"], p=[0.4, 0.4, 0.1, 0.1])
        if what == "register":
            live.append(register(runner, number + each))
            continue
        name = live[rng.integers(len(live))]
        with contextlib.suppress(eq.UnknownQueryError):
            getattr(runner, what)(name)
        if what == "deregister":
            live.remove(name)


def ids(notices):
    return Counter((row["notice_id"], row["event"], repr(row.get("value"))) for row in notices)


@pytest.mark.parametrize(("first", "churned"), [(0, False), (3, False), (0, True), (2, True)])
def test_restored_or_in_shards_it_tells_the_same(first, churned):
    plain = ids(told(eq.Engine(market.STREAM, all_columns=True), first, churned=churned))
    assert plain.total() > 10_000
    again = told(eq.Engine(market.STREAM, all_columns=True), first, churned=churned, restored=True)
    assert ids(again) == plain
    assert ids(told(ShardedRunner(market.STREAM), first, churned=churned)) == plain
