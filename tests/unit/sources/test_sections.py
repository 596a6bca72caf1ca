"""Files in sections: every event once, in order, with the types that were finished."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import everquery as eq
from everquery.errors import EverqueryError, InvalidBatchError, UnreadableFileError
from everquery.sources import sections
from everquery.sources.folder_journal import files_of, first_file
from everquery.sources.section_events import read_section, types_of
from everquery.sources.sections import sections_of
from everquery.state.events import UNREADABLE

STREAM = eq.Stream("trades", key="symbol", time="ts", attributes=["price"])
ROWS = [{"symbol": f"S{i % 7}", "ts": i, "price": i / 4} for i in range(500)]


def write(path, rows=ROWS):
    if path.suffix == ".csv":
        lines = [f'"{row["symbol"]}",{row["ts"]},{row["price"]}\n' for row in rows]
        path.write_text("symbol,ts,price\n" + "".join(lines))
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows))
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=60)
    else:
        table = pa.Table.from_pylist(rows)
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
    return path


def read(section, stream, schema):
    """Return the events of a section; there is nothing that can't be read."""
    rows = [row for batch in read_section(section, stream, schema) for row in batch.to_pylist()]
    assert {row.pop(UNREADABLE) for row in rows} == {None}
    return rows


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "json", "parquet", "arrow"])
def test_spans_hold_every_event_once(tmp_path, monkeypatch, suffix):
    monkeypatch.setattr(sections, "SECTION_BYTES", 700)
    path = write(tmp_path / f"e.{suffix}")
    schema = types_of(path, STREAM)
    assert schema == pa.schema(
        [("symbol", pa.string()), ("ts", pa.int64()), ("price", pa.float64())]
    )
    found = list(sections_of(path))
    assert len(found) > 3 or suffix in sections.WHOLE
    assert [row for section in found for row in read(section, STREAM, schema)] == ROWS


def test_what_does_not_fit_is_null_and_what_is_no_line_a_row_of_nulls(tmp_path):
    write(tmp_path / "a.csv", ROWS[:3])
    schema = types_of(tmp_path / "a.csv", STREAM)
    path = tmp_path / "b.jsonl"
    path.write_text(
        '{"symbol": "A", "ts": 1, "price": 9007199254740993}\nnope\n'
        '{"symbol": "A", "ts": 1, "price": 2}\n'
    )
    (section,) = sections_of(path)
    rows = [row for batch in read_section(section, STREAM, schema) for row in batch.to_pylist()]
    assert [row["price"] for row in rows] == [None, 2.0, None]
    assert [rows[-1][name] for name in schema.names] == [None, None, None]
    unread = [[("price", "9007199254740993")], None, [("symbol", "a line")]]
    assert [row[UNREADABLE] or None for row in rows] == unread
    engine = eq.Engine(STREAM)
    for batch in read_section(section, STREAM, schema):
        engine.process(batch)
    assert engine.stats()["dead_letters_by_reason"] == {
        "inexact_attribute": 1, "unreadable_key": 1,
    }  # fmt: skip
    times = tmp_path / "c.csv"
    times.write_text("symbol,ts,price\nA,2024-05-01T10:00:00,1\n")
    (section,) = sections_of(times)
    assert [b["ts"].to_pylist() for b in read_section(section, STREAM, schema)] == [[None]]


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_columns_that_a_section_lacks_are_null(tmp_path, suffix):
    stream = eq.Stream("trades", key="symbol", time="ts", attributes=["price", "size"], weight="n")
    path = write(tmp_path / f"e.{suffix}", ROWS[:2])
    schema = types_of(path, stream)
    assert schema.names == ["symbol", "ts", "price", "size", "n"]
    (section,) = sections_of(path)
    assert read(section, stream, schema) == [{**row, "size": None, "n": None} for row in ROWS[:2]]


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "json", "arrow"])
def test_other_columns_are_only_read_of_parquet(tmp_path, suffix):
    """They would be null else, and nobody would know."""
    more = [{**row, "venue": "X"} for row in ROWS]
    (section,) = sections_of(write(tmp_path / f"e.{suffix}", more))
    schema = types_of(write(tmp_path / "e.parquet", more), STREAM)
    schema = schema.append(pa.field("venue", pa.string()))
    with pytest.raises(UnreadableFileError, match=rf"'venue' is wanted of .*e\.{suffix}"):
        next(read_section(section, STREAM, schema))
    (section,) = sections_of(tmp_path / "e.parquet")
    assert read(section, STREAM, schema) == more


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet", "arrow"])
def test_a_file_without_a_column_that_is_needed_is_an_error_that_names_it(tmp_path, suffix):
    schema = types_of(write(tmp_path / "a.csv"), STREAM)
    rows = [{"ts": row["ts"], "price": row["price"]} for row in ROWS]
    path = tmp_path / f"e.{suffix}"
    if suffix == "csv":
        path.write_text("ts,price\n1,2\n")
    else:
        write(path, rows)
    (section,) = sections_of(path)
    if suffix == "jsonl":  # each line has columns of its own
        (events,) = read_section(section, STREAM, schema)
        assert events["symbol"].null_count == len(rows)
        return
    with pytest.raises(InvalidBatchError, match=rf"column 'symbol', and .*e\.{suffix} has it not"):
        list(read_section(section, STREAM, schema))


def test_parquet_with_a_column_twice_or_keys_that_are_no_text(tmp_path):
    schema = types_of(write(tmp_path / "a.csv"), STREAM)
    twice = pa.table([["A"], ["B"], [1], [1.0]], names=["symbol", "symbol", "ts", "price"])
    raw = pa.table({"symbol": [b"\xff"], "ts": [1], "price": [1.0]})
    for table, message in ((twice, r"e\.parquet has it twice"), (raw, r"e\.parquet can't be read")):
        pq.write_table(table, tmp_path / "e.parquet")
        (section,) = sections_of(tmp_path / "e.parquet")
        with pytest.raises(EverqueryError, match=message):
            list(read_section(section, STREAM, schema))


def test_the_first_file(tmp_path):
    answers = iter([True, False])
    with pytest.raises(EverqueryError, match="no file of events"):
        first_file([tmp_path], wait=lambda: next(answers))
    (tmp_path / "a.csv").write_text("")
    write(tmp_path / "b.csv")
    assert first_file([tmp_path], wait=None).name == "b.csv"
    assert [path.name for path in files_of([tmp_path, tmp_path / "x"])] == ["a.csv", "b.csv", "x"]
    (tmp_path / "c.csv").write_text("symbol,ts,price\n")
    with pytest.raises(EverqueryError, match="its type is unknown"):
        types_of(tmp_path / "c.csv", STREAM)
