"""``everquery network``: check, show and run."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from everquery.cli.app import app
from tests.unit.network.plants import PLANT, readings

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture
def plant(tmp_path):
    (tmp_path / "plant.yaml").write_text(PLANT)
    pq.write_table(readings(100), tmp_path / "readings.parquet")
    return tmp_path


def called(*words):
    return CliRunner().invoke(app, ["network", *map(str, words)])


def test_check_shows_what_arrows_carry(plant):
    done = called("check", plant / "plant.yaml", "--explain")
    assert done.exit_code == 0
    assert "celsius number" in done.output
    assert "network 'plant' can run: 1 stream, 4 boxes, 3 outputs" in done.output
    assert json.loads(called("check", plant / "plant.yaml", "--json").output)["hot"]


def test_check_tells_whether_the_machine_suffices(plant):
    file, sample = plant / "plant.yaml", plant / "readings.parquet"
    done = called("check", file, "--rate", "readings=10", "--sample", f"readings={sample}")
    assert done.exit_code == 0
    assert "it suffices" in done.output
    assert "saturates first" in done.output
    costs = ("--rate", "readings=10", "--cost", "hot=0.3")
    assert "it does not suffice" in called("check", file, *costs).output
    found = json.loads(called("check", file, *costs, "--capacity", 4, "--json").output)
    assert found["minimum_capacity"] == 3
    assert found["suffices"]
    assert "write BOX=SECONDS" in called("check", file, *costs, "--cost", "hot").output


def test_check_refuses_never_where_it_cannot_hold(plant):
    (plant / "never.yaml").write_text(PLANT.replace("scaled}", "scaled, shed: never}"))
    words = ("check", plant / "never.yaml", "--rate", "readings=10", "--cost", "hot=0.3")
    done = called(*words)
    assert done.exit_code == 1
    assert "`shed: never` of output 'hot' can't be kept" in done.output
    assert called(*words, "--capacity", 4).exit_code == 0


def test_check_refuses_what_cannot_run(plant):
    (plant / "bad.yaml").write_text(PLANT.replace("temperature > 80", "temperature > 'hot'"))
    done = called("check", plant / "bad.yaml")
    assert done.exit_code == 1
    assert "box 'hot' (filter, arrow readings -> hot)" in done.output


def test_show_draws_every_node(plant):
    picture = ET.fromstring(called("show", plant / "plant.yaml").output)
    texts = {one.text for one in picture.iter("{http://www.w3.org/2000/svg}text")}
    assert {"readings", "hot", "scaled", "minute", "pairs", "tops"} <= texts
    assert called("show", EXAMPLES / "plant.yaml", "-o", plant / "p.svg").exit_code == 0
    assert "heat" in (plant / "p.svg").read_text()


def test_run_prints_rows_or_writes_files(plant):
    done = called("run", plant / "plant.yaml", plant / "readings.parquet", "--stats")
    assert done.exit_code == 0
    assert '{"output": "hot", "machine":' in done.output
    done = called(
        *("run", plant / "plant.yaml", f"readings={plant / 'readings.parquet'}"),
        *("-o", plant / "out", "--picture", plant / "live.svg", "--threads", 2),
    )
    assert done.exit_code == 0
    assert "rows by output: hot" in done.output
    assert pq.read_table(plant / "out" / "tops.parquet").num_rows > 0
    assert "rows" in (plant / "live.svg").read_text()


def test_run_wants_the_stream_of_each_file_where_there_are_several(plant):
    done = called("run", EXAMPLES / "fleet.yaml", plant / "readings.parquet")
    assert done.exit_code == 1
    assert "write STREAM=FILE, with positions, ticks" in done.output
