"""Every shard in a partition of its own."""

import pytest
from pyspark.sql import functions

from everquery.spark.partitions import partition_of, shard_codes


def test_codes_as_measured():
    assert shard_codes(2, 2) == [2, 0]
    assert shard_codes(4, 4) == [12, 6, 2, 0]
    assert shard_codes(8, 8) == [12, 6, 5, 1, 25, 15, 2, 0]


@pytest.mark.parametrize(("shards", "partitions"), [(1, 1), (1, 8), (5, 3), (8, 2), (16, 16)])
def test_shards_spread_evenly_and_have_codes_of_their_own(shards, partitions):
    codes = shard_codes(shards, partitions)
    assert len(set(codes)) == shards
    assert [partition_of(code, partitions) for code in codes] == [
        shard % partitions for shard in range(shards)
    ]


def test_partitions_are_those_of_spark(spark):
    hashed = functions.expr("pmod(hash(cast(id AS int)), 7)").alias("partition")
    rows = spark.range(-100, 2_000).select("id", hashed).collect()
    assert [row["partition"] for row in rows] == [partition_of(row["id"], 7) for row in rows]
