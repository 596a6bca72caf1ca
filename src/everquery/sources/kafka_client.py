"""Records of Kafka by librdkafka: spans of offsets, read by consumers that are kept open.

A consumer that has read a span goes on to fetch what is behind it. Whoever wants the next span of
the same partition gets that consumer, and most of the records are there already.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from everquery.errors import KafkaError, KafkaMissingError, RecordsLostError

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

CHUNK = 16_384  # records that are taken from the client at once
POLL_SECONDS = 0.1  # a call that gets fewer records than it asks for takes so long
MOST_IDLE = 4  # consumers that are kept open; each may hold as much as it has fetched ahead
ANSWER_SECONDS = 10.0
WAIT_SECONDS = 60.0

_USUAL = {
    "group.id": "everquery",  # the client wants one; nobody joins it
    "max.poll.interval.ms": "86400000",  # an idle consumer is none that hangs
    "isolation.level": "read_uncommitted",  # as Spark's connector
    "fetch.queue.backoff.ms": "2",  # the client would wait a second whenever it is well ahead
    "queued.max.messages.kbytes": "32768",
    "log_level": "0",  # errors are told by those that are raised
}
OURS = {
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "enable.partition.eof": "true",
    "auto.offset.reset": "error",  # records that are gone are an error, not passed over
}


def client() -> Any:  # noqa: ANN401 - a module
    """Return the module `confluent_kafka`."""
    try:
        return import_module("confluent_kafka")
    except ImportError as error:
        raise KafkaMissingError(
            "workers read Kafka with confluent-kafka, which is not installed here:"
            " pip install 'everquery[kafka]'"
        ) from error


@dataclass(frozen=True, slots=True)
class Servers:
    """Where records are, and how they are asked for.

    Attributes
    ----------
    names : str
        Such as ``"host:9092,other:9092"``.
    options : tuple of pairs
        Those of librdkafka, such as of its security.
    wait_seconds : float
        How long nothing may come before that is an error.
    skip_lost : bool
        Whether to go on where records are gone.
    """

    names: str
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # passwords are there
    wait_seconds: float = WAIT_SECONDS
    skip_lost: bool = False

    def settings(self) -> dict[str, str]:
        """Return the settings of a consumer."""
        return {**_USUAL, **dict(self.options), **OURS, "bootstrap.servers": self.names}


@dataclass(frozen=True, slots=True)
class TopicSpan:
    """The records of a partition from one offset to another, which is not one of them.

    Attributes
    ----------
    topic : str
    partition, begin, end : int
    topic_id : str
        What Kafka has named the topic by, if it tells: a topic that was made anew has another one.
    """

    topic: str
    partition: int
    begin: int
    end: int
    topic_id: str = ""

    def __str__(self) -> str:
        return (
            f"offsets {self.begin:,} to {self.end:,} of partition {self.partition} of topic"
            f" {self.topic!r}"
        )


def records_of(servers: Servers, span: TopicSpan) -> Iterator[list[Message]]:
    """Yield the records of a span, in order.

    Raises
    ------
    RecordsLostError
        If some are gone.
    KafkaError
        If nothing comes for too long.
    """
    reading = _taken(servers, span)
    try:
        yield from reading.read(span)
    except BaseException:  # also of one who wants no more of them
        reading.close()
        raise
    _give_back(servers, reading)


class SpanConsumer:
    """A consumer, and how far it has come in a partition.

    Parameters
    ----------
    servers : Servers
    """

    def __init__(self, servers: Servers) -> None:
        self._kafka = client()
        codes = self._kafka.KafkaError
        self._unknown = (
            codes.UNKNOWN_TOPIC_OR_PART,
            codes._UNKNOWN_TOPIC,
            codes._UNKNOWN_PARTITION,
        )
        self._servers = servers
        self._trouble = ""
        self._consumer: Consumer = new_consumer(servers, self._note)
        self._place: TopicSpan | None = None  # which is empty
        self._left: list[Message] = []  # records behind the last span
        self._ended = -1  # where the partition ended, with nothing more before it

    def is_before(self, span: TopicSpan) -> bool:
        """Tell whether the next record is the first of a span."""
        return self._place == replace(span, end=span.begin)

    def read(self, span: TopicSpan) -> Iterator[list[Message]]:
        """Yield the records of a span."""
        if not self.is_before(span):
            self._assign(span, span.begin)
        position, self._place = span.begin, None
        heard = time.monotonic()
        while position < span.end and (self._left or self._ended < span.end):
            found = self._fetch(span, min(CHUNK, span.end - position))
            last = bisect_left(found, span.end, key=_offset)
            self._left = found[last:]
            if found:
                position = _offset(found[-1]) + 1
                heard = time.monotonic()
            elif time.monotonic() - heard > self._servers.wait_seconds:
                raise self._silence(span, position)
            if last:
                yield found[:last]
                heard = time.monotonic()
        self._place = replace(span, begin=span.end)

    def close(self) -> None:
        """Leave the servers."""
        self._consumer.close()

    def _assign(self, span: TopicSpan, offset: int) -> None:
        self._left, self._ended = [], -1
        place = self._kafka.TopicPartition(span.topic, span.partition, offset)
        self._consumer.assign([place])

    def _fetch(self, span: TopicSpan, most: int) -> list[Message]:
        """Return records, perhaps none; those that are left come first."""
        if self._left:
            return self._left
        found = self._consumer.consume(most, POLL_SECONDS)
        events = [i for i, message in enumerate(found) if message.error() is not None]
        if not events:
            return found
        for i in events:
            self._take_event(span, found[i])
        return [message for message in found if message.error() is None]

    def _take_event(self, span: TopicSpan, message: Message) -> None:
        error, codes = message.error(), self._kafka.KafkaError
        assert error is not None
        if error.code() == codes._PARTITION_EOF:
            if (message.topic(), message.partition()) == (span.topic, span.partition):
                self._ended = max(self._ended, _offset(message))
        elif error.code() in (codes._AUTO_OFFSET_RESET, codes.OFFSET_OUT_OF_RANGE):
            self._lost(span)
        elif error.code() in self._unknown:
            raise no_partition(span, self._servers)
        elif error.code() == codes.TOPIC_AUTHORIZATION_FAILED:
            raise KafkaError(f"{self._servers.names} does not let us read {span}: {error.str()}")
        else:
            self._note(error)

    def _lost(self, span: TopicSpan) -> None:
        """Raise because records are gone, or go on with those that are left."""
        first, last = self._bounds(span)
        if last < span.end or not self._servers.skip_lost:
            raise lost(span, self._servers, first, last)
        self._assign(span, max(first, span.begin))
        if first >= span.end:
            self._ended = span.end

    def _silence(self, span: TopicSpan, position: int) -> KafkaError:
        """Return why nothing comes."""
        first, last = self._bounds(span)
        if last < span.end:
            return lost(span, self._servers, first, last)
        return KafkaError(
            f"nothing has come from {self._servers.names} for {self._servers.wait_seconds:g} s,"
            f" where {span} are read and offset {position:,} is the next"
            f"{self._trouble and ': '}{self._trouble}"
        )

    def _bounds(self, span: TopicSpan) -> tuple[int, int]:
        """Return the first offset of a partition, and the one behind its last."""
        place = self._kafka.TopicPartition(span.topic, span.partition)
        try:
            first, last = self._consumer.get_watermark_offsets(place, timeout=ANSWER_SECONDS)
        except self._kafka.KafkaException as error:
            if error.args[0].code() in self._unknown:
                raise no_partition(span, self._servers) from error
            raise unreachable(self._servers, self._trouble or told(error)) from error
        return first, last

    def _note(self, error: Any) -> None:  # noqa: ANN401 - the client's
        self._trouble = error.str()


def new_consumer(servers: Servers, note: Callable[[Any], None] | None = None) -> Consumer:
    """Return a consumer; raise if an option is none of the client's."""
    kafka = client()
    settings: dict[str, Any] = {**servers.settings(), "error_cb": note or (lambda _: None)}
    try:
        consumer: Consumer = kafka.Consumer(settings)
    except (kafka.KafkaException, TypeError, ValueError) as error:
        raise KafkaError(
            f"{told(error)}; options are those of librdkafka, such as"
            " {'security.protocol': 'SASL_SSL'}"
        ) from error
    return consumer


def no_partition(span: TopicSpan, servers: Servers) -> RecordsLostError:
    """Return the error that the partition of a span is gone."""
    return RecordsLostError(
        f"{span} are to be read from {servers.names}, and there is no such partition: the topic was"
        " deleted, or made anew with fewer. Begin a new checkpoint"
    )


def lost(span: TopicSpan, servers: Servers, first: int, last: int) -> RecordsLostError:
    """Return the error that records of a span are gone."""
    if last < span.end:
        return RecordsLostError(
            f"{span} are to be read from {servers.names}, and the partition ends at {last:,}: the"
            " topic was made anew, or lost its end. Begin a new checkpoint"
        )
    return RecordsLostError(
        f"{span} are to be read from {servers.names}, and the first that is left is {first:,}:"
        " Kafka has deleted the others. Give the topic a longer retention; to go on with what is"
        " left, give read_kafka skip_lost=True, and know that something is missing"
    )


def unreachable(servers: Servers, why: str) -> KafkaError:
    """Return the error that no server answers."""
    return KafkaError(f"no answer from the Kafka servers {servers.names}: {why}")


def told(error: BaseException) -> str:
    """Return what an error of the client says."""
    inner = error.args[0] if error.args else error
    return str(inner.str() if hasattr(inner, "str") else inner)


def _offset(message: Message) -> int:
    return message.offset() or 0


_IDLE: dict[Servers, list[SpanConsumer]] = {}
_LOCK = threading.Lock()


def _taken(servers: Servers, span: TopicSpan) -> SpanConsumer:
    """Return an idle consumer, if there is one the one that stands before a span; or a new one."""
    with _LOCK:
        idle = _IDLE.get(servers, [])
        ready = [i for i, each in enumerate(idle) if each.is_before(span)]
        if ready or len(idle) == MOST_IDLE:
            return idle.pop(ready[0] if ready else 0)
    return SpanConsumer(servers)


def _give_back(servers: Servers, reading: SpanConsumer) -> None:
    """Keep a consumer; the one that has been idle for longest goes, if they are too many."""
    gone: list[SpanConsumer] = []
    with _LOCK:
        _IDLE.setdefault(servers, []).append(reading)
        for others in [name for name in _IDLE if name != servers]:
            if sum(map(len, _IDLE.values())) > MOST_IDLE:
                gone += _IDLE.pop(others)
        while len(_IDLE[servers]) > MOST_IDLE:
            gone.append(_IDLE[servers].pop(0))
    for each in gone:
        each.close()


def close_idle() -> None:
    """Close the consumers that nobody reads with."""
    with _LOCK:
        gone = [each for idle in _IDLE.values() for each in idle]
        _IDLE.clear()
    for each in gone:
        each.close()
