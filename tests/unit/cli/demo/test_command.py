"""`everquery demo --engine embedded`: what it prints, and how it ends."""

import json
import signal

import pytest
from rich.cells import cell_len
from typer.testing import CliRunner

from everquery.cli.app import app
from everquery.cli.demo.embedded import EmbeddedRun
from everquery.cli.demo.view import View

PLAIN = {"FORCE_COLOR": None, "TTY_COMPATIBLE": None, "TTY_INTERACTIVE": None, "NO_COLOR": None}
TINY = ["--queries", "400", "--symbols", "5", "--batch-size", "300", "--events", "2000"]


def demo(*options, columns=80):
    env = {**PLAIN, "COLUMNS": str(columns)}
    return CliRunner().invoke(app, ["demo", "--engine", "embedded", *TINY, *options], env=env)


def test_json_counts_agree():
    levels = ["--fluctuation", "1%", "--fluctuation", "0.05"]
    result = demo("--json", "--changes", "20", *levels, "--width", "20%")
    assert result.exit_code == 0
    summary = json.loads(result.stdout)
    levels = summary["levels"]
    assert summary["events"] == 2_000 == sum(level["events"] for level in levels)
    assert summary["batches"] == 7 == sum(level["batches"] for level in levels)
    assert summary["notices"] == sum(summary["notices_by_event"].values()) > 0
    assert summary["notices"] == sum(level["notices"] for level in levels)
    assert [level["fluctuation"] for level in levels] == [0.01, 0.05]
    assert min(summary["notices_by_event"].values()) > 0
    at_first = {"border": 320, "range": 40, "threshold": 40}
    assert summary["plan"]["queries"] == at_first
    registered, dropped = summary["registered_live"], summary["dropped_live"]
    assert registered == {"border": 112, "range": 14, "threshold": 14}
    # A threshold that fires ends, unless it repeats, and is not dropped later.
    ended = summary["ended_by_firing"]
    assert (ended["border"], ended["range"]) == (0, 0)
    assert 0 < ended["threshold"] < summary["notices_by_event"]["fire"]
    assert 0 < dropped["threshold"] <= 14
    assert dropped == registered | {"threshold": dropped["threshold"]}
    assert summary["queries"] == {
        kind: count + registered[kind] - dropped[kind] - ended[kind]
        for kind, count in at_first.items()
    }
    assert summary["dead_letters"] == 0
    assert not summary["interrupted"]
    seconds = summary["seconds"]
    assert seconds["market"] + seconds["changes"] + seconds["process"] <= seconds["run"]
    assert seconds["first_result"] > 0
    assert all(size > 0 for size in summary["bytes"].values())


def test_equal_seeds_give_equal_counts():
    one, two, other = (
        json.loads(demo("--json", "--seed", seed).stdout)["notices_by_event"] for seed in "112"
    )
    assert one == two != other


@pytest.mark.parametrize("columns", [80, 120])
def test_plain_output_has_lines_and_no_control_codes(columns):
    result = demo(columns=columns)
    assert result.exit_code == 0
    assert "s  registering 400 queries\n" in result.stdout
    assert "By fluctuation level" in result.stdout
    assert not set(result.stdout) & {"\x1b", "\r", "\b"}
    assert "…" not in result.stdout
    summary = result.stdout[result.stdout.index("Run ") :]
    assert max(map(cell_len, summary.splitlines())) <= 80


def test_quiet_prints_only_the_summary():
    result = demo("--quiet")
    assert result.stdout.startswith("Run")
    assert "Bytes by structure" in result.stdout


@pytest.mark.parametrize(("options", "printed"), [(["-q"], "Stopped"), (["--json"], "{")])
def test_interrupt_ends_with_the_summary(monkeypatch, options, printed):
    monkeypatch.setattr(View, "running", lambda *_, **__: signal.raise_signal(signal.SIGINT))
    result = demo(*options)
    assert result.exit_code == 130
    assert result.stdout.startswith(printed)
    if printed == "{":
        summary = json.loads(result.stdout)
        assert summary["interrupted"]
        assert summary["batches"] == 1


@pytest.mark.parametrize("doing", ["warming up", "registering"])
def test_interrupt_before_the_first_batch(monkeypatch, doing):
    def press(self, step):
        if step.doing == doing == "registering":
            signal.raise_signal(signal.SIGINT)

    def stop(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(View, "preparing", press)
    if doing == "warming up":
        monkeypatch.setattr(EmbeddedRun, "warm_up", stop)
    result = demo("--quiet")
    assert result.exit_code == 130
    assert "none yet" in result.stdout


def test_second_interrupt_raises(monkeypatch):
    def press_twice(*_, **__):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(View, "running", press_twice)
    before = signal.getsignal(signal.SIGINT)
    assert demo("--quiet").exit_code != 0
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize(
    "option",
    [
        ["--fluctuation", "much"],
        ["--fluctuation", "30%"],
        ["--fluctuation", "nan"],
        ["--width", "0"],
        ["--queries", "0"],
        ["--symbols", "0"],
        ["--batch-size", "0"],
        ["--events", "0"],
        ["--seconds", "-1"],
        ["--seed", "-1"],
        ["--changes", "-1"],
        ["--out", "notices"],
    ],
)
def test_impossible_options_are_usage_errors(option):
    result = demo(*option)
    assert result.exit_code == 2
    assert option[0] in result.stderr
