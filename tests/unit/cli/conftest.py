"""A registry with one stream, and the command line in this process."""

import json

import pytest
from typer.testing import CliRunner

from everquery.cli.app import app


class Shell:
    """Runs ``everquery`` with a registry."""

    def __init__(self, url):
        self.url = url

    def __call__(self, *arguments, code=0, stdin=None):
        env = {"COLUMNS": "100", "EVERQUERY_REGISTRY": self.url, "EVERQUERY_STREAM": None}
        result = CliRunner().invoke(app, [str(each) for each in arguments], env=env, input=stdin)
        assert result.exit_code == code, result.output
        if code == 1:
            assert "Traceback" not in result.output
            assert result.stderr.startswith("everquery: ")
        return result

    def json(self, *arguments, **options):
        return json.loads(self(*arguments, "--json", **options).stdout)


@pytest.fixture
def shell(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shell = Shell(f"sqlite:///{tmp_path / 'q.db'}")
    shell("init")
    shell("stream", "create", "trades", "--key", "symbol", "--time", "ts", "-a", "price")
    return shell
