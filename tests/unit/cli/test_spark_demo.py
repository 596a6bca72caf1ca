"""What the demo on Spark shows and sums up, without Spark."""

import re
from io import StringIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.cells import cell_len
from rich.console import Console

from everquery.cli.demo_job import Plan
from everquery.cli.spark_demo import SparkDemo
from everquery.cli.spark_demo_report import print_spark_summary, summarise
from everquery.cli.spark_demo_view import SparkLineView, SparkLiveView
from everquery.spark.metrics import Batch

STAGES = {
    "open": 0.2, "events": 0.4, "commit": 0.2, "spark_add_batch": 1.0, "spark_query_planning": 0.1,
}  # fmt: skip


def batch(number):
    return Batch(
        query="demo", number=number, began="2024-05-01T10:00:00Z", events=1_000_000,
        notices=222_222, refused=0, quarantined=0, rebuilt=0, queries=1_000_000,
        position=1_002_000, log_lag=0, source_lag={}, seconds=1.25, stages=STAGES,
    )  # fmt: skip


class Clock:
    now = 0.0

    def __call__(self):
        self.now += 0.5
        return self.now


@pytest.fixture
def demo(tmp_path):
    demo = SparkDemo(Plan(symbols=5, seconds=30.0), tmp_path, cores=2, clock=Clock())
    demo.plan = Plan(seconds=30.0)
    for number in range(4):
        demo.tally.batches.append(batch(number))
    demo.tally.events, demo.tally.notices = 987_654_321, 87_654_321
    demo.tally.timed_events, demo.tally.run_seconds = 900_000_000, 17.3
    demo.tally.lags, demo.tally.effect_seconds = [1.5, 123.45], [0.9]
    demo.tally.registered["threshold"] = demo.tally.dropped["threshold"] = 2
    demo.notices.mkdir()
    # 0 and 4 repeat, 1 has been dropped after its fire, and 5 has ended.
    write_notices(demo.notices / "a.parquet", enter=[9], fire=[0, 4, 1])
    write_notices(demo.notices / "b.parquet", leave=[9, 9], match=[7], fire=[])
    demo.told.read_new()
    write_notices(demo.notices / "c.parquet", fire=[5])
    (demo.notices / "unfinished.parquet").write_bytes(b"PAR1")
    demo.told.read_new()
    return demo


def write_notices(path, **numbers):
    """Write notices by event; numbers are those of queries."""
    rows = [(event, number) for event, found in numbers.items() for number in found]
    ids = [f"{'threshold' if event == 'fire' else 'border'}-{n:07}" for event, n in rows]
    pq.write_table(pa.table({"event": [event for event, _ in rows], "query_id": ids}), path)


@pytest.mark.parametrize("width", [80, 120])
def test_live_view_fits_the_terminal(demo, width):
    console = Console(file=StringIO(), width=width, record=True)
    view = SparkLiveView(demo, console)
    for number in range(40):
        view._batch = batch(number)
        view._note_rates()
        demo.tally.events += 123_456
    notice = {
        "query_id": "border-0123456", "event": "enter", "reason": "registered", "key": "ABCD",
        "price": 999_999.99, "time": 0, "total": None,
    }  # fmt: skip
    fire = notice | {"event": "fire", "query_id": "threshold-0123456", "total": 123_456}
    fire |= {"reason": None}
    table = pa.Table.from_pylist([fire] + [notice] * 9)
    view._latest = table.set_column(5, "time", table["time"].cast(pa.timestamp("us")))
    console.print(view.drawing())
    drawn = console.export_text()
    lines = drawn.rstrip("\n").splitlines()
    assert len(lines) <= 23
    assert {cell_len(line) for line in lines} == {width}
    assert "…" not in drawn
    for shown in ("800,000", "1,002,000", "1,250 ms", "123.45 s", "87,654,321"):
        assert shown in drawn
    assert "fire (123,456)" in drawn
    assert re.search(r"threshold +99,999 ", drawn)
    assert re.search(r"fire +4 ", drawn)


def test_summary_sums_up(demo):
    console = Console(file=StringIO(), width=80)
    write_notices(demo.notices / "d.parquet", fire=[6])  # since the last look
    summary = summarise(demo, interrupted=True)
    assert [each["stage"] for each in summary["stages"]] == [
        "spark_rest", "events", "open", "commit", "spark_query_planning",
    ]  # fmt: skip
    assert summary["notices_by_event"] == {"enter": 1, "leave": 2, "match": 1, "fire": 5}
    assert summary["ended_by_firing"] == {"border": 0, "range": 0, "threshold": 2}
    assert summary["queries"] == {"border": 800_000, "range": 100_000, "threshold": 99_998}
    rest, events = summary["stages"][:2]
    assert rest["seconds_a_batch"] == pytest.approx(1.0 - 0.4)  # two shards at the same time
    assert events["share"] == pytest.approx(0.2 / 1.25)
    print_spark_summary(summary, console)
    printed = console.file.getvalue()
    assert "…" not in printed
    assert max(map(cell_len, printed.splitlines())) <= 80
    assert re.search(r"fire +5 ", printed)
    assert re.search(r"ended by firing +2 ", printed)
    for shown in ("Stopped", "events matched with queries", "200.0 ms", "48%", "987,654,321"):
        assert shown in printed


def test_lines_tell_of_steps_and_batches(demo):
    console = Console(file=StringIO(), width=80)
    view = SparkLineView(demo, console)
    for step in ("compile", "register", "register", "start", "index"):
        view.preparing(step, 0)
    for number in range(8):
        view.running(batch(number))
        view.running(None)
    lines = console.file.getvalue().splitlines()
    assert sum("registering 1,000,000 queries" in line for line in lines) == 1
    assert any("batch 3: 987,654,321 events" in line for line in lines)
    assert len(lines) < 4 + 8
