"""Events ahead of their time: on Spark the clock is a timestamp of the batch, or a column."""

import json
import re
import shutil
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import everquery as eq
from everquery.errors import InvalidStreamError, SparkError
from everquery.spark import watch
from tests.spark.job import ONE_READS, SOURCES, TWO_READ, JobFolder, start, told

DAY = timedelta(days=1)
TIMES = {
    "timestamp": (pa.timestamp("us", tz="UTC"), datetime(2020, 5, 1, tzinfo=UTC)),
    "timestamp_ntz": (pa.timestamp("us"), datetime(2020, 5, 1)),
    "date": (pa.date32(), date(2020, 5, 1)),
}


def stream(**spans):
    return eq.Stream("s", key="k", time="t", attributes=["x"], **spans)


def refused(folder):
    reasons = told(folder)["reason"].to_pylist()
    return [reason for reason in reasons if reason is not None]


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
@pytest.mark.parametrize("kind", TIMES)
def test_the_clock_is_the_timestamp_that_spark_recorded_15(spark, tmp_path, kind, source):
    arrow, then = TIMES[kind]
    guarded, folder = stream(max_ahead=DAY), JobFolder(tmp_path, source)
    with eq.Engine(guarded, registry=folder.registry, create=True) as engine:
        engine.register(eq.Range("q", {}))
    events = pa.table(
        {"k": ["a", "b"], "t": pa.array([then, then.replace(year=2099)], arrow), "x": [1.0, 2.0]}
    )
    folder.write(0, events)

    def run():
        options = {"dead_letters": True, "trigger": {"availableNow": True}}
        start(spark, folder, guarded, events.schema, **options).awaitTermination()

    run()
    assert refused(folder) == ["ahead"]
    assert told(folder).num_rows == 2
    # A batch that is done again is judged by the timestamp of the first attempt: here we change it.
    _forget_batch(folder, number=0, at_ms=946_684_800_000)
    run()
    assert refused(folder) == ["ahead", "ahead"]


def _forget_batch(folder, *, number, at_ms):
    """Let a batch be done again, as of another time."""
    offsets = folder.checkpoint / "offsets" / str(number)
    text, count = re.subn(
        r'"batchTimestampMs":\d+', f'"batchTimestampMs":{at_ms}', offsets.read_text()
    )
    assert count == 1
    assert json.loads(text.splitlines()[1])["batchTimestampMs"] == at_ms
    offsets.write_text(text)
    for log in ("offsets", "commits"):
        (folder.checkpoint / log / f".{number}.crc").unlink(missing_ok=True)
    for commit in (folder.checkpoint / "commits").glob("[0-9]*"):
        commit.unlink()
    for later in (folder.checkpoint / "offsets").glob("[0-9]*"):
        if int(later.name) > number:
            later.unlink()
    shutil.rmtree(folder.notices)


@pytest.mark.parametrize("source", [ONE_READS, TWO_READ], ids=["one reads", "two read"])
def test_a_column_of_files_is_the_clock_15(spark, tmp_path, source):
    guarded, folder = stream(max_ahead=5), JobFolder(tmp_path, source)
    engine = eq.Engine(guarded, all_columns=True)
    queries = [eq.Range("all", {}), eq.Border("band", {"x": (3, 9)})]
    engine.register(queries)
    eq.Engine(guarded, registry=folder.registry, create=True).register(queries)
    wanted = []
    for number, now in enumerate((10, 30)):
        events = pa.table(
            {
                "k": [f"k{i % 3}" for i in range(40)],
                "t": pa.array([now - 10 + i % 20 for i in range(40)], pa.int64()),
                "x": [float(i % 13) for i in range(40)],
            }
        )
        wanted += engine.process(events, now=now).to_pylist()
        arrived = pa.repeat(pa.scalar(now, pa.int64()), events.num_rows)
        folder.write(number, events.append_column("arrived", arrived))
    options = {"dead_letters": True, "trigger": {"availableNow": True}, "clock": "arrived"}
    start(
        spark, folder, guarded, pq.read_schema(folder.events / "00000.parquet"), **options
    ).awaitTermination()
    found = told(folder).to_pylist()
    letters = engine.dead_letters()
    assert sorted(refused(folder)) == sorted(letters["reason"].to_pylist())
    assert letters["reason"].to_pylist().count("ahead") == 16
    names = ["query_id", "event", "key", "time", "seq", "x", "notice_id"]
    by_id = {row["notice_id"]: [row[name] for name in names] for row in found if row["query_id"]}
    assert by_id == {row["notice_id"]: [row[name] for name in names] for row in wanted}
    assert len(wanted) > 50


@pytest.fixture
def numbers(spark):
    return (
        spark.readStream.format("rate")
        .load()
        .selectExpr(
            "'a' AS k", "value AS t", "CAST(value AS double) AS x", "timestamp", "value AS arrived"
        )
    )


@pytest.mark.parametrize(
    ("spans", "clock", "error", "said"),
    [
        ({"max_ahead": 5}, None, InvalidStreamError, "its times are numbers"),
        ({"max_ahead": 5}, "nope", SparkError, "no such column"),
        ({"max_ahead": 5}, "timestamp", SparkError, "must be of the type of the time column"),
        ({}, "arrived", SparkError, "has no max_ahead"),
    ],
)  # fmt: skip
def test_clocks_that_can_not_be_15(numbers, tmp_path, spans, clock, error, said):
    registry = f"sqlite:///{tmp_path / 'q.db'}"
    with pytest.raises(error, match=said):
        watch(numbers, stream(**spans), registry=registry, clock=clock, create=True)


def test_a_column_tells_the_time_of_numbers_15(numbers, tmp_path):
    registry = f"sqlite:///{tmp_path / 'q.db'}"
    told_of = watch(numbers, stream(max_ahead=5), registry=registry, clock="arrived", create=True)
    assert told_of.isStreaming
