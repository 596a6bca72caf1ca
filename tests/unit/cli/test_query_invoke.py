"""``everquery query invoke``."""

import json

from typer.testing import CliRunner

import everquery as eq
from everquery.cli.app import app

STREAM = eq.Stream("trades", key="symbol", time="ts", attributes=["price"], keep="all")


def test_the_answer_of_the_kept_past(tmp_path):
    url, past = f"sqlite:///{tmp_path}/queries.db", tmp_path / "past"
    with eq.Engine(STREAM, registry=url, create=True, history=past) as engine:
        engine.sql(
            "CREATE STANDING QUERY dear AS SELECT symbol, price FROM trades WHERE price > 40"
            " BEGIN NOW - 10 END NOW"
        )
        engine.process({"symbol": ["IBM", "HP"], "ts": [1, 2], "price": [45.0, 30.0]})
    said = ["query", "invoke", "dear", "--registry", url, "--history", str(past), "--json"]
    found = CliRunner().invoke(app, said)
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["rows"] == [{"symbol": "IBM", "price": 45.0}]
    shown = CliRunner().invoke(app, said[:-1])
    assert "IBM" in shown.stdout
    nowhere = CliRunner().invoke(app, [*said[:6], str(tmp_path / "other")])
    assert nowhere.exit_code == 2
