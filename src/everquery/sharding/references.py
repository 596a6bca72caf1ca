"""Batches by reference: what a shard's state needs to take a batch in again.

A reference names the spans that a batch's events were read from, and says how many parts of the log
came before them; the parts themselves are in the journal of queries. Whoever replays it counts what
it counted then: a source that gives other events, or an everquery that takes them otherwise, is
found out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Protocol

from everquery.core.framing import pack, unpack
from everquery.core.invariants import check_count, of_type, refuse, short
from everquery.core.parts import Saved
from everquery.errors import EventsGoneError
from everquery.shard import Shard
from everquery.sharding.carried import Carried
from everquery.sharding.journal import Contents
from everquery.sharding.logged_queries import LoggedQueries
from everquery.sharding.spans import Spans
from everquery.sharding.taking import Placed, Taken, in_order, merge, take
from everquery.stream import Stream

# What is replayed at most, where a shard is built anew; then its whole state is written again.
MOST_BATCHES = 64
MOST_EVENTS = 20_000_000


class PastEvents(Protocol):
    """What reads the events of earlier batches."""

    def of_shard(self, spans: Spans, shard: int, stream: Stream) -> Sequence[Placed]:
        """Return a shard's events of a batch, by the stream as it was then.

        Raises
        ------
        EventsGoneError
            If they can't be read again.
        """
        ...


@dataclass(frozen=True, slots=True)
class Counts:
    """What a batch came to in a shard, by which a replay is checked.

    Attributes
    ----------
    arrived, accepted, notices : int
        Of the batch.
    queries, keys : int
        That the shard had in the end.
    """

    arrived: int
    accepted: int
    notices: int
    queries: int
    keys: int

    @classmethod
    def of(cls, taken: Taken, shard: Shard) -> Counts:
        """Return those of a batch that a shard has just taken in."""
        sizes = shard.queries.living, shard.known_keys
        return cls(taken.arrived, taken.accepted, taken.notices.num_rows, *sizes)


@dataclass(frozen=True, slots=True)
class Reference:
    """A batch of a shard.

    Attributes
    ----------
    spans : Spans
        Where its events are; none, if it had none.
    changes : int
        How many parts of the log were applied before them.
    counts : Counts
    """

    spans: Spans
    changes: int
    counts: Counts

    def to_bytes(self) -> bytes:
        """Return it as a frame."""
        named = {"names": self.spans.names, "clock": self.spans.clock}
        counts = asdict(self.counts)
        return pack({"holds": "reference", **named, "changes": self.changes, "counts": counts}, {})

    @classmethod
    def from_bytes(cls, content: bytes) -> Reference:
        """Return what `to_bytes` gave; raise if it can't be."""
        header, _, _ = unpack(content)
        if header.get("holds") != "reference":
            refuse("a reference is something else")
        check_count("changes", header.get("changes"))
        clock, counts = header.get("clock"), of_type(header, "counts", dict)
        if clock is not None and type(clock) is not int:
            refuse(f"{short(clock)} is no time of a batch")
        if counts.keys() != {field.name for field in fields(Counts)}:
            refuse(f"{short(counts)} are no counts of a batch")
        for name, count in counts.items():
            check_count(name, count)
        spans = Spans(of_type(header, "names", list), (), clock)
        return cls(spans, header["changes"], Counts(**counts))


def are_full(contents: Contents) -> bool:
    """Tell whether the whole state is to be written, by what the journal of references holds.

    What it counts as outdated are events: those that a replay would have to take in.
    """
    return len(contents.entries) >= MOST_BATCHES or contents.outdated >= MOST_EVENTS


def check_versions(contents: Contents, last: int) -> None:
    """Raise if references do not lead to a version one by one."""
    versions = [version for version, _, _ in contents.entries]
    if versions != list(range(last + 1 - len(versions), last + 1)):
        refuse(f"its references are of {short(versions)}, and its version is {last}")


def replay(
    batch: Reference,
    shard: Shard,
    carried: Carried,
    log: tuple[LoggedQueries, Saved | None],
    events: Sequence[Placed],
) -> None:
    """Take in a batch again, and tell nothing.

    Parameters
    ----------
    log : the part of queries, and what it saved with the batch

    Raises
    ------
    EventsGoneError
        If it does not come to what it came to before.
    """
    queries, logged = log
    queries.apply_again(logged, batch.changes)
    taken = take(shard, carried, *in_order(events))
    merge(shard)
    shard.dead_letters.drain()
    shard.queries.ended.clear()
    counts = Counts.of(taken, shard)
    if counts != batch.counts:
        pairs = zip(asdict(batch.counts).items(), asdict(counts).values(), strict=True)
        other = [f"{then:,} {name}, now {now:,}" for (name, then), now in pairs if then != now]
        raise EventsGoneError(
            "the checkpoint refers to events, and a batch that is taken in again is another one:"
            f" it came to {'; '.join(other)}. Give the source, its options and the everquery"
            " that it was written with, or begin a new checkpoint"
        )
