"""Files of events and queries as batches."""

import contextlib
import json
import os

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import everquery as eq
from everquery.errors import InvalidBatchError
from everquery.sources.files import EventFile, EventPipe, TextEvents
from everquery.sources.formats import Unreadable
from everquery.sources.query_files import read_queries
from everquery.sources.text_values import numbers
from everquery.state.events import UNREADABLE

STREAM = eq.Stream("t", key="k", time="ts", attributes=["x"])


def events(path):
    tables = [piece.batch for piece in EventFile(path, STREAM).pieces()]
    return pa.concat_tables(tables) if tables else None


@pytest.mark.parametrize(
    ("times", "kind"),
    [
        (["1", "2"], pa.int64()),
        (["1", "2.5"], pa.float64()),
        (["2024-01-01", "2024-01-01T00:00:01.5"], pa.timestamp("us")),
        (["2024-01-01T00:00:00Z", "2024-01-01T00:00:00+02:00"], pa.timestamp("us", "UTC")),
        (["2024-01-01T00:00:00.123456789", ""], pa.timestamp("ns")),
    ],
)
def test_times_are_what_they_look_like(tmp_path, times, kind):
    lines = [f"IBM,{time}, 4.5 \r\n" for time in times]
    (tmp_path / "e.csv").write_text("k,ts,x\n" + "".join(lines))
    table = events(tmp_path / "e.csv")
    assert table.schema.field("ts").type == kind
    assert table["x"].to_pylist() == [4.5, 4.5]


def test_line_breaks_inside_quotes(tmp_path):
    (tmp_path / "e.csv").write_text('k,ts,x\n"a\nb",1,2\nNA,2,3\n')
    assert events(tmp_path / "e.csv")["k"].to_pylist() == ["a\nb", "NA"]


def test_integers_are_never_rounded():
    assert numbers(pa.array(["9007199254740993"])).to_pylist() == [9007199254740993]
    assert numbers(pa.array(["9007199254740993", "0.5", "inf", None, "x"])).to_pylist() == [
        None, 0.5, float("inf"), None, None,
    ]  # fmt: skip


def test_json_that_arrow_can_not_hold(tmp_path):
    lines = [
        '{"k": "\\ud800", "ts": "\\udfff", "x": 1}',
        '{"k": "a", "ts": "1", "x": ' + "9" * 999 + "}",
    ]
    (tmp_path / "e.jsonl").write_text("\n".join(lines))
    assert events(tmp_path / "e.jsonl").to_pylist() == [
        {"k": None, "ts": None, "x": 1.0, UNREADABLE: [("k", '"\\ud800"'), ("ts", '"\\udfff"')]},
        {"k": "a", "ts": 1, "x": None, UNREADABLE: [("x", "9" * 999)]},
    ]
    (tmp_path / "e.csv").write_text("k,ts,x\na,1," + "9" * 5_000 + "\n")
    assert events(tmp_path / "e.csv")["x"].to_pylist() == [None]


def refused(path, **options):
    engine = eq.Engine(eq.Stream("t", key="k", time="ts", attributes=["x"], weight="w"))
    for piece in EventFile(path, engine.stream, **options).pieces():
        engine.process(piece.batch)
    letters = engine.dead_letters()
    return [(row["position"], row["reason"], row["detail"]) for row in letters.to_pylist()]


def test_what_is_missing_and_what_can_not_be_read_are_told_apart_in_csv(tmp_path):
    lines = [
        "1,5,1,1", "x,5,1,1", ",5,1,1", "1,soon,1,1", "1,,1,1", "1,5,dear,1", "1,5,,1",
        "1,5,9007199254740993,1", "1,5,1.5,heavy", "1,5,1,", "1,5,1,1.5", "x,soon,dear,",
    ]  # fmt: skip
    (tmp_path / "e.csv").write_text("k,ts,x,w\n" + "\n".join(lines) + "\n")
    assert refused(tmp_path / "e.csv", integer_keys=True) == [
        (1, "unreadable_key", "k can't be read: 'x'"),
        (2, "null_key", "null key"),
        (3, "unreadable_time", "ts can't be read: 'soon'"),
        (4, "null_time", "null time"),
        (5, "unreadable_attribute", "x can't be read: 'dear'"),
        (7, "inexact_attribute", "x is a number that float64 can't hold exactly"),
        (8, "unreadable_weight", "w can't be read: 'heavy'"),
        (10, "bad_weight", "bad weight"),
        (11, "unreadable_key", "k can't be read: 'x'"),
    ]


def test_what_is_missing_and_what_can_not_be_read_are_told_apart_in_json(tmp_path):
    good = {"k": "a", "ts": "2024-05-01T10:00:00", "x": 1, "w": 1}
    changes = [
        {}, {"k": 7}, {"k": None}, {"ts": "soon"}, {"ts": 5}, {"ts": ""}, {"ts": None},
        {"x": "1"}, {"x": [1]}, {"x": None}, {"x": 2**53 + 1}, {"w": True}, {"w": None},
    ]  # fmt: skip
    lines = [json.dumps(good | change) for change in changes]
    lines.append(json.dumps({name: good[name] for name in ("k", "x", "w")}))
    expected = [
        (1, "unreadable_key", "k can't be read: '7'"),
        (2, "null_key", "null key"),
        (3, "unreadable_time", "ts can't be read: 'soon'"),
        (4, "unreadable_time", "ts can't be read: '5'"),
        (5, "unreadable_time", "ts can't be read: ''"),
        (6, "null_time", "null time"),
        (7, "unreadable_attribute", "x can't be read: '\"1\"'"),
        (8, "unreadable_attribute", "x can't be read: '[1]'"),
        (10, "inexact_attribute", "x is a number that float64 can't hold exactly"),
        (11, "unreadable_weight", "w can't be read: 'true'"),
        (13, "null_time", "null time"),
    ]
    path = tmp_path / "e.jsonl"
    path.write_text("\n".join(lines))
    assert refused(path) == expected
    # The same, where each line comes alone.
    engine = eq.Engine(eq.Stream("t", key="k", time="ts", attributes=["x"], weight="w"))
    reader = TextEvents("jsonl", engine.stream, Unreadable(), integer_keys=False)
    for line in lines:
        engine.process(reader.read(line.encode() + b"\n", "here"))
    assert [row["reason"] for row in engine.dead_letters().to_pylist()] == [
        r for _, r, _ in expected
    ]


def test_the_first_time_that_can_be_read_tells_what_times_are():
    engine = eq.Engine(STREAM)
    reader = TextEvents("csv", STREAM, Unreadable(), integer_keys=False)
    for block in (b"k,ts,x\na,soon,1\n", b"a,2024-05-01,1\n", b"a,7,1\n", b"b,2024-05-02,1\n"):
        engine.process(reader.read(block, "here"))
    assert engine.stats()["dead_letters_by_reason"] == {"unreadable_time": 2}
    assert engine.stats()["events"] == 2


def test_a_key_of_another_type_than_the_queries_have(tmp_path):
    path = tmp_path / "e.jsonl"
    path.write_text('{"k": 7, "ts": 1, "x": 1}\n{"k": "a", "ts": 1, "x": 1}\n')
    tables = [piece.batch for piece in EventFile(path, STREAM, text_keys=True).pieces()]
    assert [table["k"].to_pylist() for table in tables] == [[None, "a"]]


def test_a_pipe_stops_when_told():
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as file, os.fdopen(writing, "wb"):
        assert list(EventPipe(file, STREAM, stop=lambda: True).pieces()) == []


@given(st.binary(max_size=200), st.sampled_from(["csv", "jsonl", "parquet", "arrow", "dat"]))
def test_any_bytes_are_read_or_refused(tmp_path_factory, data, suffix):
    path = tmp_path_factory.mktemp("fuzz") / f"e.{suffix}"
    for head in (b"", b"k,ts,x\n", b'{"k": "a", "ts": 1, "x": 2}\n', b"PAR1", b"ARROW1\0\0"):
        path.write_bytes(head + data)
        for read in (events, lambda path: read_queries(path, progress=lambda *_: None)):
            with contextlib.suppress(eq.EverqueryError):
                read(path)


def test_the_first_line_that_cannot_be_read_is_named_14(tmp_path):
    path = tmp_path / "e.csv"
    path.write_text('k,ts,x\n"a\nb",1,2\n\nc,2,3\nd\ne\n')
    file = EventFile(path, STREAM)
    assert sum(piece.batch.num_rows for piece in file.pieces()) == 2
    assert file.unreadable.count == 2
    assert file.unreadable.first == "line 6: it has 1 columns, not 3"


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet", "arrow"])
def test_columns_that_a_file_lacks_are_unknown(tmp_path, form):
    stream = eq.Stream("t", key="k", time="ts", attributes=["x", "y"], weight="w")
    table = pa.table({"k": ["a", "b"], "ts": [1, 2], "y": [1.5, 2.5]})
    path = tmp_path / f"e.{form}"
    if form == "csv":
        pa.csv.write_csv(table, path)
    elif form == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    elif form == "parquet":
        pq.write_table(table, path)
    else:
        with pa.ipc.new_file(path, table.schema) as file:
            file.write_table(table)
    engine = eq.Engine(stream)
    engine.register([eq.Range("x", {"x": (0, 9)}), eq.Range("y", {"y": (0, 9)})])
    told = [engine.process(piece.batch) for piece in EventFile(path, stream).pieces()]
    assert pa.concat_tables(told)["query_id"].to_pylist() == ["y", "y"]
    assert engine.stats()["partial_by_column"] == {"w": 2, "x": 2}


def test_a_file_without_any_column_of_the_stream(tmp_path):
    (tmp_path / "e.csv").write_text("price,volume\n1,2\n")
    stream = eq.Stream("t", attributes=["x"])
    with pytest.raises(InvalidBatchError, match="has no column of stream 't'"):
        list(EventFile(tmp_path / "e.csv", stream).pieces())
