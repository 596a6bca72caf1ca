"""Time as an index sees it: when keys were heard from, and the deadlines that have come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from everquery.core.arrays import Array, Bools, Bytes, Int32s, Int64s

NO_EVENT = -1  # the place of a deadline that no event of the step makes known


@dataclass(frozen=True, slots=True)
class Clock:
    """How far time has come, and when keys were heard from.

    Attributes
    ----------
    keyed : bool
        Whether the stream has keys; without, there is one, with the number 0.
    last_time : like time, for each key
        When it was last heard from.
    heard : bool, for each key
        Whether it ever was.
    in_sight : bool, for each key
        Whether it was, and has not expired since.
    passed : number
        How far time had come at the end of the step before; before the first step, the least time
        that there is.
    now : number
        How far it has come at the end of this one; never before `passed`.
    never : number
        The end of time.
    after, since : like time, by slot; perhaps shorter than there are slots
        The spans of queries, and when their lives began: see `everquery.state.rules`.
    """

    keyed: bool
    last_time: Array
    heard: Bools
    in_sight: Bools
    passed: int | float
    now: int | float
    never: int | float
    after: Array
    since: Array


@dataclass(frozen=True, slots=True)
class Passage:
    """When the events of a step came, and when their keys had been heard from before.

    Attributes
    ----------
    clock : Clock
        As of the end of the step.
    time : like time, for each grouped event
    before : like time, for each key of the step
        When it was last heard from before the step.
    heard : bool, for each key of the step
        Whether it ever was before the step.
    """

    clock: Clock
    time: Array
    before: Array
    heard: Bools


@dataclass(frozen=True, slots=True)
class Due:
    """Deadlines of queries and keys that have come, each about the key's last event before it.

    Attributes
    ----------
    slot : int64
    code : uint8
        The outcome's place in the kind's list.
    key : int32
    moment : like time
        The deadline.
    place : int64
        The grouped event of the step that makes it known: the key's first at or after the deadline,
        or the first of all where events of other keys matter too; `NO_EVENT` at the beginning or
        the end of a step.
    figures : mapping from the name of a notice column to int64 or float64
        As in `everquery.index.rows.Findings`: all columns of the kind, or none.
    """

    slot: Int64s
    code: Bytes
    key: Int32s
    moment: Array
    place: Int64s
    figures: Mapping[str, Array] = field(default_factory=dict)

    def take(self, picked: Array) -> Due:
        """Return the picked rows, in that order."""
        return Due(
            self.slot[picked],
            self.code[picked],
            self.key[picked],
            self.moment[picked],
            self.place[picked],
            {name: column[picked] for name, column in self.figures.items()},
        )


def join_due(parts: Sequence[Due]) -> Due | None:
    """Return the deadlines of all parts; None if there is none."""
    parts = [part for part in parts if part.slot.size]
    if len(parts) < 2:
        return parts[0] if parts else None
    return Due(
        np.concatenate([part.slot for part in parts]),
        np.concatenate([part.code for part in parts]),
        np.concatenate([part.key for part in parts]),
        np.concatenate([part.moment for part in parts]),
        np.concatenate([part.place for part in parts]),
        {name: np.concatenate([part.figures[name] for part in parts]) for name in parts[0].figures},
    )
