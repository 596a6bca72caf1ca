"""Every shard in a partition of its own."""

import pytest
from pyspark.sql import functions

from everquery.errors import SparkError
from everquery.spark.partitions import partition_of, shard_codes


def test_codes_are_part_of_the_layout():
    # Another code would look for state where there is none.
    assert shard_codes(8) == [6397, 2019, 848, 206, 2183, 1651, 3955, 4288]


@pytest.mark.parametrize("partitions", [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 24])
def test_shards_spread_evenly_over_any_small_number_of_partitions(partitions):
    codes = shard_codes(24)
    assert len(set(codes)) == 24
    assert [partition_of(code, partitions) for code in codes] == [
        shard % partitions for shard in range(24)
    ]


@pytest.mark.parametrize("shards", [0, -1, 257])
def test_other_numbers_of_shards_are_refused(shards):
    with pytest.raises(SparkError, match="it takes 1 to 256"):
        shard_codes(shards)


def test_partitions_are_those_of_spark(spark):
    hashed = functions.expr("pmod(hash(cast(id AS int)), 7)").alias("partition")
    rows = spark.range(-100, 2_000).select("id", hashed).collect()
    assert [row["partition"] for row in rows] == [partition_of(row["id"], 7) for row in rows]
