"""Streaming queries that are collected; registries and servers beside them."""

import contextlib
import os
import sys
import time

import pytest

from tests.integration.conftest import own_postgres, postgres
from tests.servers.cluster import Cluster
from tests.servers.jars import JarsMissingError, jars
from tests.servers.kafka import Kafka

__all__ = ["own_postgres", "postgres"]


@pytest.hookimpl(tryfirst=True)  # in front of the hook that reads the marks
def pytest_collection_modifyitems(items):
    for item in items:
        if "tests/spark/" in item.path.as_posix():
            item.add_marker(pytest.mark.spark)


@contextlib.contextmanager
def running(make):
    """Start a server, and remove it at the end."""
    server = make()
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture(scope="session")
def kafka():
    """Return a Kafka broker; skip where it can't be had."""
    try:
        jars("connectors")
        jars("broker")
    except JarsMissingError as error:
        pytest.skip(str(error))
    with running(Kafka) as broker:
        yield broker


@pytest.fixture
def cluster():
    """Return a standalone cluster of two workers."""
    with running(Cluster) as cluster:
        yield cluster


@pytest.fixture
def driver_environment():
    """Return the environment of a driver in a process of its own."""
    surroundings = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return {**surroundings, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}


class Collected:
    """The rows of a streaming DataFrame, batch by batch, while its query runs."""

    def __init__(self, frame, checkpoint, **trigger):
        self.batches = []
        writer = frame.writeStream.foreachBatch(self._take)
        writer = writer.option("checkpointLocation", str(checkpoint))
        self.query = writer.trigger(**(trigger or {"processingTime": "0 seconds"})).start()

    def _take(self, batch, number):
        self.batches.append((number, batch.collect()))

    @property
    def rows(self):
        return [row for _, rows in self.batches for row in rows]

    def wait(self, done, *, seconds=60):
        give_up = time.monotonic() + seconds
        while not done(self):
            assert self.query.exception() is None, self.query.exception()
            assert time.monotonic() < give_up, f"after {seconds} s: {self.batches}"
            time.sleep(0.05)


@pytest.fixture
def collect(tmp_path):
    """Start a query that collects; all are stopped at the end."""
    with contextlib.ExitStack() as stack:

        def start(frame, checkpoint=tmp_path / "checkpoint", **trigger):
            collected = Collected(frame, checkpoint, **trigger)
            stack.callback(collected.query.stop)
            return collected

        yield start
