"""Another number of partitions: stop, rescale, start; nothing is lost."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import everquery as eq
from everquery.errors import SparkError
from everquery.spark import read_files, watch
from everquery.spark.rescale import _note_batch, partitions_of, rescale
from everquery.testing import assert_same_notices, assert_unique_ids, notices_of
from tests.spark.job import SOURCES, partitioned

STREAM = eq.Stream("trades", key="symbol", attributes=["price"])


def events(number):
    keys = [f"k{i % 40}" for i in range(200)]
    prices = [float((7 * number + 13 * i) % 100) for i in range(200)]
    return pa.table({"symbol": keys, "price": prices})


class Job:
    def __init__(self, spark, folder, url, source):
        self.spark, self.folder, self.url, self.source = spark, folder, url, source

    def run(self, number):
        """Take in one more file of events, with the job started anew."""
        (self.folder / "in").mkdir(exist_ok=True)
        pq.write_table(events(number), self.folder / "in" / f"{number:03}.parquet")
        with partitioned(self.spark, self.source.partitions):
            notices = watch(self._events(), STREAM, registry=self.url)
            query = notices.writeStream.format("parquet").option("path", str(self.folder / "out"))
            query = query.option("checkpointLocation", str(self.folder / "checkpoint"))
            query.trigger(availableNow=True).start().awaitTermination()

    def _events(self):
        if self.source.kind == "files":
            return read_files(self.spark, STREAM, [self.folder / "in"])
        reader = self.spark.readStream.schema("symbol string, price double")
        return reader.parquet(str(self.folder / "in"))


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_the_state_goes_along(spark, tmp_path, source):
    url = f"sqlite:///{tmp_path}/queries.db"
    queries = [eq.Border(f"b{i}", {"price": (i, i + 30)}, key=f"k{i % 40}") for i in range(60)]
    queries += [eq.Range("high", {"price": (90, 200)})]
    registrar = eq.Engine(STREAM, registry=url, create=True)
    registrar.register(queries)
    job = Job(spark, tmp_path, url, source)
    checkpoint = str(tmp_path / "checkpoint")
    job.run(0)
    before = source.partitions
    assert partitions_of(checkpoint) == before
    with pytest.raises(SparkError, match=f"{before} partitions? already"):
        rescale(spark, checkpoint, before)
    out = str(tmp_path / "out")
    rescale(spark, checkpoint, 3, file_sink=out)
    assert partitions_of(checkpoint) == 3
    job.run(1)
    registrar.deregister("b0")
    rescale(spark, checkpoint, 1, file_sink=out)
    job.run(2)

    engine = eq.Engine(STREAM, all_columns=True)
    engine.register(queries)
    expected = [engine.process(events(0)), engine.process(events(1))]
    engine.deregister("b0")
    expected.append(engine.process(events(2)))
    told = pa.Table.from_pandas(spark.read.parquet(out).toPandas(), preserve_index=False)
    assert_unique_ids(told)
    wanted = [notice for table in expected for notice in notices_of(table, STREAM)]
    got = sorted(notices_of(told, STREAM), key=lambda notice: notice.seq)
    order = {query.id: place for place, query in enumerate(queries)}
    got.sort(key=lambda notice: (notice.seq, order[notice.query_id]))
    assert_same_notices(got, wanted)
    assert len(wanted) > 300


@pytest.mark.parametrize("partitions", [0, -1, True, 1.5])
def test_other_numbers_are_refused(spark, tmp_path, partitions):
    with pytest.raises(SparkError, match="it takes an integer of at least 1"):
        rescale(spark, str(tmp_path), partitions)


def test_what_is_no_checkpoint_is_refused(spark, tmp_path):
    for query in spark.streams.active:  # the runner of the conformance suite keeps its last one
        query.stop()
    with pytest.raises(SparkError, match="no checkpoint of a query that has run"):
        rescale(spark, str(tmp_path), 3)


@pytest.mark.parametrize("batch", range(1, 25))
def test_the_log_of_a_file_sink_has_no_gap(tmp_path, batch):
    # As Spark writes it: every tenth entry has all that came before it.
    entries = []
    for number in range(batch):
        entries.append(f'{{"path": "{number}"}}')
        whole = (number + 1) % 10 == 0
        lines = entries if whole else entries[-1:]
        name = f"{number}.compact" if whole else str(number)
        (tmp_path / name).write_text("\n".join(["v1", *lines]))
    _note_batch(tmp_path, batch, 10)
    if (batch + 1) % 10:
        assert (tmp_path / str(batch)).read_text() == "v1"
    else:
        assert (tmp_path / f"{batch}.compact").read_text().splitlines() == ["v1", *entries]
