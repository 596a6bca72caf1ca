"""``everquery network attach`` and ``detach``, and the run that they reach."""

import json
import select
import subprocess
import sys

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from everquery.cli.app import app
from tests.unit.network.plants import readings
from tests.unit.network.test_control import COLD, TEXT

SECONDS = 120


@pytest.fixture
def plant(tmp_path):
    (tmp_path / "plant.yaml").write_text(TEXT)
    (tmp_path / "cold.yaml").write_text(COLD)
    pq.write_table(readings(100), tmp_path / "readings.parquet")
    return tmp_path


def called(*words):
    return CliRunner().invoke(app, ["network", *map(str, words)])


def ran(plant):
    return called(
        *("run", plant / "plant.yaml", plant / "readings.parquet"),
        *("--control", plant / "control", "--out", plant / "out"),
    )


def test_a_change_waits_for_the_next_run_and_stays(plant):
    words = ("attach", plant / "control", plant / "cold.yaml", "--wait", 0)
    refused = called(*words)
    assert refused.exit_code == 1
    assert "everquery network run NETWORK EVENTS --control" in refused.output
    assert ran(plant).exit_code == 0
    assert not (plant / "out" / "cold.parquet").exists()
    asked = called(*words, "--begin", "oldest")
    assert asked.exit_code == 0
    assert "change 1 waits" in asked.output
    for _ in range(2):
        done = ran(plant)
        assert done.exit_code == 0
        cold = pq.read_table(plant / "out" / "cold.parquet")
        assert cold.num_rows == sum(
            (row["temperature"] or 60) < 60 for row in readings(100).to_pylist()
        )
    assert "cold" in called("check", plant / "control" / "network.yaml").output
    called(*words)
    ran(plant)
    assert called("detach", plant / "control", "cold", "--wait", 0).exit_code == 0
    assert "rows by output: hot 51, cold 0;" in ran(plant).output


class Child:
    """``everquery network run - --control`` behind a pipe that the test writes to."""

    def __init__(self, plant):
        line = [sys.executable, "-c", "from everquery.cli.app import main; main()"]
        line += ["network", "run", plant / "plant.yaml", "-", "--control", plant / "control"]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(line, stdin=pipe, stdout=pipe, stderr=pipe)

    def send(self, ts, temperature):
        row = {"machine": "a", "ts": ts, "temperature": temperature, "vibration": 0}
        self.process.stdin.write(json.dumps(row).encode() + b"\n")
        self.process.stdin.flush()

    def row(self):
        ready, _, _ = select.select([self.process.stdout], [], [], SECONDS)
        assert ready, "no row came"
        found = json.loads(self.process.stdout.readline())
        return found["output"], found["ts"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            pipe.close()


def test_a_run_behind_a_pipe_is_reached_while_nothing_comes(plant):
    control = plant / "control"
    with Child(plant) as child:
        child.send(1, 50)
        child.send(2, 90)
        assert child.row() == ("hot", 2)
        done = called(
            *("attach", control, plant / "cold.yaml"), *("--begin", "oldest", "--wait", SECONDS)
        )
        assert done.exit_code == 0
        assert "change 1 is made" in done.output
        assert child.row() == ("cold", 1)
        child.send(3, 40)
        assert child.row() == ("cold", 3)
        again = called("attach", control, plant / "cold.yaml", "--wait", SECONDS)
        assert again.exit_code == 1
        assert "change 2 was refused: the network has a box 'cold' already" in again.output
        assert called("detach", control, "cold", "--wait", SECONDS).exit_code == 0
        child.send(4, 40)
        child.send(5, 100)
        assert child.row() == ("hot", 5)
        _, err = child.process.communicate(timeout=SECONDS)
        assert child.process.returncode == 0
        assert b"rows by output: hot 2, cold 2; dead letters: 0" in err
