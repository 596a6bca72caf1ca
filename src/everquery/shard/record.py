"""Notices as columns: the one record that goes from the indexes to the writer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from everquery.core.arrays import Array, Bytes, Int64s, Uint64s
from everquery.state.accepted import Events, join_events


@dataclass(slots=True)  # frozen, it would take three times as long to make
class Notices:
    """Notices in their final order, and the events that they are about.

    Attributes
    ----------
    slot : int64
        The query.
    code : uint8
        What happened; see `everquery.shard.outcomes`.
    row : int64
        Which of `events` each notice is about; it has no key (-1), `seq` or values (NaN) where a
        query ended.
    events : Events
    position : int64
        See `everquery.index.sort_keys`; of no use once the rules have been applied.
    figures : mapping from the name of a notice column to its values
        Columns that no notice has are left out; what other notices have in one means nothing.
    held : int64, or None if it is 0 for all
        How many notices each sums up.
    salt : uint64, or None if it is 0 for all
        What the id has besides: the moment, where that is not the event's own.
    """

    slot: Int64s
    code: Bytes
    row: Int64s
    events: Events
    position: Int64s
    figures: Mapping[str, Array] = field(default_factory=dict)
    held: Int64s | None = None
    salt: Uint64s | None = None

    def __len__(self) -> int:
        return int(self.slot.size)


def join_notices(parts: Sequence[Notices]) -> Notices:
    """Return the notices of all parts, one behind the other; none went through the rules."""
    if len(parts) == 1:
        return parts[0]
    events = join_events([part.events.take(part.row) for part in parts])
    return Notices(
        slot=np.concatenate([part.slot for part in parts]),
        code=np.concatenate([part.code for part in parts]),
        row=np.arange(len(events)),
        events=events,
        position=np.concatenate([part.position for part in parts]),
        figures=join_figures([(part.figures, len(part)) for part in parts]),
    )


def join_figures(parts: Sequence[tuple[Mapping[str, Array], int]]) -> dict[str, Array]:
    """Return the figures of parts, given with their sizes, one behind the other."""
    dtypes = {name: column.dtype for figures, _ in parts for name, column in figures.items()}
    return {
        name: np.concatenate(
            [figures[name] if name in figures else np.zeros(size, dtype) for figures, size in parts]
        )
        for name, dtype in dtypes.items()
    }
