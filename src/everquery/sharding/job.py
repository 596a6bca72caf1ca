"""What is the same for all batches and all shards of a run."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from everquery.kinds import KINDS, Kind
from everquery.sharding.routing import NO_SECRET, Shards
from everquery.stream import Stream


@dataclass(frozen=True, slots=True)
class Job:
    """What is the same for all batches and all shards of a run.

    Attributes
    ----------
    stream : Stream
    shards : int
        Into which the keys are divided.
    time_type : the Arrow type of the stream's times; null without
    carried : the columns of events that are carried into notices
    key_type : the Arrow type of the stream's keys; null if they are not known yet
    wide : int
        Further shards, numbered behind the others, that see the events of all keys, for queries
        that look at all of them together. A stream without key needs none.
    secret : bytes
        By which keys are divided into shards; the registry has it, and so has the checkpoint.
    history : str, optional
        The folder in which the shards keep the past; None if they do not.
    by_reference : bool
        Whether shards write the names of spans instead of what their events changed, where events
        are read from spans.
    kinds : tuple of Kind
        All that are known where the job is made: they travel by reference, so that every process
        that gets the job knows them too. State has parts of these alone, whatever else a process
        may know.
    """

    stream: Stream
    shards: int
    time_type: pa.DataType
    carried: pa.Schema = field(default_factory=lambda: pa.schema([]))
    key_type: pa.DataType = field(default_factory=pa.null)
    wide: int = 0
    secret: bytes = NO_SECRET
    kinds: tuple[Kind, ...] = field(default_factory=lambda: tuple(KINDS.values()))
    history: str | None = None
    by_reference: bool = False

    @property
    def division(self) -> Shards:
        """Into which shards keys are divided, and how."""
        return Shards(self.shards, self.wide, self.secret)

    @property
    def units(self) -> int:
        """How many shards there are in all."""
        return self.shards + self.wide

    def is_wide(self, number: int) -> bool:
        """Tell whether a shard sees the events of all keys, beside those that they belong to."""
        return number >= self.shards

    def types(self) -> dict[str, str]:
        """Return the types of columns that state depends on."""
        stream = self.stream
        types = {stream.key: self.key_type, stream.time: self.time_type}
        return {
            name: str(kind)
            for name, kind in types.items()
            if name is not None and not pa.types.is_null(kind)
        }
