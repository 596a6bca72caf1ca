"""Executors of a cluster are killed in the middle of a batch, and others take their place."""

import pytest

from tests.spark.driver import Driver
from tests.spark.job import SOURCES, JobFolder, assert_exact, committed, files_read
from tests.spark.market import STREAM, Owners, events


@pytest.mark.parametrize("kills", [2, pytest.param(10, marks=pytest.mark.slow)])
@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_executors_are_killed(cluster, tmp_path, source, kills):
    folder = JobFolder(tmp_path, source)
    owners = Owners(folder.registry)
    owners.register(60)
    driver = Driver(folder, cluster.url)
    try:
        folder.write(0, events(0))
        driver.wait_for_batch(0)
        for number in range(1, kills + 1):
            before = committed(folder)
            owners.change()
            folder.write(number, events(number))
            driver.wait_for_plan(before + 1)
            worker = number % 2
            if number % 3:
                assert cluster.kill_executors(worker)
            else:
                cluster.kill_worker(worker)
                cluster.start_worker(worker)
            driver.wait_until(
                lambda n=number: len(files_read(folder)) > n, f"file {number} is read"
            )
    finally:
        driver.stop()
    assert_exact(folder, STREAM, least=200)
