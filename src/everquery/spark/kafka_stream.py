"""The streaming source of Spark that hands out spans of topics.

It only learns how far partitions reach: records are read by workers.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import astuple, replace
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
)
from pyspark.sql.types import StructType

from everquery.sources.kafka_client import Servers, TopicSpan
from everquery.sources.kafka_offsets import (
    Offsets,
    Place,
    check_same_topics,
    end_of_batch,
    spans_between,
    waiting,
)
from everquery.sources.kafka_topics import KafkaTopics
from everquery.spark.event_source import SpanSource, SpanStreamReader

NAME = "everquery_kafka"
OPTION = "kafka."  # what the options of librdkafka begin with here
LOOK_SECONDS = 0.05
LOOK_SHARE = 10  # of the time: a look that takes long is not repeated at once


class KafkaSource(SpanSource):
    """The streaming source ``everquery_kafka`` of spans; made by `read_kafka`."""

    @classmethod
    def name(cls) -> str:
        """Return the source's name."""
        return NAME

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return what hands out spans."""
        return KafkaStreamReader(self.options)


class KafkaStreamReader(SpanStreamReader):
    """Hands out spans from offset to offset."""

    def __init__(self, options: Mapping[str, str]) -> None:
        given = [
            (name.removeprefix(OPTION), value)
            for name, value in options.items()
            if name.startswith(OPTION)
        ]
        wait = float(options["waitSeconds"])
        self._servers = Servers(options["servers"], tuple(sorted(given)), wait)
        self._topics = json.loads(options["topics"])
        self._starting = json.loads(options["starting"])
        super().__init__(together=options["together"] == "True")
        self._most = int(options["maxRecords"])
        self._asked: KafkaTopics | None = None
        self._target: Offsets | None = None
        self._known: Offsets | None = None
        self._next_look = 0.0
        self._planned: tuple[Mapping[Place, int], Offsets] | None = None

    def initialOffset(self) -> dict[str, Any]:
        """Return the offset of a new query."""
        return self._asking().begin(self._starting).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return how much a batch may have."""
        return ReadMaxRows(self._most)

    def prepareForTriggerAvailableNow(self) -> None:
        """Note how far partitions reach now."""
        self._target = self._asking().look()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return the end of the next batch."""
        before = Offsets.from_json(start)
        latest = self._latest()
        check_same_topics(before, latest)
        if isinstance(limit, ReadAllAvailable):
            return self._end(before, latest, None).to_json()
        planned, self._planned = self._planned, None
        if planned is not None and planned[0] == before.next:
            return planned[1].to_json()  # which workers have begun to read
        return self._end(before, latest, self._most).to_json()

    def _end(self, before: Offsets, latest: Offsets, most: int | None) -> Offsets:
        new = [place for place in latest.next if place not in before.next]
        begins: dict[Place, int] = {}
        if new:
            first = self._asking().look("earliest")
            begins = {place: first.of(place) for place in new}
        end = end_of_batch(before.with_new(begins), latest, most)
        return replace(end, begins={place: begin for place, begin in begins.items() if begin})

    def _latest(self) -> Offsets:
        """Return how far partitions reach, as of a short while ago."""
        if self._target is not None:
            return self._target
        now = time.monotonic()
        if self._known is None or now >= self._next_look:
            self._known = self._asking().look()
            took = time.monotonic() - now
            self._next_look = now + max(LOOK_SECONDS, LOOK_SHARE * took)
        return self._known

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return how far partitions reach."""
        return self._latest().to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the spans between two offsets."""
        before, after = Offsets.from_json(start), Offsets.from_json(end)
        check_same_topics(after, self._latest())
        names = [list(astuple(span)) for span in spans_between(before, after)]
        ahead = [list(astuple(span)) for span in self._plan(after)] if self._together else []
        return self._divided(names, ahead, 0)

    def _plan(self, after: Offsets) -> list[TopicSpan]:
        """Return what the next batch will have, if that is clear by now."""
        latest = self._latest()
        whole = self._target is not None or waiting(after, latest) >= self._most
        if not whole or latest.next.keys() != after.next.keys():
            return []
        planned = end_of_batch(after, latest, self._most)
        self._planned = after.next, planned
        return spans_between(after, planned)

    def _asking(self) -> KafkaTopics:
        if self._asked is None:
            self._asked = KafkaTopics(self._servers, self._topics)
        return self._asked
