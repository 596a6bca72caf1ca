"""Which parts of which files a batch has: offsets are numbers in a journal. No job runs here."""

import json
import os
import pickle
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

import everquery as eq
from everquery.errors import (
    InvalidBatchError,
    InvalidStreamError,
    SparkError,
    UnreadableFileError,
)
from everquery.sharding.spans import Spans
from everquery.spark import file_source, files, read_files, watch
from everquery.spark.file_source import FileSource, FileStreamReader
from everquery.spark.rows import SPAN_NAMES

STREAM = eq.Stream("trades", key="symbol", attributes=["price"])
TABLE = pa.table({"symbol": ["A", "B"], "price": [1.0, 2.0]})
SIZE = 16 + 2 * 5  # about, of a row group


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


def write(folder, *names):
    for name in names:
        pq.write_table(TABLE, folder / f"{name}.parquet")


def reader(folder, *, together=True, bytes_a_batch=1 << 20, files="", journal=None):
    made = FileStreamReader(
        {
            "inputs": json.dumps([str(folder)]),
            "journal": str(journal or folder.parent / "journal"),
            "together": str(together),
            "maxBytes": str(bytes_a_batch),
            "maxFiles": str(files),
        }
    )
    made._look = lambda journal: journal.look(finished=True)  # at once, whatever the clock says
    return made


def batches(source):
    """Return the names of the files of all batches that there are now."""
    start, found = source.initialOffset(), []
    while (end := source.latestOffset(start, source.getDefaultReadLimit())) != start:
        found.append(files_of(source, start, end))
        start = json.loads(json.dumps(end))  # as Spark keeps it
    return found


def files_of(source, start, end, *, ahead=False):
    rows = [row for part in source.partitions(start, end) for row in read(source, part)]
    spans = [Spans.from_bytes(row["payload"]) for row in rows]
    return [
        Path(name["path"]).stem for each in spans for name in (each.ahead if ahead else each.names)
    ]


def read(source, partition):
    partition = pickle.loads(pickle.dumps(partition))
    return [row for batch in source.read(partition) for row in batch.to_pylist()]


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({}, ["abcde"]),
        ({"files": 2}, ["ab", "cd", "e"]),
        ({"files": 5}, ["abcde"]),
        ({"bytes_a_batch": 1}, list("abcde")),
    ],
)
def test_batches_end_where_they_are_full(folder, together, limits, expected):
    write(folder, *"badec")
    source = reader(folder, together=together, **limits)
    assert ["".join(batch) for batch in batches(source)] == expected
    start = source.initialOffset()
    everything = source.latestOffset(start, ReadAllAvailable())
    assert files_of(source, start, everything) == list("abcde")
    assert source.reportLatestOffset() == everything


def test_one_row_has_all_spans_or_each_has_one(folder):
    write(folder, *"abc")
    together, apart = reader(folder, together=True), reader(folder, together=False)
    start = together.initialOffset()
    end = together.latestOffset(start, ReadAllAvailable())
    (partition,) = together.partitions(start, end)
    (row,) = read(together, partition)
    assert (row["source"], row["first"], row["shard"]) == (SPAN_NAMES, 0, 0)
    rows = [read(apart, partition) for partition in apart.partitions(start, end)]
    assert [row["first"] for (row,) in rows] == [0, 1, 2]
    assert together.partitions(start, start) == apart.partitions(start, start) == []


def test_who_has_the_shards_learns_what_comes_next(folder):
    write(folder, *"abcde")
    source = reader(folder, files=2)
    start = source.initialOffset()
    end = source.latestOffset(start, source.getDefaultReadLimit())
    assert files_of(source, start, end, ahead=True) == ["c", "d"]
    last = source.latestOffset(end, ReadAllAvailable())
    assert files_of(source, end, last, ahead=True) == []
    apart = reader(folder, files=2, together=False)
    apart.latestOffset(start, ReadAllAvailable())
    assert files_of(apart, start, end, ahead=True) == []


def test_files_that_come_later_come_behind_those_that_were_there(folder):
    write(folder, "b", "d")
    source = reader(folder)
    start = source.initialOffset()
    end = source.latestOffset(start, source.getDefaultReadLimit())
    write(folder, "a", "c")
    later = source.latestOffset(end, source.getDefaultReadLimit())
    assert files_of(source, end, later) == ["a", "c"]
    again = reader(folder)  # after a crash
    assert files_of(again, start, end) == ["b", "d"]
    assert files_of(again, end, later) == ["a", "c"]
    assert again.latestOffset(later, again.getDefaultReadLimit()) == later


def test_available_now_is_what_is_there_at_the_start(folder):
    write(folder, "a", "b")
    source = reader(folder, files=1)
    source._look = FileStreamReader._look.__get__(source)
    source.prepareForTriggerAvailableNow()
    write(folder, "c")
    assert batches(source) == [["a"], ["b"]]
    assert files_of(source, *_ends(source, 1, 2), ahead=True) == []  # c is of another run
    more = reader(folder, files=1)
    more.prepareForTriggerAvailableNow()
    assert batches(more) == [["a"], ["b"], ["c"]]


def _ends(source, first, last):
    return source._offset(first), source._offset(last)


@pytest.mark.parametrize("what", ["deleted", "another", "shorter"])
def test_a_checkpoint_of_another_journal_is_an_error(folder, what):
    write(folder, "a", "b")
    source = reader(folder)
    start = source.initialOffset()
    end = source.latestOffset(start, ReadAllAvailable())
    journal = folder.parent / "journal"
    if what == "deleted":
        journal.unlink()
    elif what == "another":
        journal = folder.parent / "other"
    else:
        journal.write_text(journal.read_text().splitlines(keepends=True)[0])
    other = reader(folder, journal=journal)
    other._look = lambda journal: None
    for call in (
        lambda: other.latestOffset(end, other.getDefaultReadLimit()),
        lambda: other.partitions(start, end),
    ):
        with pytest.raises(SparkError, match=rf"by another journal than {journal}, .* put back"):
            call()


def test_two_jobs_share_a_journal(folder):
    write(folder, "b")
    one, other = reader(folder), reader(folder)
    start = one.initialOffset()
    first = one.latestOffset(start, ReadAllAvailable())
    write(folder, "a")
    assert files_of(other, start, other.latestOffset(start, ReadAllAvailable())) == ["b", "a"]
    assert files_of(one, first, one.latestOffset(first, ReadAllAvailable())) == ["a"]


def test_a_look_that_takes_long_is_not_repeated_at_once(folder, monkeypatch):
    clock = iter([100.0, 100.5, 101.0, 104.9, 105.0, 105.0])
    monkeypatch.setattr(file_source.time, "monotonic", lambda: next(clock))
    looks = []

    class Journal:
        def look(self, *, finished):
            looks.append(finished)

    source = reader(folder)
    for _ in range(4):
        FileStreamReader._look(source, Journal())
    assert looks == [True, True]  # at 100 and 105; 101 and 104.9 are too early


def test_the_source_is_known_by_its_name(folder):
    assert FileSource.name() == "everquery_files"


# -- what read_files takes --------------------------------------------------------------------


def made(spark, folder, **options):
    return read_files(
        spark, options.pop("stream", STREAM), options.pop("inputs", [folder]), **options
    )


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"inputs": "in"}, SparkError, "inputs is 'in'; give a list of paths"),
        ({"inputs": Path("in")}, SparkError, "give a list of paths"),
        ({"inputs": []}, SparkError, "inputs is empty"),
        ({"inputs": ["nowhere.csv"]}, UnreadableFileError, "nowhere.csv is not there"),
        ({"inputs": [5]}, SparkError, "inputs has 5, which is no path"),
        ({"inputs": None}, SparkError, "inputs is None; give a list of paths"),
        ({"stream": "trades"}, InvalidStreamError, "'trades' is no stream"),
        ({"max_bytes_a_batch": 0}, SparkError, "max_bytes_a_batch is 0"),
        ({"max_bytes_a_batch": "1"}, SparkError, "max_bytes_a_batch is '1'"),
        ({"max_bytes_a_batch": True}, SparkError, "max_bytes_a_batch is True"),
        ({"max_files_a_batch": 1.5}, SparkError, "max_files_a_batch is 1.5"),
        ({"max_files_a_batch": -1}, SparkError, "max_files_a_batch is -1"),
        ({"schema": "symbol string"}, SparkError, "schema is 'symbol string'; it takes an Arrow"),
        ({}, UnreadableFileError, "no file of events in"),
    ],
)
def test_bad_input_is_an_error_at_once(spark, folder, options, error, message):
    with pytest.raises(error, match=message):
        made(spark, folder, **options)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ([("price", pa.float64())], "needs column 'symbol'"),
        ([("symbol", pa.float64()), ("price", pa.float64())], "'symbol' has type double"),
        ([("symbol", pa.string()), ("price", pa.string())], "'price' has type string"),
    ],
)
def test_a_schema_that_does_not_fit_is_an_error_at_once(spark, folder, schema, message):
    source = made(spark, folder, schema=pa.schema(schema))
    with pytest.raises(InvalidBatchError, match=message):
        watch(source, STREAM, registry=f"sqlite:///{folder.parent}/queries.db", create=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"place": ["n"]}, "are for DataFrames"),
        ({"file_order": "time"}, "are for DataFrames"),
        ({"carry": ["venue"]}, "'venue' is to be carried, and the events have symbol, price"),
        ({"clock": "price"}, "has no max_ahead"),
    ],
)
def test_what_watch_does_not_take(spark, folder, options, message):
    write(folder, "a")
    url = f"sqlite:///{folder.parent}/queries.db"
    with pytest.raises(SparkError, match=message):
        watch(made(spark, folder), STREAM, registry=url, create=True, **options)


def test_an_empty_folder_is_fine_with_a_schema(spark, folder):
    source = made(spark, folder, schema=TABLE.schema)
    assert source.columns.names == ["symbol", "price"]


def test_the_types_are_those_of_the_first_file_that_has_any(spark, folder):
    (folder / "a.csv").touch()
    more = TABLE.append_column("venue", pa.array(["x", "y"]).dictionary_encode())
    pq.write_table(more, folder / "b.parquet")
    pq.write_table(TABLE, folder / "c.parquet")
    found = made(spark, folder).schema
    assert found.names == ["symbol", "price", "venue"]


def test_journals_of_other_inputs_are_others(spark, folder, tmp_path, monkeypatch):
    write(folder, "a", "b")
    (tmp_path / "more").mkdir()
    inputs = [
        [folder],
        [folder / "a.parquet"],
        [folder / "b.parquet"],
        [folder / "a.parquet", folder / "b.parquet"],
        [folder, tmp_path / "more"],
    ]
    journals = [Path(made(spark, folder, inputs=each).options["journal"]) for each in inputs]
    assert len(set(journals)) == len(inputs)
    assert journals[0] == folder / "_everquery" / "files.jsonl"
    assert {journal.parent for journal in journals} == {folder / "_everquery"}
    monkeypatch.chdir(tmp_path)
    same = made(spark, folder, inputs=["in/a.parquet"])
    assert Path(same.options["journal"]) == journals[1]


def test_a_folder_that_can_not_be_written_to_needs_a_journal_elsewhere(spark, folder, monkeypatch):
    write(folder, "a")
    monkeypatch.setattr(files.os, "access", lambda path, how: path != folder)
    with pytest.raises(SparkError, match=r"can't be written to; say where .*journal="):
        made(spark, folder)
    source = made(spark, folder, journal=folder.parent / "journal")
    assert source.options["journal"] == str(folder.parent / "journal")
    assert not (folder / "_everquery").exists()


# -- what is read -----------------------------------------------------------------------------


def events(path, source, names=("symbol", "price")):
    """Return the events of a file, as a worker reads them."""
    journal = reader(path.parent, journal=path.parent / f"_{path.name}.journal")
    start = journal.initialOffset()
    journal.prepareForTriggerAvailableNow()
    (partition,) = journal.partitions(start, journal.latestOffset(start, ReadAllAvailable()))
    (row,) = read(journal, partition)
    spans = [each for each in Spans.from_bytes(row["payload"]).names if each["path"] == str(path)]
    made = source.reads(list(names))
    return [row for span in spans for table in made.read(span) for row in table.to_pylist()]


def test_columns_of_other_types_later(spark, folder):
    """Where values fit they are taken; where not, they are told as what they are."""
    write(folder, "a")
    source = made(spark, folder)
    later = {
        "b.parquet": pa.table({"symbol": ["C"], "price": pa.array([3], pa.int8())}),
        "c.parquet": pa.table({"symbol": pa.array(["C"], pa.large_string()), "price": ["4.5"]}),
        "d.parquet": pa.table({"symbol": ["C"], "price": ["cheap"]}),
        "e.parquet": pa.table({"symbol": ["C"], "other": [1]}),
    }
    found = {}
    for name, table in later.items():
        pq.write_table(table, folder / name)
        (row,) = events(folder / name, source)
        assert row["symbol"] == "C"
        found[name[0]] = row["price"], bool(row["everquery unreadable"])
    assert found == {"b": (3.0, False), "c": (4.5, False), "d": (None, True), "e": (None, False)}


def test_every_format_reads_the_same(spark, folder):
    source = made(spark, folder, schema=TABLE.schema)
    csv, lines = "symbol,price\nA,1\nB,2\n", [json.dumps(row) for row in TABLE.to_pylist()]
    (folder / "a.csv").write_text(csv)
    (folder / "b.jsonl").write_text("\n".join(lines))
    (folder / "c.json").write_text(f"[{','.join(lines)}]")
    with pa.CompressedOutputStream(str(folder / "d.csv.gz"), "gzip") as file:
        file.write(csv.encode())
    with pa.CompressedOutputStream(str(folder / "e.jsonl.zst"), "zstd") as file:
        file.write("\n".join(lines).encode())
    with pa.ipc.new_file(str(folder / "f.arrow"), TABLE.schema) as file:
        file.write_table(TABLE)
    with pa.ipc.new_stream(str(folder / "g.arrows"), TABLE.schema) as file:
        file.write_table(TABLE)
    write(folder, "h")
    for path in sorted(path for path in folder.iterdir() if path.is_file()):
        rows = events(path, source)
        assert {row.pop("everquery unreadable") for row in rows} == {None}, path
        assert rows == TABLE.to_pylist(), path


def test_integer_keys_of_text(spark, folder):
    path = folder / "a.csv"
    path.write_text("symbol,price\n7,1\n-3,2\n")
    texts, integers = made(spark, folder), made(spark, folder, integer_keys=True)
    assert [row["symbol"] for row in events(path, texts)] == ["7", "-3"]
    assert [row["symbol"] for row in events(path, integers)] == [7, -3]


def test_a_damaged_row_group_is_an_error_that_names_the_file(spark, folder):
    path = folder / "a.parquet"
    big = pa.table(
        {"symbol": [f"s{i}" for i in range(5_000)], "price": [1.5 * i for i in range(5_000)]}
    )
    pq.write_table(big, path, write_page_checksum=True, compression="zstd")
    source = made(spark, folder)
    content = bytearray(path.read_bytes())
    content[100:2_000] = os.urandom(1_900)
    path.write_bytes(content)
    with pytest.raises(UnreadableFileError, match=rf"{path} can't be read"):
        events(path, source)
