"""How far a reader has come in the partitions of topics, and how far a batch goes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import ceil, floor
from typing import Any

from everquery.errors import RecordsLostError
from everquery.sources.kafka_client import TopicSpan

Place = tuple[str, int]  # a topic and the number of a partition


@dataclass(frozen=True, slots=True)
class Offsets:
    """The offset of the next record of each partition.

    Attributes
    ----------
    next : mapping from topic and partition to offset
    ids : mapping from topic to what Kafka has named it by
        A topic that was deleted and made anew has another one. Empty, if the server tells none.
    begins : mapping from topic and partition to offset
        Of partitions that were new in the batch that ends here: their first offset then.
    """

    next: Mapping[Place, int]
    ids: Mapping[str, str]
    begins: Mapping[Place, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON holds it, for a checkpoint."""
        value = {"offsets": _nested(self.next), "ids": dict(sorted(self.ids.items()))}
        return {**value, "begins": _nested(self.begins)} if self.begins else value

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Offsets:
        """Return what `to_json` made."""
        return cls(_flat(value["offsets"]), dict(value["ids"]), _flat(value.get("begins", {})))

    def of(self, place: Place) -> int:
        """Return the offset of a partition's next record."""
        return self.next.get(place, 0)

    def with_new(self, begins: Mapping[Place, int]) -> Offsets:
        """Return the same with the beginnings of further partitions."""
        return Offsets({**begins, **self.next}, self.ids)


def _nested(offsets: Mapping[Place, int]) -> dict[str, dict[str, int]]:
    nested: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        nested.setdefault(topic, {})[str(partition)] = offset
    return nested


def _flat(offsets: Mapping[str, Mapping[str, int]]) -> dict[Place, int]:
    return {
        (topic, int(partition)): int(offset)
        for topic, partitions in offsets.items()
        for partition, offset in partitions.items()
    }


def spans_between(start: Offsets, end: Offsets) -> list[TopicSpan]:
    """Return what is to be read between two offsets, by topic and partition."""
    start = start.with_new(end.begins)
    return [
        TopicSpan(topic, partition, start.of((topic, partition)), last, end.ids.get(topic, ""))
        for (topic, partition), last in sorted(end.next.items())
        if last > start.of((topic, partition))
    ]


def end_of_batch(start: Offsets, latest: Offsets, most: int | None) -> Offsets:
    """Return where a batch ends that has at most about so many records.

    Each partition has its share of what there is to read, and at least one record, as in Spark's
    own connector.

    Examples
    --------
    >>> start = Offsets({("trades", 0): 0, ("trades", 1): 10}, {})
    >>> latest = Offsets({("trades", 0): 300, ("trades", 1): 110}, {})
    >>> dict(end_of_batch(start, latest, 100).next)
    {('trades', 0): 75, ('trades', 1): 35}
    """
    sizes = {place: last - start.of(place) for place, last in latest.next.items()}
    total = sum(sizes.values())
    if most is None or total <= most:
        return latest
    ends = {}
    for place, last in latest.next.items():
        share = most * (sizes[place] / total)
        share = ceil(share) if share < 1 else floor(share)
        ends[place] = min(last, start.of(place) + share)
    return Offsets(ends, latest.ids)


def waiting(start: Offsets, latest: Offsets) -> int:
    """Return how many offsets there are to read."""
    return sum(last - start.of(place) for place, last in latest.next.items())


def most_behind(end: Mapping[str, Any], latest: Mapping[str, Any]) -> int:
    """Return by how many offsets the partition that is furthest behind is behind, of JSON."""
    before, now = Offsets.from_json(end), Offsets.from_json(latest)
    return max((last - before.of(place) for place, last in now.next.items()), default=0)


def check_same_topics(start: Offsets, latest: Offsets) -> None:
    """Raise if a topic is not the one that offsets were counted in, or has lost its end."""
    for fault in _faults(start, latest):
        raise RecordsLostError(
            f"{fault}, so the checkpoint's offsets mean nothing in it. Begin a new checkpoint"
        )


def _faults(start: Offsets, latest: Offsets) -> Iterator[str]:
    for topic, before in start.ids.items():
        now = latest.ids.get(topic)
        if now is None:
            yield f"the checkpoint has read topic {topic!r}, which is not read any more"
        elif before and now and before != now:
            yield f"topic {topic!r} was deleted and made anew"
    for (topic, partition), offset in sorted(start.next.items()):
        last = latest.next.get((topic, partition))
        if last is None:
            yield f"partition {partition} of topic {topic!r} is gone"
        elif last < offset:
            yield (
                f"partition {partition} of topic {topic!r} ends at offset {last:,}, and the"
                f" checkpoint has read up to {offset:,}: it was made anew, or lost its end"
            )
