"""Python workers die and tasks fail in the middle of a batch: every notice comes once."""

import pytest

from tests.spark.faults import Plan, break_stages, points_of
from tests.spark.job import SOURCES, JobFolder, assert_exact, process_all, start
from tests.spark.market import SCHEMA, STREAM, Owners, events


@pytest.mark.parametrize("rounds", [1, pytest.param(10, marks=pytest.mark.slow)])
@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_workers_die_and_tasks_fail_at_every_point(spark, tmp_path, monkeypatch, source, rounds):
    plan = Plan(tmp_path / "plan")
    break_stages(monkeypatch, plan)
    folder = JobFolder(tmp_path, source)
    owners = Owners(folder.registry)
    owners.register(60)
    query = start(spark, folder, STREAM, SCHEMA, dead_letters=True)
    # Two points a batch, of different stages mostly: a task is tried four times.
    faults = [(what, point) for point in points_of(source) for what in ("kill", "fail")] * rounds
    try:
        folder.write(0, events(0))
        process_all(query, folder)
        written = 1
        for pair in zip(faults[::2], faults[1::2], strict=True):
            for fault in pair:
                plan.add(*fault)
            owners.change()
            for _ in range(source.ahead):
                folder.write(written, events(written))
                written += 1
            process_all(query, folder)
            assert plan.waiting() == []
    finally:
        query.stop()
    assert_exact(folder, STREAM, least=1_000)
