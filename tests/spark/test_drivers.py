"""The whole job is killed at any moment and started again, while queries come and go."""

import subprocess
import sys

import numpy as np
import pytest

from tests.servers.ports import end
from tests.spark.driver import ROOT, Driver
from tests.spark.job import (
    SOURCES,
    JobFolder,
    assert_exact,
    batches_of,
    committed,
    files_read,
    planned,
)
from tests.spark.market import STREAM, Owners, events

AHEAD = 3  # files that wait to be read


@pytest.fixture
def owners(tmp_path):
    """Let another process register, drop, pause and resume queries."""
    folder = JobFolder(tmp_path)
    Owners(folder.registry).register(60)
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.spark.market", folder.registry, "1"],
        cwd=ROOT, start_new_session=True,
    )  # fmt: skip
    yield process
    end(process)


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.slow)])
@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_a_job_that_is_killed_goes_on_exactly(tmp_path, owners, source, kills):
    folder = JobFolder(tmp_path, source)
    rng = np.random.default_rng(kills)
    written = under_way = 0

    def feed():
        nonlocal written
        while written < len(files_read(folder)) + AHEAD:
            folder.write(written, events(written))
            written += 1

    for _ in range(kills):
        feed()
        driver = Driver(folder)
        driver.wait_for_batch(committed(folder) + int(rng.integers(1, 3)))
        feed()
        driver.wait_for_plan(committed(folder) + 1)
        # Some time within the batch, or after it: in the time that a batch takes.
        try:
            driver.process.wait(rng.uniform(0, 1))
        except subprocess.TimeoutExpired:
            driver.kill()
        under_way += planned(folder) > committed(folder)
    driver = Driver(folder)
    driver.wait_until(lambda: len(files_read(folder)) == written, "the rest")
    end(owners)
    position = Owners(folder.registry).engine.position
    driver.wait_until(lambda: list(batches_of(folder))[-1].position == position, "the changes")
    driver.stop()
    assert_exact(folder, STREAM, least=500)
    assert under_way  # at least one batch had begun and was not done
