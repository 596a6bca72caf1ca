"""Snapshots as bytes: engines that know the same write the same, whatever memory held before."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.attack import snapshots

ROOT = Path(__file__).parents[3]
SCRIPT = """
from tests.attack.snapshots import engine, STREAMS
import hashlib
for which in range(len(STREAMS)):
    print(hashlib.sha256(engine(which).snapshot()).hexdigest())
"""


def digests_where_memory_holds(byte: int) -> str:
    path = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path, "MALLOC_PERTURB_": str(byte)},
    )  # fmt: skip
    return done.stdout


def test_no_memory_that_was_never_written_gets_into_a_snapshot():
    """The C library fills what it hands out with another byte in each run."""
    assert digests_where_memory_holds(0x55) == digests_where_memory_holds(0x3C)


@pytest.mark.parametrize("which", range(len(snapshots.STREAMS)))
def test_equal_engines_write_equal_bytes(which):
    one, other = snapshots.engine(which), snapshots.engine(which)
    assert one.snapshot() == other.snapshot()
    assert one.snapshot() == one.snapshot()
