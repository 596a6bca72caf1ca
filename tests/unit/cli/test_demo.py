"""`everquery demo --engine embedded`: what it prints, and how it ends."""

import json
import re
import signal
from io import StringIO

import pyarrow.compute as pc
import pytest
from rich.cells import cell_len
from rich.console import Console
from typer.testing import CliRunner

from everquery.cli.app import app
from everquery.cli.demo_job import DemoJob, Plan
from everquery.cli.demo_view import LiveView, Pace, View
from everquery.cli.panels import latest_notices

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
    assert "registered         400 of 400 queries" in result.stdout
    assert "By fluctuation level" in result.stdout
    assert not set(result.stdout) & {"\x1b", "\r", "\b"}
    assert "…" not in result.stdout
    assert max(map(cell_len, result.stdout.splitlines())) <= 80


def test_quiet_prints_only_the_summary():
    result = demo("--quiet")
    assert result.stdout.startswith("Run")
    assert "Bytes by structure" in result.stdout


@pytest.mark.parametrize(("options", "printed"), [(["-q"], "Stopped"), (["--json"], "{")])
def test_interrupt_ends_with_the_summary(monkeypatch, options, printed):
    monkeypatch.setattr(View, "running", lambda *_: signal.raise_signal(signal.SIGINT))
    result = demo(*options)
    assert result.exit_code == 130
    assert result.stdout.startswith(printed)
    if printed == "{":
        summary = json.loads(result.stdout)
        assert summary["interrupted"]
        assert summary["batches"] == 1


@pytest.mark.parametrize("step", ["warming_up", "registering"])
def test_interrupt_before_the_first_batch(monkeypatch, step):
    def press(self, *_):
        if step == "registering":
            signal.raise_signal(signal.SIGINT)

    def stop(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(View, step, press)
    if step == "warming_up":
        monkeypatch.setattr(DemoJob, "warm_up", stop)
    result = demo("--quiet")
    assert result.exit_code == 130
    assert "none yet" in result.stdout


def test_second_interrupt_raises(monkeypatch):
    def press_twice(*_):
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


def live_console(width):
    return Console(
        file=StringIO(), width=width, height=40, force_terminal=True, legacy_windows=False
    )


def steady_clock():
    ticks = iter(range(1_000_000))
    return lambda: float(next(ticks))


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("limits", [{"seconds": 9e3}, {"seconds": None, "events": 10**7}])
def test_live_view_fits_the_terminal(width, limits):
    job = DemoJob(Plan(batch_size=500, **limits), clock=steady_clock())
    job.plan = Plan(queries=500, symbols=5, batch_size=500, **limits)
    *_, _last = job.register()
    pace = Pace(job, 0.0)
    beats = job.run()
    for _ in range(50):
        beat = next(beats)
        assert pace.due()
    job.plan = Plan(batch_size=500, **limits)  # the numbers of the real demo
    job.tally.events = 987_654_321
    job.tally.notices.update(enter=87_654_321, leave=87_654_321, match=87_654_321, fire=654_321)
    job.tally.ended["threshold"] = 1_234
    console = Console(file=StringIO(), width=width, record=True)
    console.print(LiveView(job, console).drawing(beat, pace))
    drawn = console.export_text()
    lines = drawn.rstrip("\n").splitlines()
    assert len(lines) <= 23
    assert {cell_len(line) for line in lines} == {width}
    assert "…" not in drawn
    for shown in ("987,654,321", "87,654,321", "800,000", "everquery 1,000,000 queries"):
        assert shown in drawn
    assert re.search(r"fire +654,321 ", drawn)
    assert re.search(r"threshold +98,766 ", drawn)


def test_the_latest_fires_are_among_the_latest_notices():
    plan = Plan(queries=500, symbols=5, batch_size=5_000, width=0.2)
    job = DemoJob(plan, clock=steady_clock())
    *_, _last = job.register()
    beat = next(job.run())
    fires = beat.notices.filter(pc.equal(beat.notices["event"], "fire"))
    shown = fires.to_pylist()[-2:]
    assert len(shown) == 2
    last = beat.notices.slice(beat.notices.num_rows - 4).to_pylist()
    console = Console(file=StringIO(), width=80, record=True)
    console.print(latest_notices(beat.notices))
    drawn = console.export_text()
    assert drawn.count(" fire (") >= 2
    for notice in shown:
        assert f"fire ({notice['total']:,})" in drawn
    for notice in (*shown, *last):
        assert notice["query_id"] in drawn
    assert len(drawn.splitlines()) == 6 + 1 + 2


def test_live_view_clears_itself():
    console = live_console(80)
    job = DemoJob(Plan(queries=50, symbols=5, batch_size=50, seconds=99.0), clock=steady_clock())
    with LiveView(job, console) as view:
        view.warming_up()
        for done in job.register():
            view.registering(done)
        for beat in job.run():
            view.running(beat)
    written = console.file.getvalue()
    for shown in ("warming up", "50 of 50 queries", "latest notices"):
        assert shown in written
    assert written.endswith("\x1b[2K")
