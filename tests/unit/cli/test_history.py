"""`everquery stream history` and `everquery query try`."""

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
