"""Streams long enough that structures grow, are compacted and are given up again."""

from collections import Counter

import pyarrow as pa
import pytest

import everquery as eq
from tests.conformance.sharded import ShardedRunner
from tests.spark import market

FILES, QUERIES = 14, 150


def told(runner, first, *, restored=False):
    """Return the notices of queries that are registered before the file `first`."""
    tables = []
    for number in range(FILES):
        if number == first:
            for each in range(QUERIES):
                runner.register(market.query(each))
        tables.append(runner.process(market.events(number)))
        if restored:
            snapshot = runner.snapshot()
            runner.close()
            runner = eq.Engine(market.STREAM, all_columns=True, snapshot=snapshot)
    runner.close()
    return pa.concat_tables(tables, promote_options="permissive").to_pylist()


def ids(notices):
    return Counter((row["notice_id"], row["event"], repr(row.get("value"))) for row in notices)


@pytest.mark.parametrize("first", [0, 3])
def test_restored_or_in_shards_it_tells_the_same(first):
    plain = ids(told(eq.Engine(market.STREAM, all_columns=True), first))
    assert plain.total() > 10_000
    assert ids(told(eq.Engine(market.STREAM, all_columns=True), first, restored=True)) == plain
    assert ids(told(ShardedRunner(market.STREAM), first)) == plain
