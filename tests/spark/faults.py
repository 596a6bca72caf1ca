"""The stages of a job with faults: at chosen points, once each, a worker dies or a task fails.

Workers import this module by name; `break_stages` puts its classes in the place of the real ones.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from pyspark import TaskContext

from everquery.sharding import durable, left_tables, references
from everquery.spark.run_shards import RunShards
from everquery.spark.stages import PackEvents, PackSpans, RouteLog, UnpackNotices
from tests.spark.job import ONE_READS, Source

WRITES = ("first write", "before the last write", "after the last write")
POINTS = (
    "pack begins",
    "pack ends",
    "read begins",
    "read ends",
    "route begins",
    "shard begins",
    *WRITES,
    "shard has told",
    "unpack begins",
    "unpack ends",
)

# So that the files of the host are in play too.
durable.SHARED = 10
left_tables.LEAST_BYTES = 1
references.MOST_BATCHES = 3  # and that state by reference is written whole now and then


def points_of(source: Source) -> list[str]:
    """Return the points to which the workers of a job come."""
    apart = "pack" if source == ONE_READS else "read"  # who has the shards reads, or others pack
    return [point for point in POINTS if not point.startswith(apart)]


class TaskFailed(Exception):  # noqa: N818 - it is one of ours, on purpose
    """A task fails and its worker lives on, with all that it remembers."""


class Plan:
    """Which faults happen: files in a folder, named by point; who removes one makes it happen."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(self, what: str, point: str) -> None:
        """Let something (``kill`` or ``fail``) happen when a worker next comes to a point."""
        assert point in POINTS
        self.folder.mkdir(exist_ok=True)
        (self.folder / f"{what} {point}").touch()

    def waiting(self) -> list[str]:
        """Return what has not happened yet."""
        return sorted(file.name for file in self.folder.glob("*"))

    def at(self, point: str) -> None:
        """Let happen what is planned for a point."""
        if TaskContext.get() is None:  # on the driver
            return
        if self._take(f"kill {point}"):
            os.kill(os.getpid(), signal.SIGKILL)
        if self._take(f"fail {point}"):
            raise TaskFailed(f"at the point where {point}")

    def _take(self, name: str) -> bool:
        try:
            (self.folder / name).unlink()
        except FileNotFoundError:
            return False
        return True


class BrokenRunShards(RunShards):
    plan: Plan

    def init(self, handle) -> None:
        super().init(handle)
        self._store = BrokenStore(self._store, self.plan)

    def handleInputRows(self, key, rows, timerValues) -> Iterator:
        self.plan.at("shard begins")
        yield from super().handleInputRows(key, rows, timerValues)
        self.plan.at("shard has told")

    def _load(self):
        work = super()._load()
        reader = None if work.reader is None else BrokenReader(work.reader, self.plan)
        return replace(work, reader=reader)


class BrokenReader:
    def __init__(self, reader, plan: Plan) -> None:
        self._reader = reader
        self._plan = plan

    def read(self, name) -> Iterator:
        self._plan.at("read begins")
        yield from self._reader.read(name)
        self._plan.at("read ends")


class BrokenStore:
    def __init__(self, store, plan: Plan) -> None:
        self._store = store
        self._plan = plan
        self.get = store.get
        self.remove = store.remove

    def put(self, name: str, value: bytes) -> None:
        if name != "head":
            self._store.put(name, value)
            self._plan.at("first write")
            return
        self._plan.at("before the last write")
        self._store.put(name, value)
        self._plan.at("after the last write")


class BrokenPackEvents(PackEvents):
    def __call__(self, batches):
        self.plan.at("pack begins")
        yield from super().__call__(batches)
        self.plan.at("pack ends")


class BrokenPackSpans(PackSpans):
    def __call__(self, batches):
        self.plan.at("pack begins")
        yield from super().__call__(batches)
        self.plan.at("pack ends")


class BrokenRouteLog(RouteLog):
    def __call__(self, batches):
        self.plan.at("route begins")
        yield from super().__call__(batches)


class BrokenUnpackNotices(UnpackNotices):
    def __call__(self, batches):
        self.plan.at("unpack begins")
        yield from super().__call__(batches)
        self.plan.at("unpack ends")


def break_stages(monkeypatch, plan: Plan) -> None:
    """Let `watch` make stages with faults."""

    def maker(broken):
        def make(*arguments, **named):
            stage = broken(*arguments, **named)
            object.__setattr__(stage, "plan", plan)  # they are frozen
            return stage

        return make

    module = sys.modules["everquery.spark.watching"]  # the package has a function of that name
    stages = (BrokenPackEvents, BrokenPackSpans, BrokenRouteLog, BrokenRunShards)
    for broken in (*stages, BrokenUnpackNotices):
        monkeypatch.setattr(module, broken.__name__.removeprefix("Broken"), maker(broken))
