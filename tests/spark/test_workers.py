"""Python workers die and tasks fail in the middle of a batch: every notice comes once."""

import pytest

from tests.spark.faults import POINTS, Plan, break_stages
from tests.spark.job import JobFolder, assert_exact, start
from tests.spark.market import SCHEMA, STREAM, Owners, events


@pytest.mark.parametrize("rounds", [1, pytest.param(10, marks=pytest.mark.slow)])
def test_workers_die_and_tasks_fail_at_every_point(spark, tmp_path, monkeypatch, rounds):
    plan = Plan(tmp_path / "plan")
    break_stages(monkeypatch, plan)
    folder = JobFolder(tmp_path)
    owners = Owners(folder.registry)
    owners.register(60)
    query = start(spark, folder, STREAM, SCHEMA, dead_letters=True)
    # Two points a batch, of different stages mostly: a task is tried four times.
    faults = [(what, point) for point in POINTS for what in ("kill", "fail")] * rounds
    try:
        folder.write(0, events(0))
        query.processAllAvailable()
        for number in range(1, 1 + len(faults) // 2):
            for fault in faults[2 * number - 2 : 2 * number]:
                plan.add(*fault)
            owners.change()
            folder.write(number, events(number))
            query.processAllAvailable()
            assert plan.waiting() == []
    finally:
        query.stop()
    assert_exact(folder, STREAM, least=1_000)
