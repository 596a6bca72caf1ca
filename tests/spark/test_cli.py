"""The command line on Spark, as processes of its own: the demo, and runs that stop and go on."""

import json
import os
import signal
import subprocess
import sys
import time

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from typer.testing import CliRunner

import everquery as eq
from everquery.cli.app import app

SECONDS = 240  # the longest that a child may take before the test fails
MAIN = [sys.executable, "-c", "from everquery.cli.app import main; main()"]


class Child:
    """``everquery`` as a process of its own."""

    def __init__(self, *arguments, cwd, **options):
        line = [*MAIN, *map(str, arguments)]
        env = os.environ | {"EVERQUERY_REGISTRY": "sqlite:///queries.db"}
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            line, cwd=cwd, env=env, stdout=pipe, stderr=pipe, text=True, **options
        )

    def ended(self):
        """Wait for the end; return the exit code and what was printed."""
        out, err = self.process.communicate(timeout=SECONDS)
        return self.process.returncode, out, err

    def wait_for(self, done):
        give_up = time.monotonic() + SECONDS
        while not done():
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < give_up
            time.sleep(0.1)


@pytest.fixture
def everquery(tmp_path):
    """Start children; those that a failed test leaves are killed."""
    children = []

    def start(*arguments, **options):
        children.append(Child(*arguments, cwd=tmp_path, **options))
        return children[-1]

    yield start
    for child in children:
        with child.process as process:
            process.kill()


SMALL = ["--queries", 2_000, "--symbols", 20, "--batch-size", 2_000, "--changes", 40]


def test_a_small_demo(everquery, tmp_path):
    options = [*SMALL, "--seconds", 3, "--fluctuation", "1%", "--width", "20%", "--out", "kept"]
    code, out, err = everquery("demo", *options, "--json").ended()
    assert (code, err) == (0, "")
    summary = json.loads(out)
    at_first = {"border": 1_600, "range": 200, "threshold": 200}
    assert summary["plan"]["queries"] == at_first
    changed = {"border": 32, "range": 4, "threshold": 4}
    assert summary["registered_live"] == summary["dropped_live"] == changed
    ended = summary["ended_by_firing"]["threshold"]
    assert 0 < ended < summary["notices_by_event"]["fire"]
    assert summary["queries"] == at_first | {"threshold": 200 - ended}
    assert summary["log_position"] == 2_081
    assert summary["notices"] == sum(summary["notices_by_event"].values()) > 0
    assert (summary["refused"], summary["interrupted"]) == (0, False)
    shares = [stage["share"] for stage in summary["stages"]]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > 0
    # What Spark wrote is what an engine says of the market's files, but for the live changes.
    kept = tmp_path / "kept"
    notices = ds.dataset(kept / "notices", format="parquet").to_table()
    assert notices.num_rows == summary["notices"]
    events = ds.dataset(kept / "market", format="parquet").to_table()
    assert events.num_rows == summary["events"]
    first = notices.filter(ds.field("log_position") == 2_001)
    assert {"enter", "leave", "match", "fire", "change"} == set(first["event"].to_pylist())
    fires = notices.filter(ds.field("event") == "fire")
    told_once = [row["query_id"] for row in fires.to_pylist() if int(row["query_id"][-7:]) % 4]
    assert len(set(told_once)) == len(told_once) >= ended
    assert min(fires["total"].to_pylist()) >= 10_000


@pytest.mark.slow
def test_a_demo_is_stopped_by_ctrl_c(everquery):
    child = everquery("demo", *SMALL, "--seconds", 600, start_new_session=True)
    for line in child.process.stdout:
        if " s  batch " in line:
            break
    os.killpg(child.process.pid, signal.SIGINT)  # as a terminal does it
    code, out, err = child.ended()
    assert (code, err) == (130, "")
    assert "Stopped; this is what was done until then." in out
    assert max(map(len, out.splitlines()[-12:])) <= 80
    assert not set(out) & {"\x1b", "\r", "…"}


def write_events(folder, number, prices):
    folder.mkdir(exist_ok=True)
    rows = [{"symbol": "IBM", "ts": 100 * number + i, "price": p} for i, p in enumerate(prices)]
    (folder / f"{number}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def registry(tmp_path):
    stream = eq.Stream("trades", key="symbol", time="ts", attributes=["price"])
    with eq.Engine(stream, registry=f"sqlite:///{tmp_path / 'queries.db'}", create=True) as engine:
        engine.register(eq.Border("band", {"price": (40, 50)}, key="IBM"))
        yield engine


def told(folder):
    rows = []
    for path in sorted(folder.glob("batch-*.jsonl")):
        rows += map(json.loads, path.read_text().splitlines())
    return [(row["query_id"], row["event"], row["time"]) for row in rows]


def test_a_run_stops_and_goes_on(everquery, registry, tmp_path):
    options = ["in", "--engine", "spark", "--checkpoint", "checkpoint"]
    notices = tmp_path / "notices.jsonl"
    write_events(tmp_path / "in", 1, [45.0, 55.0])
    first = everquery("run", *options, "--follow", "--out", "notices.jsonl", "--metrics", "m.prom")
    first.wait_for(lambda: len(told(notices)) == 2)
    registry.register(eq.Range("cheap", {"price": (0, 10)}))
    write_events(tmp_path / "in", 2, [5.0])
    first.wait_for(lambda: len(told(notices)) == 3)
    first.process.send_signal(signal.SIGTERM)
    code, out, err = first.ended()
    assert code == 130
    assert "interrupted: behind batch" in out
    assert "checkpoint goes on from there" in out
    assert ": 2 events, 2 notices, 0 refused" in err
    assert "everquery_events_total" in (tmp_path / "m.prom").read_text()
    assert told(notices) == [
        ("band", "enter", 100),
        ("band", "leave", 101),
        ("cheap", "match", 200),
    ]
    write_events(tmp_path / "in", 3, [41.0, "dear"])
    code, out, err = everquery("run", *options, "--json").ended()
    (notice,) = map(json.loads, out.splitlines())
    assert (notice["query_id"], notice["event"], notice["time"]) == ("band", "enter", 300)
    summary = json.loads(err[err.index("{") :])
    assert (code, summary["events"], summary["refused"], summary["notices"]) == (0, 2, 1, 1)
    # The embedded runtime says the same of the same event.
    events = [{"symbol": "IBM", "ts": t, "price": p} for t, p in [(100, 45.0), (101, 55.0)]]
    events += [
        {"symbol": "IBM", "ts": 200, "price": 5.0},
        {"symbol": "IBM", "ts": 300, "price": 41.0},
    ]
    expected = registry.process(pa.Table.from_pylist(events)).to_pylist()[-1]
    assert notice["notice_id"] == expected["notice_id"].hex()


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (["-", "--engine", "spark"], 2, "standard input"),
        (["in.jsonl", "--follow"], 2, "--engine spark"),
        (["in.jsonl", "--checkpoint", "c"], 2, "--engine spark"),
        (["in.jsonl", "--engine", "spark", "--labels"], 2, "--engine embedded"),
        (["in.jsonl", "--engine", "spark", "--out", "n.txt"], 1, "name the folder so"),
        (["in.jsonl", "--engine", "spark", "--out", "old.jsonl"], 1, "has notices already"),
        (["none.jsonl", "--engine", "spark"], 1, "No such file"),
    ],
)
def test_what_is_wrong_is_said_before_spark_starts(registry, tmp_path, arguments, code, reason):
    (tmp_path / "old.jsonl").mkdir()
    (tmp_path / "old.jsonl" / "batch-000000000000.jsonl").write_text("{}\n")
    write_events(tmp_path / "in", 1, [45.0])
    paths = [str(tmp_path / each) if "." in each else each for each in arguments]
    env = {"EVERQUERY_REGISTRY": f"sqlite:///{tmp_path / 'queries.db'}", "COLUMNS": "200"}
    result = CliRunner().invoke(app, ["run", *paths], env=env)
    assert result.exit_code == code, result.output
    assert reason in result.output
