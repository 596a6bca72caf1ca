"""The command line around its commands."""

import subprocess
import sys
from importlib.metadata import version
from types import SimpleNamespace

import pytest
from typer.main import get_command
from typer.testing import CliRunner

import everquery as eq
from everquery.cli import bench
from everquery.cli.app import app, main
from everquery.cli.commands import SUBCOMMANDS

COMMANDS = (
    "init", "stream", "query", "sql", "run", "replay", "demo", "warm-up", "bench", "version",
)  # fmt: skip


def run(*arguments):
    return CliRunner().invoke(app, arguments, env={"COLUMNS": "100"})


@pytest.mark.parametrize("way", ["version", "--version"])
def test_version(way):
    result = run(way)
    assert result.exit_code == 0
    assert result.stdout == f"everquery {version('everquery')}\n"


def test_help_names_every_command():
    result = run("--help")
    assert result.exit_code == 0
    assert all(name in result.stdout for name in COMMANDS)


def test_help_says_what_the_commands_say():
    group = get_command(app)
    shown = {name: command.get_short_help_str(200) for name, command in group.commands.items()}
    loaded = {name: each.load(name).get_short_help_str(200) for name, each in SUBCOMMANDS.items()}
    assert shown == loaded


@pytest.mark.parametrize("arguments", [["--help"], ["version"], ["--version"], ["nonsense"]])
def test_what_needs_no_query_loads_nothing_large(arguments):
    program = f"""
import sys
from everquery.cli.app import app
try:
    app({arguments!r})
except SystemExit:
    pass
large = {{"numba", "numpy", "pyarrow", "sqlalchemy", "pyspark", "pandas"}} & sys.modules.keys()
ours = [name for name in sys.modules if name.startswith("everquery.")]
print(sorted(large), sorted(ours), file=sys.stderr)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    modules = ("", ".app", ".commands", ".group", ".version")
    ours = sorted(["everquery.errors", *(f"everquery.cli{name}" for name in modules)])
    assert done.stderr.splitlines()[-1] == f"[] {ours}"


def test_the_package_has_its_names_when_asked():
    program = """
import sys
import everquery as eq
assert "pyarrow" not in sys.modules
assert "Engine" in dir(eq)
from everquery import *
assert Stream is eq.Stream and open is eq.open
assert eq.errors.RegistryError is eq.RegistryError
for name in ("Enginee", "__wrapped__"):
    try:
        getattr(eq, name)
    except AttributeError as error:
        assert f"no attribute {name!r}" in str(error)
    else:
        raise AssertionError(name)
"""
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (eq.InvalidQueryError("lo is not below hi"), 1, "everquery: lo is not below hi\n"),
        (OSError(28, "No space left"), 1, "everquery: [Errno 28] No space left\n"),
        (KeyboardInterrupt(), 130, "everquery: interrupted\n"),
    ],
)
def test_own_errors_are_one_line(monkeypatch, capsys, error, code, told):
    def fail():
        raise error

    monkeypatch.setattr(bench, "checkout", fail)
    monkeypatch.setattr(sys, "argv", ["everquery", "bench"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == code
    assert capsys.readouterr().err == told


def test_bench_runs_the_checkout_with_its_arguments(monkeypatch, tmp_path):
    calls = []

    def note(command, **options):
        calls.append((command, options))
        return SimpleNamespace(returncode=3)

    monkeypatch.setattr(bench, "checkout", lambda: tmp_path)
    monkeypatch.setattr(subprocess, "run", note)
    assert run("bench", "border", "--quick").exit_code == 3
    command = [sys.executable, "-m", "benchmarks", "border", "--quick"]
    assert calls == [(command, {"cwd": tmp_path, "check": False})]


def test_bench_says_where_it_is_to_be_had(monkeypatch, tmp_path):
    monkeypatch.setattr(bench.everquery, "__file__", str(tmp_path / "lib/everquery/__init__.py"))
    monkeypatch.chdir(tmp_path)
    result = run("bench")
    assert result.exit_code == 1
    assert "make bench" in result.stderr


def test_bench_finds_the_current_checkout(monkeypatch, tmp_path):
    monkeypatch.setattr(bench.everquery, "__file__", str(tmp_path / "lib/everquery/__init__.py"))
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "__main__.py").touch()
    monkeypatch.chdir(tmp_path)
    assert bench.checkout() == tmp_path
