"""Quarantined queries on their way from the shards to the registry.

Executors need no way to the registry, so a shard tells what it runs without in its row of figures;
Spark hands the figures of a batch to listeners in the driver's process, and one of them writes what
is new into the registry.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from hashlib import blake2b
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from sqlalchemy.engine import make_url

from everquery.engine import open_engine
from everquery.errors import EverqueryError
from everquery.registry import Registry
from everquery.registry.addresses import shown_url
from everquery.registry.presence import warn_of_no_queries
from everquery.registry.quarantined import Quarantined, as_json, from_json

OBSERVED = "everquery"  # the name of a job's figures
HELD_OUT, REGISTRY = "held_out", "registry"  # two of them

log = logging.getLogger("everquery.registry")


def told_as(shard: int, queries: Sequence[Quarantined]) -> str:
    """Return what a shard tells of the queries that it runs without."""
    return json.dumps([shard, as_json(queries)])


class QuarantineReports(StreamingQueryListener):
    """Hears which queries jobs of a session run without, and keeps their registries up to date."""

    def __init__(self) -> None:
        self._registries: dict[str, tuple[str, str]] = {}
        self._known: dict[str, dict[int, list[Quarantined]]] = {}  # by job and shard
        self._counted: set[str] = set()  # jobs of which it is known whether they have queries

    def expect(self, url: str, stream: str) -> str:
        """Return by which name jobs tell that they are of a registry and stream."""
        name = blake2b(f"{url}\0{stream}".encode(), digest_size=16).hexdigest()  # hides a password
        self._registries[name] = url, stream
        return name

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Ask the registry anew what it knows of this job."""
        self._known.pop(str(event.id), None)
        self._counted.discard(str(event.id))

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Report what is new."""
        row = event.progress.observedMetrics.get(OBSERVED)
        figures = {} if row is None else row.asDict()
        place = self._registries.get(figures.get(REGISTRY) or "")
        if place is None:
            return
        job = str(event.progress.id)
        if figures["ran"] and job not in self._counted:
            self._counted.add(job)
            if not figures["queries"]:
                _warn_if_empty(*place)
        if not figures[HELD_OUT]:
            return
        told = {shard: from_json(text) for shard, text in map(json.loads, figures[HELD_OUT])}
        try:
            self._report(*place, job, told)
        except EverqueryError as error:  # shards tell it again
            log.warning(
                "quarantined queries of %r could not be noted in the registry: %s", place[1], error
            )

    def _report(self, url: str, stream: str, job: str, told: dict[int, list[Quarantined]]) -> None:
        known = self._known.get(job)
        if known is not None and all(known.get(shard, []) == told[shard] for shard in told):
            return
        registry = Registry(url, create=False)
        try:
            noted = registry.quarantine(stream)
            if known is None:
                known = {shard: queries for (_, shard), queries in noted.read(job).items()}
            new = {shard: told[shard] for shard in told if known.get(shard, []) != told[shard]}
            if new:
                noted.replace(job, new)
        finally:
            registry.close()
        self._known[job] = {**known, **told}

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Nothing has changed."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Nothing has changed: what was told stays true."""


def _warn_if_empty(url: str, stream: str) -> None:
    """Say that a job has no queries, if that is so; the shards of one batch may not be all."""
    try:
        with open_engine(url, stream, lazy=True, read_only=True) as engine:
            if not engine.queries().num_rows:
                warn_of_no_queries(stream, shown_url(make_url(url)))
    except EverqueryError as error:
        log.warning("whether stream %r has queries can't be seen: %s", stream, error)


_reports: WeakKeyDictionary[SparkSession, QuarantineReports] = WeakKeyDictionary()


def report_quarantined(spark: SparkSession, url: str, stream: str) -> str:
    """Let the registry at a URL know what jobs on a stream run without; return its name there."""
    reports = _reports.get(spark)
    if reports is None:
        reports = _reports[spark] = QuarantineReports()
        spark.streams.addListener(reports)
    return reports.expect(url, stream)
