"""Notices as bytes."""

import json
import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import everquery as eq
from everquery.errors import UnwritableFileError
from everquery.sinks import as_json_lines, as_text_lines, open_writer

ODD = "a\n\"'\\\0🎈\x1b"


def notices(times=(1, 2)):
    engine = eq.Engine(eq.Stream("t", key="k", time="ts", attributes=["x"]))
    engine.register(eq.Border(ODD, {"x": (0, 10)}))
    return engine.process(pa.table({"k": [ODD, ODD], "ts": list(times), "x": [1.5, math.inf]}))


def test_json_lines_read_back():
    table = notices()
    rows = [json.loads(line) for line in as_json_lines(table).to_pylist()]
    assert [(row["query_id"], row["key"]) for row in rows] == [(ODD, ODD)] * 2
    assert [row["x"] for row in rows] == [1.5, "Infinity"]
    assert [row["event"] for row in rows] == ["enter", "leave"]
    assert rows[0]["notice_id"] == table["notice_id"][0].as_py().hex()


def test_text_lines_hold_no_control_characters():
    for line in as_text_lines(notices()).to_pylist():
        assert line[:-1].isprintable()


def test_coloured_events():
    assert "\x1b[32menter\x1b[0m" in as_text_lines(notices(), colour=True)[0].as_py()


@pytest.mark.parametrize("name", ["n.parquet", "n.jsonl"])
def test_many_small_tables(tmp_path, name):
    table = notices()
    with open_writer(tmp_path / name) as writer:
        for _ in range(10):
            writer.write(table.slice(0, 0))
            writer.write(table.slice(1))
    if name == "n.parquet":
        file = pq.ParquetFile(tmp_path / name)
        assert (file.metadata.num_rows, file.num_row_groups) == (10, 1)
        file.close()
    else:
        assert len((tmp_path / name).read_text().splitlines()) == 10


def test_columns_that_come_too_late_for_a_parquet_file(tmp_path):
    table = notices()
    with open_writer(tmp_path / "n.parquet") as writer:
        writer.write(table)
        assert writer.left_out == ()
        writer.write(table.append_column("total", pa.array([1, 2])))
        assert writer.left_out == ("total",)
    found = pq.read_table(tmp_path / "n.parquet")
    assert (found.num_rows, found.column_names) == (4, table.column_names)


def test_no_such_format(tmp_path):
    with pytest.raises(UnwritableFileError, match=r"\.parquet or \.jsonl"):
        open_writer(tmp_path / "n.txt")
