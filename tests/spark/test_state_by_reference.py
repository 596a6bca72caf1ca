"""Jobs whose state refers to events: workers that lack it take them in again."""

import shutil

import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from everquery.errors import EventsGoneError, SparkError
from everquery.spark import read_files, wait_for, watch
from tests.spark.faults import WRITES, Plan, break_stages
from tests.spark.job import (
    ONE_READS,
    TWO_READ,
    JobFolder,
    assert_exact,
    partitioned,
    process_all,
    start,
)
from tests.spark.market import SCHEMA, STREAM, Owners, events


@pytest.fixture
def plan(tmp_path, monkeypatch):
    """Return what is to happen to workers, and let it happen."""
    plan = Plan(tmp_path / "plan")
    break_stages(monkeypatch, plan)
    return plan


def begin(spark, folder, **options):
    return start(spark, folder, STREAM, SCHEMA, dead_letters=True, state="reference", **options)


def test_workers_die_and_the_next_ones_take_in_again_what_they_lack(spark, tmp_path, plan):
    """Queries come and go meanwhile, and the job changes how it writes state."""
    folder = JobFolder(tmp_path, ONE_READS)
    owners = Owners(folder.registry)
    owners.register(60)
    query = begin(spark, folder)
    written = 0
    try:
        for point in (None, "shard begins", "read ends", *WRITES):
            if point is not None:
                plan.add("kill", point)
            owners.change()
            for _ in range(2):
                folder.write(written, events(written))
                written += 1
            process_all(query, folder)
            assert plan.waiting() == []
    finally:
        query.stop()
    for state in ("changes", "reference"):
        plan.add("kill", "shard begins")
        folder.write(written, events(written))
        written += 1
        options = {"dead_letters": True, "state": state, "trigger": {"availableNow": True}}
        wait_for(start(spark, folder, STREAM, SCHEMA, **options))
    assert_exact(folder, STREAM, least=1_000)


def test_a_file_that_is_gone_stops_a_job_that_needs_it_until_it_is_back(spark, tmp_path, plan):
    folder = JobFolder(tmp_path, ONE_READS)
    Owners(folder.registry).register(60)
    for number in range(2):
        folder.write(number, events(number))
    now = {"trigger": {"availableNow": True}}
    wait_for(begin(spark, folder, **now))
    first = min(folder.events.iterdir())
    shutil.move(first, tmp_path / "kept")
    folder.write(2, events(2))
    plan.add("kill", "shard begins")
    with pytest.raises(EventsGoneError, match=rf"{first} .*it is gone.*put it back"):
        wait_for(begin(spark, folder, **now))
    shutil.move(tmp_path / "kept", first)
    wait_for(begin(spark, folder, **now))
    assert_exact(folder, STREAM, least=100)


def test_state_refers_to_events_that_one_worker_reads(spark, tmp_path):
    refers = {"registry": f"sqlite:///{tmp_path}/queries.db", "create": True, "state": "reference"}
    frame = spark.readStream.schema(from_arrow_schema(SCHEMA)).parquet(str(tmp_path))
    with pytest.raises(SparkError, match="a DataFrame can't promise"):
        watch(frame, STREAM, **refers)
    (tmp_path / "events").mkdir()
    with partitioned(spark, TWO_READ.partitions):
        source = read_files(spark, STREAM, [tmp_path / "events"], schema=SCHEMA)
        with pytest.raises(SparkError, match=r"one partition of state.* is 2"):
            watch(source, STREAM, **refers)
    with partitioned(spark, 1), pytest.raises(SparkError, match=r"16 shards at most.* are 17"):
        watch(source, STREAM, shards=16, **refers)
    with pytest.raises(SparkError, match="it takes 'changes' or 'reference'"):
        watch(source, STREAM, **{**refers, "state": "whole"})
