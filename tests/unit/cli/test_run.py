"""Events through the command line: files, pipes, Ctrl-C."""

import json
import os
import select
import signal
import subprocess
import sys
from datetime import datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import everquery as eq

PRICES = [45.0, 55.0, 41.0]
SECONDS = 60  # the longest that a child may take before the test fails


@pytest.fixture
def band(shell):
    shell("query", "add", "band", "--box", "price=40..50", "--key", "IBM")
    shell("query", "add", "cheap", "--kind", "range", "--box", "price=..42")
    return shell


def write_events(path, prices=PRICES):
    rows = [{"symbol": "IBM", "ts": i, "price": price} for i, price in enumerate(prices)]
    if path.suffix == ".json":
        path.write_text(json.dumps(rows, indent=2))
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif path.suffix == ".csv":
        lines = [f"{row['price']},extra,{row['ts']},IBM\r\n" for row in rows]
        path.write_text("\ufeffprice,other,ts,symbol\n" + "".join(lines))
    elif path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist([row | {"other": "x"} for row in rows]), path)
    else:
        table = pa.Table.from_pylist(rows)
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
    return path


EXPECTED = [("band", "enter", 0), ("band", "leave", 1), ("band", "enter", 2), ("cheap", "match", 2)]


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "json", "parquet", "arrow"])
class TestFormats:
    def test_notices_are_those_of_the_engine(self, band, tmp_path, suffix):
        path = write_events(tmp_path / f"e.{suffix}")
        result = band("run", path, "--json")
        notices = [json.loads(line) for line in result.stdout.splitlines()]
        assert [(n["query_id"], n["event"], n["time"]) for n in notices] == EXPECTED
        engine = eq.open(band.url)
        events = pa.table({"symbol": ["IBM"] * 3, "ts": [0, 1, 2], "price": PRICES})
        expected = engine.process(events)["notice_id"].to_pylist()
        assert [n["notice_id"] for n in notices] == [each.hex() for each in expected]
        summary = json.loads(result.stderr)
        assert (summary["events"], summary["notices"], summary["interrupted"]) == (3, 4, False)

    def test_replay_counts_by_query(self, band, tmp_path, suffix):
        path = write_events(tmp_path / f"e.{suffix}")
        position = eq.open(band.url).position
        told = band.json("replay", path)
        assert told["by_query"] == [
            {"query_id": "band", "enter": 2, "leave": 1},
            {"query_id": "cheap", "match": 1},
        ]
        assert (told["queries"], told["queries_with_notices"]) == (2, 2)
        assert "2 of 2 queries reported" in band("replay", path, "--top", 1).stdout
        assert eq.open(band.url).position == position


@pytest.mark.parametrize("name", ["n.parquet", "n.jsonl"])
def test_notices_to_a_file(band, tmp_path, name):
    path = write_events(tmp_path / "e.parquet")
    out = tmp_path / name
    assert band.json("run", path, path, "--out", out)["events"] == 6
    if name == "n.parquet":
        notices = pq.read_table(out).to_pylist()
    else:
        notices = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(n["query_id"], n["event"], n["time"]) for n in notices][:4] == EXPECTED


@pytest.mark.parametrize("name", ["n.parquet", "n.jsonl"])
def test_columns_of_kinds_without_a_query_are_left_out(band, tmp_path, name):
    path, out = write_events(tmp_path / "e.parquet"), tmp_path / name
    for option in ([], ["--all-columns"]):
        band("run", path, "--out", out, *option)
        if name == "n.parquet":
            columns = pq.read_table(out).column_names
        else:
            columns = list(json.loads(out.read_text().splitlines()[0]))
        assert ("total" in columns) == bool(option)
        assert {"query_id", "held_back", "notice_id"} <= set(columns)


def test_text_lines_and_summary(band, tmp_path):
    result = band("run", write_events(tmp_path / "e.csv"))
    assert result.stdout.splitlines()[0] == "0  enter  band  IBM  price=45"
    assert "3 events, 4 notices (2 enter, 1 leave, 1 match)" in result.stderr
    assert band("run", "e.csv", "--quiet", "--out", "-").stderr == ""


def test_no_notices_still_make_a_file(shell, tmp_path):
    shell("run", write_events(tmp_path / "e.csv"), "--out", "n.parquet")
    assert "query_id" in pq.read_table("n.parquet").column_names


def test_what_can_not_be_read_is_counted(band, tmp_path):
    path = tmp_path / "e.csv"
    path.write_text("symbol,ts,price\nIBM,1,45\nIBM,2,dear\nIBM,3\nIBM,,45\n,5,45\nIBM,6,55\n")
    summary = json.loads(band("run", path, "--json").stderr)
    assert summary["events"] == 5
    assert summary["unreadable_lines"] == 1
    assert summary["refused_by_reason"] == {
        "unreadable_attribute": 1, "null_key": 1, "null_time": 1,
    }  # fmt: skip
    assert summary["notices_by_event"] == {"enter": 1, "leave": 1}
    told = band("run", path).stderr
    assert "line 4: it has 2 columns, not 3" in told
    assert "3 events refused" in told
    assert "unreadable_attribute 1: " in told
    assert "e.csv row 1, price is dear" in told


def test_a_summary_shows_the_first_refused_values(band, tmp_path):
    good, bad = tmp_path / "a.csv", tmp_path / "b.csv"
    good.write_text("symbol,ts,price\nIBM,1,45\nIBM,2,46\n")
    lines = [f"IBM,{ts},45" for ts in ("3", "soon", "4", "then", "\x1b[2J", "never", "")]
    bad.write_text("\n".join(["symbol,ts,price", *lines, "IBM,0,45", "IBM,5,"]) + "\n")
    expected = {
        "late": [{"input": str(bad), "row": 7, "column": "ts", "value": "0"}],
        "null_time": [{"input": str(bad), "row": 6, "column": "ts", "value": None}],
        "unreadable_time": [
            {"input": str(bad), "row": row, "column": "ts", "value": value}
            for row, value in [(1, "soon"), (3, "then"), (4, "\x1b[2J")]
        ],
    }
    assert band.json("run", good, bad, "--out", "n.jsonl")["refused_examples"] == expected
    assert band.json("replay", good, bad)["refused_examples"] == expected
    for told in (band("run", good, bad, "--quiet"), band("replay", good, bad)):
        assert "\x1b[2J" not in told.output
    told = band("run", good, bad).stderr
    assert "1 event with unknown values (price 1): not seen by queries that need them\n" in told
    assert f"  null_time 1: {bad} row 6, ts is null\n" in told
    assert (
        f"  unreadable_time 4: {bad} row 1, ts is soon; {bad} row 3, ts is then;"
        f' {bad} row 4, ts is "\\u001b[2J"; and 1 more\n'
    ) in told
    assert "refused" not in band("run", good).stderr


def test_json_lines_with_odd_values(band, tmp_path):
    lines = [
        '{"symbol": "IBM", "ts": "2024-05-01T10:00:00.5Z", "price": 45}',
        "not json",
        "[1]",
        '{"symbol": 7, "ts": "2024-05-01T10:00:01Z", "price": 45}',
        '{"symbol": "IBM", "ts": "yesterday", "price": 45}',
        '{"symbol": "IBM", "ts": "2024-05-01T10:00:02Z", "price": "45"}',
        '{"symbol": "IBM", "ts": "2024-05-01T10:00:02Z", "price": 9007199254740993}',
        "",
        '{"symbol": "IBM", "ts": "2024-05-01T12:00:03+02:00", "price": 1e999}',
    ]
    (tmp_path / "e.jsonl").write_text("\n".join(lines))
    result = band("run", "e.jsonl", "--json")
    notices = [json.loads(line) for line in result.stdout.splitlines()]
    assert [n["event"] for n in notices] == ["enter", "leave"]
    assert datetime.fromisoformat(notices[1]["time"]) == datetime.fromisoformat(
        "2024-05-01T10:00:03Z"
    )
    assert notices[1]["price"] == "Infinity"
    summary = json.loads(result.stderr)
    assert summary["unreadable_lines"] == 2
    assert summary["refused_by_reason"] == {
        "inexact_attribute": 1,
        "unreadable_key": 1,
        "unreadable_time": 1,
        "unreadable_attribute": 1,
    }


def test_standard_input(band):
    lines = "symbol,ts,price\nIBM,1.5,45\nIBM,2.5,55\n"
    # CliRunner's stdin is no file; a child's is.
    done = everquery(band, "run", "-", "--format", "csv", input=lines)
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "1.5  enter  band  IBM  price=45",
        "2.5  leave  band  IBM  price=55",
    ]
    done = everquery(band, "run", "-", input=lines)
    assert done.returncode == 1
    assert "--format csv" in done.stderr
    done = everquery(band, "run", "-", input='[\n{"symbol": "IBM", "ts": 1, "price": 45}\n]')
    assert done.returncode == 1
    assert "standard input begins with a JSON array" in done.stderr
    band("run", "-", "-", code=2)
    told = band("run", "-", "--engine", "spark", "--read-only", code=2).stderr
    assert "Spark reads no standard input" in told  # and takes --read-only


def test_a_byte_order_mark_and_mixed_line_ends(band, tmp_path):
    lines = b"\xef\xbb\xbfsymbol,ts,price\r\nIBM,1,45\nIBM,2,55\r\n\r\n\nIBM,3,41\n"
    (tmp_path / "e.csv").write_bytes(lines)
    assert band.json("run", "e.csv", "--out", "n.jsonl")["notices"] == 4
    objects = (
        b'\xef\xbb\xbf{"symbol":"IBM","ts":1,"price":45}\r\n\n{"symbol":"IBM","ts":2,"price":5}'
    )
    (tmp_path / "e.jsonl").write_bytes(objects)
    assert band.json("run", "e.jsonl", "--out", "n.jsonl")["events"] == 2


def test_an_array_with_other_things_in_it(band, tmp_path):
    event = {"symbol": "IBM", "ts": 1, "price": 45}
    (tmp_path / "e.json").write_text(" \ufeff"[1:] + json.dumps([event, 7, event | {"price": 5}]))
    told = band("run", "e.json").stderr
    assert "2 events" in told
    assert "e.json: 1 line left out; the first is line 2: not a JSON object" in told
    (tmp_path / "e.json").write_text("[]")
    assert band.json("run", "e.json", "--out", "n.jsonl")["events"] == 0


def test_text_that_is_not_utf_8(band, tmp_path):
    (tmp_path / "e.csv").write_bytes(b"symbol,ts,price\nIBM,1,45\n\xff,2,55\n")
    assert "e.csv: line 3 is not text in UTF-8" in band("run", "e.csv", code=1).stderr
    good, bad = b'{"symbol":"IBM","ts":1,"price":45}\n', b'{"symbol":"\xff","ts":2,"price":5}\n'
    (tmp_path / "e.jsonl").write_bytes(good + bad + good.replace(b"45", b"55"))
    told = band("run", "e.jsonl").stderr
    assert "e.jsonl: 1 line left out; the first is line 2: not text in UTF-8" in told
    (tmp_path / "e.jsonl").write_bytes(bad)
    assert "e.jsonl: line 1 is not text in UTF-8" in band("run", "e.jsonl", code=1).stderr


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("e.csv", "symbol,price\nIBM,1\n", "needs column 'ts'"),
        ("e.csv", "symbol,ts,price,price\nIBM,1,2,3\n", "has it twice"),
        ("e.parquet", "symbol,ts,price\n", "its content looks like CSV"),
        ("e.jsonl", '{"symbol": \n', "line 1 is not JSON"),
        ("e.jsonl", "", "is empty"),
        ("e.json", '[{"symbol": "IBM"},', "begins as a JSON array, but is not JSON"),
        ("e.json", "[\n", "begins as a JSON array, but is not JSON"),
        ("e.json", "[7]", "line 1 is not a JSON object"),
        ("e.jsonl", '[{"symbol": "IBM"}]', "its content looks like a JSON array"),
        ("e.jsonl", "[7]", "its content looks like"),
    ],
)
def test_bad_files(band, tmp_path, name, content, reason):
    (tmp_path / name).write_text(content)
    assert reason in band("run", name, code=1).stderr
    assert reason in band("replay", name, code=1).stderr


def test_bad_outputs(band, tmp_path):
    path = write_events(tmp_path / "e.csv")
    assert ".parquet or .jsonl" in band("run", path, "--out", "n.txt", code=1).stderr
    assert "can't be written" in band("run", path, "--out", "no/n.jsonl", code=1).stderr


def test_held_back_events_come_at_the_end(shell, tmp_path):
    shell(
        "stream", "create", "slow", "--key", "symbol", "--time", "ts", "-a", "price", "--grace", 5
    )
    shell("query", "add", "band", "-s", "slow", "--box", "price=40..50")
    path = write_events(tmp_path / "e.csv")
    assert len(shell("run", path, "-s", "slow").stdout.splitlines()) == 3


@pytest.mark.parametrize("later", ["2099-01-01T00:00:00", "2099-01-01T00:00:00Z", "2099-01-01"])
def test_times_are_compared_with_the_clock_of_the_machine(shell, tmp_path, later):
    shell("stream", "create", "s", "--time", "ts", "-a", "price", "--max-ahead", "2d")
    shell("query", "add", "all", "-s", "s", "--kind", "range")
    (tmp_path / "e.csv").write_text(
        f"ts,price\n2024{later[4:]},40\n{later},41\n2024{later[4:]},42\n"
    )
    summary = shell.json("run", "e.csv", "-s", "s", "--out", "n.jsonl")
    assert summary["refused_by_reason"] == {"ahead": 1}
    [[example]] = summary["refused_examples"].values()
    assert example["value"].startswith("2099-01-01")
    assert summary["notices"] == 2


def test_numbers_have_no_clock_and_wait_for_a_second_key(shell, tmp_path):
    shell("stream", "create", "s", "--key", "k", "--time", "ts", "-a", "x", "--max-ahead", "10")
    shell("query", "add", "all", "-s", "s", "--kind", "range")
    (tmp_path / "e.csv").write_text("k,ts,x\na,1,1\nb,2,1\na,99999,1\nb,3,1\n")
    summary = shell.json("run", "e.csv", "-s", "s", "--out", "n.jsonl")
    assert (summary["notices"], summary["refused_by_reason"]) == (3, {"ahead": 1})


def command(shell, *arguments):
    line = [sys.executable, "-c", "from everquery.cli.app import main; main()", *arguments]
    return line, os.environ | {"EVERQUERY_REGISTRY": shell.url}


def everquery(shell, *arguments, **options):
    line, env = command(shell, *arguments)
    return subprocess.run(
        line, env=env, capture_output=True, text=True, timeout=SECONDS, check=False, **options
    )


class Child:
    """``everquery run -`` behind a pipe that the test writes to."""

    def __init__(self, shell, *arguments):
        line, env = command(shell, "run", *arguments, "-")
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(line, env=env, stdin=pipe, stdout=pipe, stderr=pipe)

    def send(self, text):
        self.process.stdin.write(text.encode())
        self.process.stdin.flush()

    def line(self):
        ready, _, _ = select.select([self.process.stdout], [], [], SECONDS)
        assert ready, "no notice came"
        return self.process.stdout.readline().decode()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            pipe.close()


def event(ts, price):
    return json.dumps({"symbol": "IBM", "ts": ts, "price": price}) + "\n"


def test_a_pipe_is_answered_line_by_line(band):
    with Child(band) as child:
        first = event(1, 45)
        child.send(first[:10])
        child.send(first[10:])
        assert child.line() == "1  enter  band  IBM  price=45\n"
        child.send(event(2, 55))
        assert child.line() == "2  leave  band  IBM  price=55\n"
        band("query", "add", "late", "--kind", "range", "--box", "price=60..")
        child.send(event(3, 65))
        assert child.line() == "3  match  late  IBM  price=65\n"
        out, err = child.process.communicate(timeout=SECONDS)
        assert (child.process.returncode, out) == (0, b"")
        assert b"3 events, 3 notices" in err


def test_ctrl_c_stops_cleanly_and_says_where(band):
    with Child(band) as child:
        child.send(event(1, 45))
        child.line()
        child.process.send_signal(signal.SIGINT)
        _, err = child.process.communicate(timeout=SECONDS)
        assert child.process.returncode == 130
        assert b"interrupted: standard input, behind 1 event\n" in err
        assert b"Traceback" not in err
