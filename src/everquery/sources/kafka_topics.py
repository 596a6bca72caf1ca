"""What topics there are, their partitions, and from where to where these reach."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from everquery.errors import KafkaError
from everquery.sources.kafka_client import Servers, client, told, unreachable
from everquery.sources.kafka_offsets import Offsets, Place

End = Literal["earliest", "latest"]
Starting = End | Mapping[str, Mapping[int, int]]

# The options that are not only for consumers: where the servers are, and how to log in.
_SHARED = ("security.", "sasl.", "ssl.", "enable.ssl", "https.", "socket.", "broker.", "client.")
_UNNAMED = "AAAAAAAAAAAAAAAAAAAAAA"  # the id of a topic whose server has none


class KafkaTopics:
    """Asks servers about topics.

    Parameters
    ----------
    servers : Servers
    topics : sequence of str
    """

    def __init__(self, servers: Servers, topics: Sequence[str]) -> None:
        self._kafka = client()
        self._admin_module = __import__("confluent_kafka.admin", fromlist=["admin"])
        self._servers, self._topics = servers, list(topics)
        self._trouble = ""
        shared = {name: value for name, value in servers.options if name.startswith(_SHARED)}
        settings = {**shared, "bootstrap.servers": servers.names, "log_level": "0"}
        self._admin = self._admin_module.AdminClient({**settings, "error_cb": self._note})
        committed = dict(servers.options).get("isolation.level") == "read_committed"
        levels = self._kafka.IsolationLevel
        self._level = levels.READ_COMMITTED if committed else levels.READ_UNCOMMITTED

    def look(self, end: End = "latest") -> Offsets:
        """Return the ends of all partitions there are, or their beginnings."""
        ids: dict[str, str] = {}
        places: list[Place] = []
        names = self._kafka.TopicCollection(self._topics)
        for topic, found in self._admin.describe_topics(names, **self._wait).items():
            described = self._answer(found, topic)
            ids[topic] = _id(described)
            places += [(topic, partition.id) for partition in described.partitions]
        return Offsets(self._offsets(dict.fromkeys(places, end)), ids)

    def begin(self, starting: Starting) -> Offsets:
        """Return where a new reader begins; partitions that are not named begin at their first."""
        if isinstance(starting, str):
            return self.look(starting)
        first, last = self.look("earliest"), self.look("latest")
        begins = dict(first.next)
        for topic, partitions in starting.items():
            for partition, offset in partitions.items():
                place = topic, int(partition)
                if place not in begins:
                    raise KafkaError(
                        f"starting names partition {partition} of topic {topic!r}, and there is"
                        f" no such partition at {self._servers.names}"
                    )
                if not first.next[place] <= offset <= last.next[place]:
                    raise KafkaError(
                        f"starting names offset {offset:,} of partition {partition} of topic"
                        f" {topic!r}, which has {first.next[place]:,} to {last.next[place]:,}"
                    )
                begins[place] = offset
        return Offsets(begins, first.ids)

    def _offsets(self, places: Mapping[Place, End]) -> dict[Place, int]:
        if not places:
            return {}
        spec = self._admin_module.OffsetSpec
        asked = {
            self._kafka.TopicPartition(*place): getattr(spec, end)()
            for place, end in places.items()
        }
        found = self._admin.list_offsets(asked, isolation_level=self._level, **self._wait)
        return {
            (place.topic, place.partition): self._answer(future, place.topic).offset
            for place, future in found.items()
        }

    @property
    def _wait(self) -> dict[str, float]:
        return {"request_timeout": self._servers.wait_seconds}

    def _answer(self, future: Any, topic: str) -> Any:  # noqa: ANN401 - the client's
        try:
            self._admin.poll(0)
            return future.result()
        except self._kafka.KafkaException as error:
            self._admin.poll(0)  # the reason comes as an event
            codes = self._kafka.KafkaError
            if error.args[0].code() in (codes.UNKNOWN_TOPIC_OR_PART, codes._UNKNOWN_TOPIC):
                raise KafkaError(
                    f"there is no topic {topic!r} at {self._servers.names}; make it, and if it was"
                    " deleted, begin a new checkpoint"
                ) from error
            raise unreachable(self._servers, self._trouble or told(error)) from error

    def _note(self, error: Any) -> None:  # noqa: ANN401
        self._trouble = error.str()


def _id(described: Any) -> str:  # noqa: ANN401
    found = "" if described.topic_id is None else str(described.topic_id)
    return "" if found == _UNNAMED else found
