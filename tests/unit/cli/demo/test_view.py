"""What the demo shows: a view that fits the terminal, and lines elsewhere, on both runtimes."""

import re
from io import StringIO

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from rich.cells import cell_len
from rich.console import Console

from everquery.cli.demo.embedded import EmbeddedRun
from everquery.cli.demo.plan import Plan
from everquery.cli.demo.view import LineView, LiveView
from everquery.cli.panels import latest_notices
from tests.unit.cli.demo.clocks import steady_clock
from tests.unit.cli.demo.spark_runs import batch, finished_run


def embedded_run(clock=None, **plan):
    sizes = {"queries": 500, "symbols": 5, "batch_size": 500} | plan
    run = EmbeddedRun(Plan(**sizes), clock=clock or steady_clock())
    *_, _last = run.register()
    return run


def drawn_by(view, console):
    """Return a view's drawing, which fills the terminal's width and nothing more."""
    console.print(view.drawing())
    drawn = console.export_text()
    lines = drawn.rstrip("\n").splitlines()
    assert len(lines) <= 23
    assert {cell_len(line) for line in lines} == {console.width}
    assert "…" not in drawn
    return drawn


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("limits", [{"seconds": 9e3}, {"seconds": None, "events": 10**7}])
def test_the_embedded_view_fits_the_terminal(width, limits):
    run = embedded_run(**limits)
    console = Console(file=StringIO(), width=width, record=True)
    view = LiveView(run, console)
    batches = run.run()
    for _ in range(50):
        next(batches)
        assert view.pace.due()
    run.plan = Plan(batch_size=500, **limits)  # the numbers of the real demo
    run.tally.events, run.tally.notices = 987_654_321, 187_654_321
    run.tally.by_event.update(enter=87_654_321, leave=87_654_321, match=87_654_321, fire=654_321)
    run.tally.ended["threshold"] = 1_234
    run.tally.dropped = run.tally.registered
    drawn = drawn_by(view, console)
    for shown in ("987,654,321", "87,654,321", "800,000", "everquery 1,000,000 queries"):
        assert shown in drawn
    assert re.search(r"fire +654,321 ", drawn)
    assert re.search(r"threshold +98,766 ", drawn)
    assert re.search(r"memory +\d", drawn)


@pytest.mark.parametrize("width", [80, 120])
def test_the_view_of_spark_fits_the_terminal(tmp_path, width):
    run = finished_run(tmp_path)
    console = Console(file=StringIO(), width=width, record=True)
    view = LiveView(run, console)
    for _ in range(40):
        assert view.pace.due()
        run.tally.events += 123_456
    notice = {
        "query_id": "border-0123456", "event": "enter", "reason": "registered", "key": "ABCD",
        "price": 999_999.99, "time": 0, "total": None,
    }  # fmt: skip
    fire = notice | {"event": "fire", "query_id": "threshold-0123456", "total": 123_456}
    fire |= {"reason": None}
    table = pa.Table.from_pylist([fire] + [notice] * 9)
    run._recent = table.set_column(5, "time", table["time"].cast(pa.timestamp("us")))
    drawn = drawn_by(view, console)
    for shown in ("800,000", "1,002,000", "1,250 ms", "123.45 s", "87,654,321", "on Spark"):
        assert shown in drawn
    assert "fire (123,456)" in drawn
    assert re.search(r"threshold +99,999 ", drawn)
    assert re.search(r"fire +4 ", drawn)


def test_the_latest_fires_are_among_the_latest_notices():
    run = embedded_run(batch_size=5_000, width=0.2)
    assert next(run.run())
    notices = run.recent()
    fires = notices.filter(pc.equal(notices["event"], "fire"))
    shown = fires.to_pylist()[-2:]
    assert len(shown) == 2
    last = notices.slice(notices.num_rows - 4).to_pylist()
    console = Console(file=StringIO(), width=80, record=True)
    console.print(latest_notices(notices))
    drawn = console.export_text()
    assert drawn.count(" fire (") >= 2
    for notice in shown:
        assert f"fire ({notice['total']:,})" in drawn
    for notice in (*shown, *last):
        assert notice["query_id"] in drawn
    assert len(drawn.splitlines()) == 6 + 1 + 2


def test_the_live_view_clears_itself():
    console = Console(
        file=StringIO(), width=80, height=40, force_terminal=True, legacy_windows=False
    )
    plan = Plan(queries=50, symbols=5, batch_size=50, seconds=99.0)
    run = EmbeddedRun(plan, clock=steady_clock())
    with LiveView(run, console) as view:
        for step in run.prepare():
            view.preparing(step)
        for done in run.run():
            view.running(done=done)
            view.running(done=False)
    written = console.file.getvalue()
    for shown in ("warming up", "50 of 50 queries", "latest notices"):
        assert shown in written
    assert written.endswith("\x1b[2K")


def test_the_live_view_of_spark_waits_for_the_first_batch(tmp_path):
    console = Console(
        file=StringIO(), width=80, height=40, force_terminal=True, legacy_windows=False
    )
    run = finished_run(tmp_path)
    run._recent = pa.table({})
    with LiveView(run, console) as view:
        for _ in range(5):
            view.running(done=False)
        assert "latest notices" not in console.file.getvalue()
        view.running(done=True)
        first = console.file.getvalue().count("latest notices")
        assert first >= 1
        view.running(done=False)  # half a second later: the bar goes on
        assert console.file.getvalue().count("latest notices") > first


def test_lines_tell_of_steps_and_batches_on_spark(tmp_path):
    run = finished_run(tmp_path)
    console = Console(file=StringIO(), width=80)
    view = LineView(run, console)
    with run._starter:
        steps = list(run._register(_Deaf(), " in there"))
    assert len(steps) == 10
    for step in (*steps, run.closing):
        view.preparing(step)
    for number in range(4, 12):
        run._count(batch(number), 0.0)
        view.running(done=True)
        view.running(done=False)
    lines = [line.partition(" s  ")[2] for line in console.file.getvalue().splitlines()]
    assert lines[0] == "registering 1,000,000 queries in there"
    assert sum("queries are registered" in line for line in lines) in range(1, 5)
    assert "stopping: the batch that runs is finished, and Spark alone reads its files" in lines
    told = [line for line in lines if "events" in line]
    assert 1 < len(told) < 8
    assert told[0] == (
        "988,654,321 events, 87,876,543 notices, +2 -2 queries, a batch 1,000,000,"
        " trigger 1,250 ms, lag 123.45 s, batches 5, refused 0, on Spark"
    )
    assert re.match(r"991,654,321 events 1.5 M/s, [\d,]+ notices \d+ k/s, ", told[1])


class _Deaf:
    """An engine that is told of queries, and does nothing."""

    def register_table(self, table, *, kind):
        pass

    def register(self, query):
        pass


def test_lines_tell_of_batches_embedded():
    run = embedded_run(seconds=200.0)
    console = Console(file=StringIO(), width=80)
    view = LineView(run, console)
    for done in run.run():
        view.running(done=done)
    *_, last = console.file.getvalue().splitlines()
    assert re.fullmatch(
        r" *\d+\.\d s  [\d,]+ events \d+ /s, [\d,]+ notices \d+ /s, \+[\d,]+ -[\d,]+ queries,"
        r" a batch 1000\.0 ms, batches \d+, fluctuation 0\.1%",
        last,
    )
