"""Jobs that read files for themselves: files and journals that change under them, and restarts."""

import os
import shutil
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest

import everquery as eq
from everquery.errors import SparkError, UnreadableFileError
from everquery.sources.files import EventFile
from everquery.sources.folder_journal import FolderJournal
from everquery.spark import read_files, wait_for, watch
from tests.spark.job import (
    ONE_READS,
    SOURCES,
    TWO_READ,
    JobFolder,
    assert_exact,
    committed,
    files_read,
    forget_last_batch,
    partitioned,
    start,
    told,
)
from tests.spark.market import SCHEMA, STREAM, Owners, events

READING = [pytest.param(ONE_READS, id="one reads"), pytest.param(TWO_READ, id="two read")]


@pytest.fixture
def job(request, tmp_path):
    """Return the folder of a job over three files."""
    folder = JobFolder(tmp_path, request.param)
    Owners(folder.registry).register(60)
    for number in range(3):
        folder.write(number, events(number))
    return folder


def run(spark, folder, **options):
    """Take in all there is."""
    options = {"dead_letters": True, "trigger": {"availableNow": True}, **options}
    wait_for(start(spark, folder, STREAM, SCHEMA, **options))


def remove(path):
    path.unlink()


def replace(path):
    """Replace a file by another one of the same size."""
    content = path.read_bytes()
    path.write_bytes(content[:200] + bytes(len(content) - 400) + content[-200:])


def touch(path):
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 1_000))


@pytest.mark.parametrize("job", READING, indirect=True)
def test_a_file_that_is_not_what_it_was_stops_a_batch_that_is_done_again(spark, job, tmp_path):
    """And when it is put back, with its time of change, the job goes on."""
    run(spark, job)
    last = max(job.events.iterdir())
    shutil.copy2(last, tmp_path / "kept")
    forget_last_batch(job, told=True)
    for what, message in ((remove, "it is gone"), (replace, "has changed"), (touch, "has changed")):
        what(last)
        with pytest.raises(UnreadableFileError, match=rf"{last} .*{message}.* put it back"):
            run(spark, job)
        assert committed(job) == 1
        shutil.copy2(tmp_path / "kept", last)
    job.write(3, events(3))
    run(spark, job)
    assert_exact(job, STREAM, least=100)


@pytest.mark.parametrize("job", READING[:1], indirect=True)
def test_a_file_that_vanishes_between_being_found_and_being_read(spark, job, tmp_path):
    FolderJournal(job.journal, [job.events]).look(finished=False)
    last = max(job.events.iterdir())
    shutil.move(last, tmp_path / "kept")
    with pytest.raises(UnreadableFileError, match=rf"{last} is to be read, and it is gone"):
        run(spark, job)
    assert committed(job) == 1  # those before it are done
    shutil.move(tmp_path / "kept", last)
    run(spark, job)
    assert_exact(job, STREAM, least=100)


@pytest.mark.parametrize("job", READING[:1], indirect=True)
def test_a_journal_that_is_lost_stops_the_job_until_it_is_back(spark, job, tmp_path):
    run(spark, job)
    job.write(3, events(3))
    before = told(job)
    job.journal.rename(tmp_path / "kept")
    with pytest.raises(SparkError, match=r"counts files by another journal than .*files\.jsonl"):
        run(spark, job)
    assert told(job).equals(before)
    (tmp_path / "kept").rename(job.journal)
    with job.journal.open("a") as file:
        file.write('[{"path": "/cut/by/a/cra')
    run(spark, job)
    assert_exact(job, STREAM, least=100)


@pytest.mark.parametrize("job", READING[:1], indirect=True)
def test_a_damaged_file_stops_the_job_until_it_is_away(spark, job):
    run(spark, job)
    damaged = job.events / "00003.parquet"
    damaged.write_bytes(b"no Parquet")
    with pytest.raises(UnreadableFileError, match=rf"{damaged} is not Parquet"):
        run(spark, job)
    damaged.unlink()
    job.write(4, events(4))
    run(spark, job)
    assert_exact(job, STREAM, least=100)


@pytest.mark.parametrize("job", READING[:1], indirect=True)
def test_the_checkpoint_says_how_many_partitions_there_are(spark, job):
    """Whatever the session says when the job is started again."""
    run(spark, job)
    for number, source in enumerate((TWO_READ, ONE_READS), start=3):
        again = JobFolder(job.root, source)
        again.write(number, events(number))
        run(spark, again)
    assert_exact(job, STREAM, least=100)


def test_many_partitions_on_few_cores_lose_no_notice(spark, tmp_path):
    """Workers go on to their next task while their notices wait to be picked up."""
    folder = JobFolder(tmp_path, SOURCES["two read"]._replace(partitions=5))
    with eq.Engine(STREAM, registry=folder.registry, create=True) as engine:
        engine.register([eq.Range(f"all {i}", {}) for i in range(40)])
    for number in range(2):
        folder.write(number, events(number))
    run(spark, folder)
    assert_exact(folder, STREAM, least=20_000)
    assert not list(Path(spark.conf.get("spark.local.dir")).rglob("*.table"))


# -- other streams, and the files that users have ---------------------------------------------

SERIES = eq.Stream("series", attributes=["price"])
QUERIES = [
    eq.Border("band", {"price": (40, 50)}),
    eq.Threshold("seven hundred", {}, total=700, repeat=True, count=True),
    eq.Range("low", {"price": (0, 5)}),
]


def prices(number, rows):
    return pa.table({"price": [float((i * 7 + number * 11) % 97) for i in range(rows)]})


@pytest.mark.parametrize("source", READING)
def test_two_jobs_over_a_folder_of_text_beside_its_journal(spark, tmp_path, collect, source):
    """Later files have earlier names, others are hidden, empty or only begun."""
    folder = tmp_path / "in"
    folder.mkdir()
    url = f"sqlite:///{tmp_path}/queries.db"
    eq.Engine(SERIES, registry=url, create=True).register(QUERIES)
    write = pa.csv.write_csv
    write(prices(0, 900), folder / "b.csv")
    write(prices(1, 300), folder / "c.csv")
    for name in (".hidden.csv", "_other.csv"):
        write(prices(5, 10), folder / name)
    (folder / "d.csv").touch()
    with partitioned(spark, source.partitions):
        jobs = []
        for name in ("one", "other"):
            frame = watch(read_files(spark, SERIES, [folder]), SERIES, registry=url)
            jobs.append(collect(frame, tmp_path / name))
        wanted = expected(prices(0, 900), prices(1, 300))
        for job in jobs:
            job.wait(lambda job: len(job.rows) >= len(wanted))
        write(prices(2, 500), folder / "a.csv")
        wanted = expected(prices(0, 900), prices(1, 300), prices(2, 500))
        for job in jobs:
            job.wait(lambda job: len(job.rows) >= len(wanted))
            job.query.stop()
    for job in jobs:
        assert [tuple(row[name] for name in NAMES) for row in job.rows] == wanted
    assert (folder / "_everquery" / "files.jsonl").exists()


NAMES = ("query_id", "event", "seq", "price", "total", "notice_id")


def expected(*tables):
    engine = eq.Engine(SERIES, all_columns=True)
    engine.register(QUERIES)
    notices = [engine.process(table) for table in tables]
    rows = pa.concat_tables(notices).select(NAMES).to_pylist()
    return [tuple(row[name] for name in NAMES) for row in rows]


TEXTS = {
    "a.csv": "id,price\n7,45\n8,45\nseven,44\n7,cheap\n7,1,2,3\n7,\n-7,41\n7,99\n",
    "b.jsonl": '{"id": 7, "price": 42}\nnope\n{"id": "x", "price": 1}\n{"id": 8, "price": "z"}\n',
    "c.csv": "price,id\n3,7\n41,8\n",
}
KEYED = eq.Stream("keyed", key="id", attributes=["price"])
KEYED_QUERIES = [
    eq.Border("band", {"price": (40, 50)}),
    eq.Range("low", {"price": (0, 5)}, key=7),
    eq.Threshold("two", {}, total=2, repeat=True, count=True),
]


@pytest.mark.parametrize("source", READING)
def test_texts_with_integer_keys_and_what_can_not_be_read(spark, tmp_path, source):
    """As an engine over the same files; a line that is lost is a dead letter here."""
    (tmp_path / "in").mkdir()
    url = f"sqlite:///{tmp_path}/queries.db"
    eq.Engine(KEYED, registry=url, create=True).register(KEYED_QUERIES)
    engine = eq.Engine(KEYED, all_columns=True)
    engine.register(KEYED_QUERIES)
    wanted, lines = [], 0
    for name, text in TEXTS.items():
        path = tmp_path / "in" / name
        path.write_text(text)
        file = EventFile(path, KEYED, integer_keys=True)
        for piece in file.pieces():
            wanted += engine.process(piece.batch).to_pylist()
        lines += file.unreadable.count
    with partitioned(spark, source.partitions):
        events = read_files(spark, KEYED, [tmp_path / "in"], integer_keys=True)
        found = []
        writer = watch(events, KEYED, registry=url, dead_letters=True).writeStream
        writer = writer.foreachBatch(lambda batch, _: found.extend(batch.toArrow().to_pylist()))
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        wait_for(writer.trigger(availableNow=True).start())
    by_id = {row["notice_id"]: tuple(row[name] for name in NAMES) for row in wanted}
    notices = [row for row in found if row["query_id"]]
    assert {row["notice_id"]: tuple(row[name] for name in NAMES) for row in notices} == by_id
    assert len(notices) == len(wanted) >= 8
    letters = Counter(row["reason"] for row in found if row["kind"] == "dead_letter")
    assert lines == 2
    assert letters - Counter(unreadable_key=lines) == Counter(
        engine.dead_letters()["reason"].to_pylist()
    )


def test_all_that_has_come_is_in_the_order_of_the_journal(spark, tmp_path):
    """A batch of several files; the journal beside a file that was given by its name."""
    folder = JobFolder(tmp_path, ONE_READS)
    Owners(folder.registry).register(60)
    for number in range(3):
        folder.write(number, events(number))
    run(spark, folder, files=9)
    assert committed(folder) <= 1
    assert len(files_read(folder)) == 3
    assert_exact(folder, STREAM, least=100)
