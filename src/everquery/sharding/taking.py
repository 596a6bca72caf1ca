"""Events into a shard: what is done in the same way when a batch is replayed."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from everquery.core.arrays import Int64s
from everquery.shard import Shard
from everquery.shard.failed_merges import FailedMerges
from everquery.sharding.carried import Carried
from everquery.sharding.packing import Unpacked
from everquery.sharding.places import first_source, order_of

FAILED_MERGES = FailedMerges(logging.getLogger("everquery.sharding"))  # of this process

Placed = tuple[tuple[int, ...], Unpacked]
"""Where events were packed, which sorts, and the events."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What events meant.

    Attributes
    ----------
    notices : table
    carried, letters_carried : tables or None
        The columns of events that are carried into the notices, and into the dead letters; None if
        there are none.
    arrived, accepted : int
        How many events there were, and how many of them were accepted.
    """

    notices: pa.Table
    carried: pa.Table | None
    letters_carried: pa.Table | None
    arrived: int
    accepted: int


def in_order(events: Sequence[Placed]) -> tuple[list[Unpacked], Int64s | None]:
    """Return the parts of a batch one behind the other, and the order of their rows."""
    # By source first: a source may number its partitions otherwise when a batch is done again.
    blobs = sorted(events, key=lambda pair: (first_source(pair[1].metadata), pair[0]))
    parts = [part for _, part in blobs]
    return parts, order_of([(part.metadata, len(part.arrivals), part.offset) for part in parts])


def take(shard: Shard, carried: Carried, parts: list[Unpacked], order: Int64s | None) -> Taken:
    """Take in the events of a batch."""
    first, accepted = shard.arrived, shard.passage.events
    notices = shard.process_parts([part.arrivals for part in parts], order)
    told, lost = None, None
    if shard.passage.accepted is not None:
        carried.arrive(first, [part.carried for part in parts if part.carried.num_columns])
        lost = carried.of_arrivals(np.asarray(shard.dead_letters.table()["position"]))
        held, names, earlier = shard.held_arrivals, shard.key_names, shard.earlier_events
        told = carried.step(notices, shard.passage.accepted, held, names, earlier)
    return Taken(notices, told, lost, shard.arrived - first, shard.passage.events - accepted)


def merge(shard: Shard) -> None:
    """Merge segments here and now: another process may have the shard next."""
    while (due := shard.upkeep.due_merge()) is not None:
        try:
            merged = due.run()
        except Exception as error:  # answers do not need it: a later batch tries again
            FAILED_MERGES.note(due.kind, error)
            shard.upkeep.abandon(due)
            return
        shard.upkeep.install(due, merged)
