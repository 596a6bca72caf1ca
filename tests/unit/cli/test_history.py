"""`everquery stream history` and `everquery query try`."""

import json

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import everquery as eq
from everquery.cli.app import app
from everquery.registry import Registry

STREAM = eq.Stream("trades", key="symbol", time="ts", attributes=["price"], keep="all")


@pytest.fixture
def places(tmp_path):
    """Return a registry and a folder with the past of its stream."""
    url = f"sqlite:///{tmp_path}/queries.db"
    Registry(url, create=True).create_stream(STREAM)
    folder = tmp_path / "past"
    with eq.Engine(STREAM, history=folder) as engine:
        for first in (0, 3):
            ts = [first, first + 1, first + 2]
            prices = [45.0, 51.0, 44.0]
            engine.process(pa.table({"symbol": ["IBM"] * 3, "ts": ts, "price": prices}))
            engine.snapshot()
    return url, str(folder)


def said(*arguments):
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.output


def test_history_says_what_is_held(places):
    url, folder = places
    shown = said("stream", "history", folder, "--registry", url)
    assert "0 to 5" in shown
    assert "nothing" in shown
    assert '"files": 2' in said("stream", "history", folder, "--registry", url, "--json")
    said("stream", "history", folder, "--registry", url, "--compact")
    assert '"files": 1' in said("stream", "history", folder, "--registry", url, "--json")


def test_try_says_when_a_query_would_have_told(places):
    url, folder = places
    shown = said(
        "query", "try", folder, "--registry", url, "--kind", "border", "--box", "price=44..46"
    )
    assert "5 notices: 3 enter, 2 leave" in shown
    assert "from 0 to 5" in shown
    assert "most often of IBM 5" in shown
    nothing = said("query", "try", folder, "-r", url, "--kind", "range", "--box", "price=99..100")
    assert "nothing" in nothing


def test_keep_is_created_altered_and_shown(tmp_path):
    url = f"sqlite:///{tmp_path}/queries.db"
    Registry(url, create=True)
    said("stream", "create", "s", "-r", url, "-a", "x", "--time", "t", "--keep", "1000")
    assert "1,000" in said("stream", "show", "s", "-r", url)
    assert "keep all" in said("stream", "alter", "s", "-r", url, "--keep", "all")
    assert "keep 3600s" in said("stream", "alter", "s", "-r", url, "--keep", "1h")
    assert "keep none" in said("stream", "alter", "s", "-r", url, "--keep", "none")


def test_queries_are_added_with_a_begin(places):
    url, _ = places
    added = ("query", "add", "band", "-r", url, "--kind", "border", "--box", "price=44..46")
    said(*added, "--begin", "oldest")
    engine = eq.Engine(STREAM, registry=url)
    assert engine.queries()["id"].to_pylist() == ["band"]


def test_a_run_keeps_the_past_in_a_folder(tmp_path):
    url = f"sqlite:///{tmp_path}/queries.db"
    Registry(url, create=True).create_stream(STREAM)
    first, second, past = tmp_path / "first.csv", tmp_path / "second.csv", tmp_path / "past"
    first.write_text("symbol,ts,price\nIBM,0,45\nIBM,1,51\n")
    second.write_text("symbol,ts,price\nIBM,2,44\n")
    said("run", str(first), "-r", url, "--history", str(past), "-q")
    assert "0 to 1" in said("stream", "history", str(past), "-r", url)
    said("query", "add", "band", "-r", url, "--kind", "border", "--box", "price=40..50",
         "--begin", "oldest")  # fmt: skip
    told = said("run", str(second), "-r", url, "--history", str(past), "-q", "--json")
    notices = [json.loads(line) for line in told.splitlines() if line.startswith("{")]
    assert [(each["event"], each["seq"], each["reason"]) for each in notices] == [
        ("enter", 0, "backfill"),
        ("leave", 1, "backfill"),
        ("enter", 2, None),
    ]


def test_a_run_goes_on_with_its_state_and_its_past(tmp_path):
    url = f"sqlite:///{tmp_path}/queries.db"
    Registry(url, create=True).create_stream(STREAM)
    events, past, state = tmp_path / "events.csv", tmp_path / "past", tmp_path / "run.state"
    options = ["-r", url, "--history", str(past), "--state", str(state), "-q"]
    options += ["--out", str(tmp_path / "out.jsonl")]
    events.write_text("symbol,ts,price\nIBM,0,45\nIBM,1,51\n")
    said("run", str(events), *options)
    with events.open("a") as file:
        file.write("IBM,2,44\n")
    said("run", str(events), *options)
    assert '"events": 3' in said("stream", "history", str(past), "-r", url, "--json")


def test_a_stream_that_keeps_nothing_has_no_folder_for_it(tmp_path):
    url = f"sqlite:///{tmp_path}/queries.db"
    Registry(url, create=True).create_stream(eq.Stream("s", attributes=["x"]))
    events = tmp_path / "events.csv"
    events.write_text("x\n1\n")
    result = CliRunner().invoke(app, ["run", str(events), "-r", url, "--history", str(tmp_path)])
    assert result.exit_code == 1
    assert "keeps nothing" in result.stderr
