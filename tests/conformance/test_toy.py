"""A kind that is defined wholly outside everquery registers in one line, and gets everything."""

import json

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import everquery as eq
from everquery.cli.app import app
from everquery.cli.sql import completions
from everquery.kinds import KINDS
from everquery.kinds.reference import reference
from everquery.queries.sql import print_query, read_statement
from everquery.sharding.warm_up import warm_up
from everquery.sinks.lines import as_text_lines
from tests.conformance.toy.kind import KIND
from tests.conformance.toy.spec import Nth

STREAM = eq.Stream("trades", key="symbol", time="t", attributes=["price"])
BATCH = pa.table({"symbol": ["a", "b"] * 4, "t": range(8), "price": [float(i) for i in range(8)]})


def seqs(notices, query_id="q"):
    rows = [row for row in notices.to_pylist() if row["query_id"] == query_id]
    return [(row["event"], row["key"], row["seq"], row["ticks"]) for row in rows]


def test_it_is_registered_in_one_line():
    assert KINDS["nth"] is KIND


def test_every_runtime_answers(new_runner):
    runner = new_runner(STREAM)
    runner.register(Nth("q", {"price": (1, None)}, key="a", nth=2))
    runner.register(Nth("all", {}, nth=3, at_once=True))
    notices = runner.process(BATCH)
    assert seqs(notices) == [("tick", "a", 2, 1)]
    assert sorted(seqs(notices, "all")) == [
        ("tick", "a", 0, 1), ("tick", "a", 3, 3), ("tick", "b", 1, 2)
    ]  # fmt: skip


def test_sql_reads_and_prints_it():
    text = (
        "CREATE STANDING QUERY q AS SELECT * FROM trades WHERE symbol = 'a' AND price >= 1"
        " EMIT EVERY 2 EVENTS WITH (ttl = 5, at_once = TRUE)"
    )
    query = read_statement(text, stream_of={"trades": STREAM}.__getitem__).query
    assert query == Nth("q", {"price": (1, None)}, key="a", nth=2, at_once=True, ttl=5)
    again = read_statement(print_query(query, STREAM), stream_of={"trades": STREAM}.__getitem__)
    assert again.query == query
    with pytest.raises(eq.InvalidSqlError, match="nth is 0; it must be 1 or more"):
        read_statement(text.replace("EVERY 2", "EVERY 0"), stream_of={"trades": STREAM}.get)
    with pytest.raises(eq.InvalidSqlError, match="ONCE, EACH, SILENT or EVERY"):
        read_statement(text.replace("EVERY", "ALWAYS"), stream_of={"trades": STREAM}.get)
    assert completions("ever") == ["EVERY"]
    assert completions("at_") == ["AT_ONCE"]


def test_tables_have_its_columns():
    engine = eq.Engine(STREAM)
    table = pa.table({"id": ["a", "b"], "nth": [2, 3], "at_once": [True, None]})
    assert engine.register_table(table, kind="nth").registered == 2
    rows = engine.queries().select(["id", "kind", "emit", "nth", "at_once"]).to_pylist()
    assert rows == [
        {"id": "a", "kind": "nth", "emit": "tick", "nth": 2, "at_once": True},
        {"id": "b", "kind": "nth", "emit": "tick", "nth": 3, "at_once": False},
    ]
    bad = pa.table({"id": ["c"], "nth": [0]})
    with pytest.raises(eq.InvalidTableError, match="nth must be 1 or more"):
        engine.register_table(bad, kind="nth")


def test_a_registry_keeps_it(tmp_path):
    url = f"sqlite:///{tmp_path / 'q.db'}"
    query = Nth("q", {"price": (1, 2)}, key="a", nth=2, owner="ann")
    eq.Engine(STREAM, registry=url, create=True).register(query)
    table = pa.table({"id": ["t"], "nth": [5]})
    eq.Engine(STREAM, registry=url, create=True).register_table(table, kind="nth")
    found = eq.Engine("trades", registry=url).queries().to_pylist()
    assert [(row["id"], row["kind"], row["nth"]) for row in found] == [
        ("q", "nth", 2),
        ("t", "nth", 5),
    ]


def test_the_command_line_adds_lists_and_loads_it(tmp_path):
    url = f"sqlite:///{tmp_path / 'q.db'}"
    eq.Engine(STREAM, registry=url, create=True)

    def shell(*arguments, code=0):
        env = {"COLUMNS": "200", "EVERQUERY_REGISTRY": url, "EVERQUERY_STREAM": "trades"}
        result = CliRunner().invoke(app, list(arguments), env=env)
        assert result.exit_code == code, result.output
        return result

    shell("query", "add", "q", "--kind", "nth", "--nth", "2", "--at-once", "--key", "a")
    said = shell("query", "add", "r", "--kind", "nth", code=2).stderr
    assert "nth queries need one, such as --nth 3" in said
    assert "border queries have no such option" in shell(
        "query", "add", "r", "--nth", "3", code=2
    ).stderr  # fmt: skip
    assert "Tell one event of so many (nth)." in shell("query", "add", "--help").stdout
    (tmp_path / "more.csv").write_text("id,nth,at_once\nx,4,true\n")
    shell("query", "load", str(tmp_path / "more.csv"), "--kind", "nth")
    listed = json.loads(shell("query", "list", "--kind", "nth", "--json").stdout)
    assert [(row["id"], row["nth"], row["at_once"]) for row in listed] == [
        ("q", 2, True),
        ("x", 4, True),
    ]


def test_it_answers_questions():
    engine = eq.Engine(STREAM)
    engine.register([Nth("q", {}, nth=100), eq.Border("b", {})])
    engine.process(BATCH)
    assert engine.progress("q") == 8
    with pytest.raises(eq.InvalidQueryError, match="only threshold and nth queries make progress"):
        engine.progress("b")


def test_its_lines_have_a_colour():
    engine = eq.Engine(STREAM)
    engine.register(Nth("q", {}, key="a", nth=4))
    (line,) = as_text_lines(engine.process(BATCH), colour=True).to_pylist()
    assert "\x1b[35mtick" in line
    assert "ticks=1" in line


def test_the_reference_tells_of_it():
    assert "| `nth` | whole number, 1 or more, at most 1,000,000 | must be given |" in reference(
        [KIND]
    )


def test_a_warm_up_has_it():
    warm_up(STREAM, pa.int64())
