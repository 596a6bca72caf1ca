"""The types of the public surface: mypy takes the calls of the documentation, and they run."""

import subprocess
import sys
from pathlib import Path

import pytest

import everquery
from tests.typed import documented_calls

ROOT = Path(__file__).parents[2]
CALLS = Path(documented_calls.__file__)


def test_the_package_says_that_it_has_types():
    assert (Path(everquery.__file__).parent / "py.typed").is_file()


@pytest.mark.long
def test_mypy_accepts_the_documented_calls():
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", str(CALLS.relative_to(ROOT))],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode in (0, 1), checked.stdout + checked.stderr
    # What is wrong elsewhere is found by `make lint`.
    assert [line for line in checked.stdout.splitlines() if CALLS.name in line] == []


@pytest.mark.parametrize(
    "name", ["streams", "queries", "spans_of_time", "integer_keys", "engine", "errors"]
)
def test_the_documented_calls_run(name):
    getattr(documented_calls, name)()


def test_the_documented_calls_of_registries_run(tmp_path):
    documented_calls.registry(tmp_path)
