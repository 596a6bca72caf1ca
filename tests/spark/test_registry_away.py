"""The registry goes away and comes back: events flow on, and changes come afterwards, once each."""

import sqlite3

import pytest

from tests.spark.job import JobFolder, assert_exact, batches_of, start
from tests.spark.market import SCHEMA, STREAM, Owners, events


class Job:
    """A job that is fed; events must come through whether its registry is there or not."""

    def __init__(self, spark, root, registry=None):
        self.folder = JobFolder(root)
        self.registry = registry or self.folder.registry
        self.owners = Owners(self.registry)
        self.owners.register(60)
        options = {"registry": self.registry, "dead_letters": True}
        self.query = start(spark, self.folder, STREAM, SCHEMA, **options)
        self.written = 0
        self.feed()

    def feed(self):
        self.folder.write(self.written, events(self.written))
        self.written += 1
        self.query.processAllAvailable()

    def finish(self):
        """Make a change, see that it arrives, and compare."""
        self.owners.change()
        self.feed()
        while list(batches_of(self.folder))[-1].position < self.owners.engine.position:
            self.feed()
            assert self.written < 50
        self.query.stop()
        assert_exact(self.folder, STREAM, least=200, registry=self.registry)


@pytest.fixture
def run(spark):
    jobs = []

    def make(*arguments):
        jobs.append(Job(spark, *arguments))
        return jobs[-1]

    yield make
    for job in jobs:
        job.query.stop()


@pytest.mark.slow
def test_a_file_that_is_moved_away(run, tmp_path):
    job = run(tmp_path)
    away = tmp_path / "away"
    away.mkdir()
    moved = [file for file in tmp_path.glob("queries.db*") if not file.name.endswith(".lock")]
    for file in moved:
        file.rename(away / file.name)
    job.feed()
    job.feed()
    for file in moved:
        (away / file.name).rename(file)
    job.finish()


@pytest.mark.slow
def test_a_file_that_is_locked(run, tmp_path):
    job = run(tmp_path)
    with sqlite3.connect(tmp_path / "queries.db", isolation_level=None) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        job.feed()
        job.feed()
        connection.execute("COMMIT")
    connection.close()
    job.finish()


def test_a_server_that_stops_and_starts_again(run, tmp_path, own_postgres):
    job = run(tmp_path, own_postgres.url)
    for _ in range(2):
        own_postgres.stop()
        job.feed()
        job.feed()
        own_postgres.start()
        job.owners.change()
        job.feed()
    job.finish()
    job.owners.engine._log.registry.close()
