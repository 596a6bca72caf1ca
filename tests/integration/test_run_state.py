"""``run --state``: a run that is killed anywhere and goes on tells what one whole run tells."""

import csv
import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

import everquery as eq
from everquery.cli.run_state import RunState, StateFile
from tests.unit.cli.conftest import Shell

STREAM = eq.Stream("trades", key="symbol", time="ts", attributes=["price"])
QUERIES = [
    eq.Border("band", {"price": (40, 60)}),
    eq.Range("cheap", {"price": (None, 20)}),
    eq.Threshold("once", {"price": (40, None)}, total=400),
    eq.Threshold("each", {"price": (40, None)}, total=50, repeat=True),
    eq.Range("brief", {}, key="A", ttl=300),
]

# Runs the command line again and again, each time in a fork that kills itself at the next of some
# points; a point is one of the calls by which a run writes.
DRIVER = """
import json, os, signal, sys
from pathlib import Path
import everquery.sources.blocks as blocks
from everquery.cli import run as _, run_state
from everquery.cli.app import app
from everquery.sinks import files
from everquery.registry.log import Registry

blocks.BLOCK_BYTES = 1_500

def installed(point):
    left = [point]
    def tick():
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
    def ticking(owner, name, torn=False):
        before = getattr(owner, name)
        def call(*args, **options):
            tick()
            if torn and left[0] == 1:  # a write that is cut in the middle
                half = args[1].slice(0, args[1].num_rows // 2)
                before(args[0], half, **options)
                tick()
            result = before(*args, **options)
            tick()
            return result
        setattr(owner, name, call)
    ticking(files.JsonLinesWriter, "write", torn=True)
    ticking(os, "fsync")
    ticking(run_state.StateFile, "save")
    ticking(Registry, "append")

arguments, points = json.loads(sys.argv[1])
killed = 0
for point in [*points, 0]:
    child = os.fork()
    if child == 0:
        installed(point)
        try:
            app(arguments, standalone_mode=False)
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            os._exit(7)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status):
        assert os.WEXITSTATUS(status) == 0, status
        break
    killed += 1
print(killed)
"""


def write_inputs(folder, *, rows=1_200, seed=7):
    """Write events into two files, of which some are bad."""
    chosen = random.Random(seed)
    lines = []
    for ts in range(rows):
        price = round(chosen.uniform(0, 100), 2)
        time = "soon" if chosen.random() < 0.02 else ts if chosen.random() > 0.02 else ts - 50
        lines.append((chosen.choice("ABC"), time, price))
    with (folder / "a.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("symbol", "ts", "price"), *lines[: rows // 2]])
    with (folder / "b.jsonl").open("w") as file:
        for symbol, ts, price in lines[rows // 2 :]:
            file.write(json.dumps({"symbol": symbol, "ts": ts, "price": price}) + "\n")


def registry(folder):
    folder.mkdir()
    url = f"sqlite:///{folder / 'q.db'}"
    with eq.Engine(STREAM, registry=url, create=True) as engine:
        engine.register(QUERIES)
    return url


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def drive(folder, url, points, *options):
    inputs = [str(folder.parent / name) for name in ("a.csv", "b.jsonl")]
    arguments = ["run", *inputs, "-r", url, "--quiet", "--out", str(folder / "n.jsonl")]
    arguments += ["--dead-letters", str(folder / "l.jsonl"), *options]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", DRIVER, json.dumps([arguments, points])],
        capture_output=True, text=True, check=False, timeout=500,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return int(done.stdout.splitlines()[-1])


def test_killed_anywhere_nothing_is_lost_or_doubled(tmp_path):
    write_inputs(tmp_path)
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    urls = registry(whole), registry(cut)
    drive(whole, urls[0], [])
    points = [random.Random(3).randint(1, 25) for _ in range(14)]
    state = ["--state", str(cut / "s"), "--state-every", "0"]
    assert drive(cut, urls[1], points, *state) > 5
    expected, found = lines_of(whole / "n.jsonl"), lines_of(cut / "n.jsonl")
    assert len(expected) > 500
    assert {"enter", "leave", "match", "fire", "end"} <= {each["event"] for each in expected}
    assert [each["notice_id"] for each in found] == [each["notice_id"] for each in expected]
    assert found == expected
    assert lines_of(cut / "l.jsonl") == lines_of(whole / "l.jsonl")
    for url in urls:
        with eq.open(url) as engine:
            assert engine.queries()["id"].to_pylist() == ["band", "cheap", "each"]


@pytest.fixture
def shell(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shell = Shell(registry(tmp_path / "r"))
    write_inputs(tmp_path, rows=100)
    return shell


def test_a_second_run_goes_on_behind_the_first(shell, tmp_path):
    shell("run", "a.csv", "b.jsonl", "--out", "whole.jsonl", "--read-only")
    options = ("--out", "n.jsonl", "--state", "s", "--read-only")
    first = shell.json("run", "a.csv", *options)
    second = shell.json("run", "a.csv", "b.jsonl", *options)
    assert (first["events"], second["events"]) == (50, 50)
    assert lines_of(Path("n.jsonl")) == lines_of(Path("whole.jsonl"))
    with Path("b.jsonl").open("a") as file:
        file.write('{"symbol": "A", "ts": 1000, "price": 5}\n')
    third = shell.json("run", "a.csv", "b.jsonl", *options)
    assert (third["events"], third["refused"]) == (1, 0)
    assert len(lines_of(Path("n.jsonl"))) == len(lines_of(Path("whole.jsonl"))) + third["notices"]
    assert third["notices"] >= 1


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".json", ".csv.gz"])
def test_other_inputs_go_on_too(shell, tmp_path, suffix, monkeypatch):
    import gzip

    import pyarrow as pa
    import pyarrow.parquet as pq

    monkeypatch.setattr("everquery.sources.files.BATCH_ROWS", 30)
    monkeypatch.setattr("everquery.sources.json_array.BATCH_ROWS", 30)
    monkeypatch.setattr("everquery.sources.blocks.BLOCK_BYTES", 300)
    rows = [{"symbol": "A", "ts": i, "price": float(i % 80)} for i in range(100)]
    path = tmp_path / f"e{suffix}"
    if suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=45)
    elif suffix == ".arrow":
        with pa.ipc.new_file(path, pa.Table.from_pylist(rows).schema) as writer:
            writer.write_table(pa.Table.from_pylist(rows), max_chunksize=70)
    elif suffix == ".json":
        path.write_text(json.dumps(rows))
    else:
        text = "symbol,ts,price\n" + "".join(f"A,{e['ts']},{e['price']}\n" for e in rows)
        path.write_bytes(gzip.compress(text.encode()))
    shell("run", path, "--out", "whole.jsonl", "--read-only")
    saves = []
    save = StateFile.save

    def note(self, state):
        saves.append(state.as_bytes())
        save(self, state)

    monkeypatch.setattr(StateFile, "save", note)
    options = ("--out", "n.jsonl", "--state", "s", "--state-every", "0", "--read-only")
    assert shell.json("run", path, *options)["events"] == 100
    expected = lines_of(Path("whole.jsonl"))
    assert lines_of(Path("n.jsonl")) == expected
    assert len(saves) > 3
    for saved in saves[:3]:
        Path("s").write_bytes(saved)
        seen = RunState.from_bytes(saved).arrived
        assert shell.json("run", path, *options)["events"] == 100 - seen
        assert lines_of(Path("n.jsonl")) == expected


def test_what_a_grace_holds_back_is_in_the_state(shell, tmp_path):
    shell("stream", "create", "slow", "--key", "k", "--time", "t", "-a", "x", "--grace", "5")
    shell("query", "add", "all", "-s", "slow", "--kind", "range")
    Path("1.csv").write_text("k,t,x\nA,10,1\nA,12,1\n")
    Path("2.csv").write_text("k,t,x\nA,11,1\nA,30,1\n")
    options = ("-s", "slow", "--state", "s", "--out", "n.jsonl")
    assert shell.json("run", "1.csv", *options)["held_back"] == 2
    assert "1 event held back by the grace, in the state" in shell("run", "2.csv", *options).stdout
    assert [each["time"] for each in lines_of(Path("n.jsonl"))] == [10, 11, 12]


class TestRefused:
    def test_standard_input_and_parquet(self, shell):
        told = shell("run", "-", "--state", "s", code=2).stderr
        assert "standard input can't be read again" in " ".join(told.replace("│", " ").split())
        shell("run", "a.csv", "--state", "s", "--out", "n.parquet", code=2)
        shell("run", "a.csv", "--state", "s", "--engine", "spark", code=2)

    def test_another_file_of_the_same_name(self, shell):
        shell("run", "a.csv", "--state", "s", "--out", "n.jsonl")
        text = Path("a.csv").read_bytes()
        Path("a.csv").write_bytes(text.replace(b"A", b"Z", 1))
        told = shell("run", "a.csv", "--state", "s", "--out", "n.jsonl", code=1).stderr
        assert "is not the file that the state has read" in told
        Path("a.csv").write_bytes(text[:-20])
        told = shell("run", "a.csv", "--state", "s", "--out", "n.jsonl", code=1).stderr
        assert "is shorter than when the state read it" in told

    @pytest.mark.parametrize(
        "content", [b"", b"hello", bytes(range(256))], ids=["empty", "text", "bytes"]
    )
    def test_a_file_that_is_no_state(self, shell, content):
        Path("s").write_bytes(content)
        told = shell("run", "a.csv", "--state", "s", code=1).stderr
        assert "s is no state of a run, or a damaged one" in told
        assert Path("s").read_bytes() == content

    def test_a_state_that_another_run_has(self, shell):
        held = StateFile(Path("s"))
        assert "another run has the state s" in shell("run", "a.csv", "--state", "s", code=1).stderr
        held.close()
        shell("run", "a.csv", "--state", "s")

    def test_an_output_that_is_not_what_it_was(self, shell):
        options = ("--state", "s", "--state-every", "0")
        shell("run", "a.csv", *options, "--out", "n.jsonl")
        state = RunState.from_bytes(Path("s").read_bytes())
        state.ended = False  # as if it had been killed
        Path("s").write_bytes(state.as_bytes())
        told = shell("run", "a.csv", *options, "--out", "m.jsonl", code=1).stderr
        assert "the state goes with --out" in told
        length = Path("n.jsonl").stat().st_size
        with Path("n.jsonl").open("r+b") as file:
            file.truncate(length - 1)
        assert (
            "put the file back"
            in shell("run", "a.csv", *options, "--out", "n.jsonl", code=1).stderr
        )

    def test_after_its_end_a_run_may_have_another_output(self, shell):
        shell("run", "a.csv", "--state", "s", "--out", "n.jsonl")
        assert (
            shell.json("run", "a.csv", "b.jsonl", "--state", "s", "--out", "m.jsonl")["events"]
            == 50
        )
        Path("m.jsonl").unlink()  # taken away by whoever reads it
        assert shell.json("run", "a.csv", "--state", "s", "--out", "m.jsonl")["events"] == 0
        assert Path("m.jsonl").read_text() == ""

    def test_an_altered_stream(self, shell):
        shell("run", "a.csv", "--state", "s")
        shell("stream", "alter", "trades", "--grace", "5")
        shell("run", "b.jsonl", "--state", "s")
        shell("stream", "alter", "trades", "--attribute", "volume")
        told = shell("run", "b.jsonl", "--state", "s", code=1).stderr
        assert "from before 'volume' was added" in told
