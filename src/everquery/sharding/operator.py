"""One batch of one shard: packed rows in, notices out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from time import perf_counter

import pyarrow as pa

from everquery.registry.readers import LogRow
from everquery.sharding.durable import DurableShard, Job, LogPart
from everquery.sharding.journal import Cells
from everquery.sharding.packing import unpack


@dataclass(frozen=True, slots=True)
class Input:
    """What one shard gets in a batch.

    Attributes
    ----------
    log : the parts of the registry's log, in any order
    events : pairs of a place in the batch and a packed blob, in any order
    """

    log: Sequence[LogRow]
    events: Sequence[tuple[tuple[int, int], bytes]]


@dataclass(frozen=True, slots=True)
class Output:
    """What one shard tells of a batch.

    Attributes
    ----------
    notices, letters : tables
    position : int
        The version of the query set with which the events were seen.
    events, queries : int
        How many the shard accepted in this batch, and how many it has.
    found : str
        How the live arrays were come by, as in `DurableShard`.
    seconds : dict
        Where the time went.
    """

    notices: pa.Table
    letters: pa.Table
    position: int
    events: int
    queries: int
    found: str
    seconds: dict[str, float]


def run_batch(job: Job, number: int, given: Input, cells: Cells) -> Output:
    """Take a shard from one version to the next."""
    watch = _StopWatch()
    here = DurableShard.open(job, number, cells)
    watch.lap("open")
    log = sorted(given.log, key=lambda row: (row.position, row.number))
    parts = [
        unpack(blob, job.stream, job.time_type)
        for _, blob in sorted(given.events, key=lambda pair: pair[0])
    ]
    watch.lap("unpack")
    before = here.shard.events
    applied = _apply(here, log)
    watch.lap("changes")
    notices = here.shard.process_parts(parts)
    watch.lap("events")
    _merge(here)
    watch.lap("merge")
    letters = here.shard.dead_letters.drain()
    here.commit(applied)
    watch.lap("commit")
    catalog = here.shard.catalog
    return Output(
        notices,
        letters,
        here.position,
        here.shard.events - before,
        len(catalog) - catalog.dropped,
        here.found,
        watch.seconds,
    )


def _apply(here: DurableShard, log: Iterable[LogRow]) -> list[LogPart]:
    applied = []
    for row in log:
        if row.payload:
            here.apply(row.operation, row.payload)
            applied.append((row.operation, row.payload))
        here.position = max(here.position, row.position + row.count)
    here.shard.settle()
    return applied


def _merge(here: DurableShard) -> None:
    """Do the merges that are due; another process may have the shard next, so none waits."""
    while (due := here.shard.due_merge()) is not None:
        here.shard.install(due, due.run())


class _StopWatch:
    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = perf_counter()

    def lap(self, name: str) -> None:
        now = perf_counter()
        self.seconds[name] = now - self._last
        self._last = now
