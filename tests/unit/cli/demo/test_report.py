"""What the demo leaves behind: one summary for both runtimes."""

import json
import re
from io import StringIO

import pytest
from rich.cells import cell_len
from rich.console import Console

from everquery.cli.demo.embedded import EmbeddedRun
from everquery.cli.demo.plan import Plan
from everquery.cli.demo.report import print_summary, summarise
from tests.unit.cli.demo.clocks import steady_clock
from tests.unit.cli.demo.spark_runs import finished_run, write_notices


def printed(summary):
    console = Console(file=StringIO(), width=80)
    print_summary(summary, console)
    text = console.file.getvalue()
    assert "…" not in text
    assert max(map(cell_len, text.splitlines())) <= 80
    return text


def test_the_summary_of_spark_sums_up(tmp_path):
    run = finished_run(tmp_path)
    write_notices(run.notices / "d.parquet", fire=[6])  # since the last look
    run.close()
    summary = summarise(run, interrupted=True)
    assert json.loads(json.dumps(summary)) == summary
    assert [each["stage"] for each in summary["stages"]] == [
        "events", "open", "commit", "spark_rest", "spark_query_planning",
    ]  # fmt: skip
    assert summary["notices_by_event"] == {
        "enter": 1, "leave": 2, "match": 1, "fire": 5, "change": 0,
    }  # fmt: skip
    assert summary["ended_by_firing"] == {"border": 0, "range": 0, "threshold": 2}
    assert summary["queries"] == {"border": 800_000, "range": 100_000, "threshold": 99_998}
    assert summary["events_per_second"] == pytest.approx(900_000_000 / 17.3)
    events, rest = summary["stages"][0], summary["stages"][3]
    assert rest["seconds_a_batch"] == pytest.approx(1.0 - 0.8)  # one shard has all
    assert events["share"] == pytest.approx(0.4 / 1.25)
    text = printed(summary)
    assert re.search(r"fire +5 ", text)
    assert re.search(r"ended by firing +2 ", text)
    for shown in ("Stopped", "events matched with queries", "400.0 ms", "32%", "987,654,321"):
        assert shown in text
    assert "Bytes" not in text


def test_a_run_that_was_stopped_at_once_sums_up(tmp_path):
    plan = Plan(queries=10, symbols=2)
    run = EmbeddedRun(plan, clock=steady_clock())
    with run.engine:
        text = printed(summarise(run, interrupted=True))
    assert "none yet" in text
    assert "By fluctuation level" not in text


def test_both_runtimes_tell_the_same_things(tmp_path):
    plan = Plan(queries=40, symbols=2, batch_size=100, events=300, seconds=None, changes=10)
    run = EmbeddedRun(plan, clock=steady_clock())
    with run.engine:
        for _ in (*run.prepare(), *run.run()):
            pass
        embedded = summarise(run, interrupted=False)
    spark = finished_run(tmp_path)
    spark.close()
    on_spark = summarise(spark, interrupted=False)
    own = {
        "embedded": {
            "events_per_process_second", "notices_at_registration", "levels", "dead_letters",
            "bytes", "peak_resident_bytes",
        },
        "spark": {"refused", "log_position", "rebuilt", "stages"},
    }  # fmt: skip
    assert embedded["engine"] == "embedded"
    assert on_spark["engine"] == "spark"
    assert set(embedded) - own["embedded"] == set(on_spark) - own["spark"]
    assert own["embedded"] <= set(embedded)
    assert own["spark"] <= set(on_spark)
    text = printed(embedded)
    for shown in ("a second, engine", "time to warm up", "By fluctuation level", "Bytes by"):
        assert shown in text
    assert "trigger" not in text
