"""Files of events and queries as batches."""

import contextlib
import os

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import everquery as eq
from everquery.sources.cells import numbers
from everquery.sources.files import EventFile, EventPipe
from everquery.sources.query_files import read_queries

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
        {"k": None, "ts": None, "x": 1.0}, {"k": "a", "ts": 1, "x": None},
    ]  # fmt: skip
    (tmp_path / "e.csv").write_text("k,ts,x\na,1," + "9" * 5_000 + "\n")
    assert events(tmp_path / "e.csv")["x"].to_pylist() == [None]


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
