"""What operators see of a real job."""

import json
import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

import everquery as eq
from everquery.spark import JobMetrics, read_files, watch
from everquery.spark.metrics import LABELS, METRICS, prometheus_text
from tests.servers.ports import wait_until
from tests.spark.job import SOURCES, partitioned

STREAM = eq.Stream("trades", key="symbol", attributes=["price"])
SPARK_PAGE = Path(__file__).parents[2] / "docs" / "spark.md"
SECONDS = 120


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'queries.db'}"


def write(folder, number, prices):
    folder.mkdir(exist_ok=True)
    rows = [json.dumps({"symbol": "IBM", "price": price}) for price in prices]
    (folder / f"{number}.json").write_text("\n".join(rows))


def frame(spark, folder, source):
    if source.kind == "files":
        return read_files(spark, STREAM, [folder])
    return spark.readStream.schema("symbol string, price double").json(str(folder))


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_a_job_is_counted(spark, url, tmp_path, source):
    told = []

    def counted(events):
        wait_until(lambda: sum(batch.events for batch in told) >= events, f"{events} events")

    metrics = JobMetrics(file=tmp_path / "everquery.prom", tell=told.append)
    with eq.Engine(STREAM, registry=url, create=True) as engine:
        engine.register(eq.Border("band", {"price": (40, 50)}, key="IBM"))
        write(tmp_path / "in", 0, [45.0, 55.0, None, 41.0])
        spark.streams.addListener(metrics)
        try:
            with partitioned(spark, source.partitions):
                notices = watch(
                    frame(spark, tmp_path / "in", source), STREAM, registry=url, shards=2
                )
                writer = notices.writeStream.queryName("alerts").format("noop")
                writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
                query = writer.start()
            counted(4)
            engine.register(eq.Range("cheap", {"price": (0, 10)}, key="IBM"))
            write(tmp_path / "in", 1, [5.0])
            counted(5)
            query.stop()
            assert metrics.wait(str(query.runId), SECONDS)
        finally:
            spark.streams.removeListener(metrics)
    found = metrics.snapshot()["alerts"]
    assert set(found) == set(METRICS)
    assert found["everquery_events_total"] == 5
    assert found["everquery_partial_total"] == 1
    assert found["everquery_lacking_total"] == {"price": 1}
    assert found["everquery_refused_total"] == 0
    assert found["everquery_notices_total"] == 5  # enter, leave, enter; leave, match
    assert found["everquery_queries"] == 2
    assert found["everquery_log_position"] == 2
    assert found["everquery_log_lag"] == 0
    assert found["everquery_up"] == found["everquery_failures_total"] == 0
    assert found["everquery_batches_total"] == len(told) >= 2
    assert found["everquery_trigger_seconds"] == told[-1].seconds > 0
    stages = {"open", "unpack", "changes", "events", "merge", "commit", "spark_add_batch"}
    assert stages <= set(found["everquery_stage_seconds"])
    assert sum(batch.events for batch in told) == 5
    written = (tmp_path / "everquery.prom").read_text()
    assert written == metrics.text()
    assert 'everquery_notices_total{query="alerts"} 5.0\n' in written
    assert 'everquery_stage_seconds{query="alerts",stage="open"} ' in written


def test_a_job_without_queries_says_so_once(spark, url, tmp_path, caplog):
    metrics = JobMetrics()
    write(tmp_path / "in", 0, [45.0])
    source = spark.readStream.schema("symbol string, price double").json(str(tmp_path / "in"))
    with pytest.raises(eq.RegistryError, match="there is no registry"):
        watch(source, STREAM, registry=url)
    spark.streams.addListener(metrics)
    try:
        writer = watch(source, STREAM, registry=url, create=True, shards=2).writeStream
        writer = writer.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.start()
        for number in (1, 2):
            query.processAllAvailable()
            write(tmp_path / "in", number, [45.0])
        query.stop()
        assert metrics.wait(str(query.runId), SECONDS)
    finally:
        spark.streams.removeListener(metrics)
    told = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    expected = f"no queries are registered on stream 'trades' in {url}"
    assert [each.startswith(expected) for each in told] == [True]


def test_other_jobs_are_left_alone(spark, tmp_path):
    metrics = JobMetrics()
    spark.streams.addListener(metrics)
    try:
        rate = spark.readStream.format("rate").load()
        query = rate.writeStream.format("noop").start()
        query.stop()
        assert metrics.wait(str(query.runId), SECONDS)
    finally:
        spark.streams.removeListener(metrics)
    assert metrics.snapshot() == {}


def test_text_is_what_prometheus_reads():
    name = 'a"b\\c\nd'
    jobs = {
        each: {
            metric: {f"{each}'s": 1e15, "0": 2} if metric in LABELS else 0.1 for metric in METRICS
        }
        for each in (name, "other")
    }
    families = list(text_string_to_metric_families(prometheus_text(jobs)))
    assert len(families) == len(METRICS)
    for family, (metric, (kind, meaning)) in zip(families, METRICS.items(), strict=True):
        assert (family.type, family.documentation) == (kind, meaning)
        assert family.name == (metric.removesuffix("_total") if kind == "counter" else metric)
        read = {}
        for sample in family.samples:
            assert sample.name == metric
            labels = dict(sample.labels)
            job = read.setdefault(labels.pop("query"), {})
            assert list(labels) == LABELS.get(metric, [])
            job[next(iter(labels.values()), None)] = sample.value
        expected = {job: found[metric] for job, found in jobs.items()}
        assert read == {
            job: value if isinstance(value, dict) else {None: value}
            for job, value in expected.items()
        }


def test_a_metric_without_samples_is_not_in_the_text():
    assert prometheus_text({}) == ""
    text = prometheus_text({"trades": {"everquery_up": 1, "everquery_stage_seconds": {}}})
    assert [line.split()[2] for line in text.splitlines()[:2]] == ["everquery_up"] * 2
    assert len(text.splitlines()) == 3


def test_the_page_lists_every_metric():
    page = SPARK_PAGE.read_text(encoding="utf-8")
    listed = re.search(r"<!-- metrics: .*? -->\n(.*?)<!-- /metrics -->", page, re.DOTALL)
    rows = [f"| `{name}` | {kind} | {meaning} |\n" for name, (kind, meaning) in METRICS.items()]
    assert listed[1] == "".join(rows)
