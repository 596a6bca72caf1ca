"""What a shard tells whoever keeps its past: the events of each step, and how far time was."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from everquery.core.arrays import Int32s
from everquery.state.accepted import Accepted, Events


class Moment(NamedTuple):
    """How far time had come at the end of a step.

    Attributes
    ----------
    newest : number or None
        The newest time seen.
    began : number or None
        The time of the first event that was let out.
    flushing : bool
        Whether the step let out all that the grace held back.
    """

    newest: int | float | None
    began: int | float | None
    flushing: bool


class Recorder(Protocol):
    """Keeps the past of a shard; called at the end of each step, in order."""

    def take(self, events: Events, moment: Moment) -> None:
        """Keep the accepted events of a step; the arrays are not written to any more."""

    def expire(self, keys: Int32s, moment: Moment) -> None:
        """Keep that keys were forgotten."""

    def reset(self, newest: int | float, moment: Moment) -> None:
        """Keep that the newest time seen was set back."""


def accepted_events(accepted: Accepted) -> Events:
    """Return the accepted events of a step in the order in which they were taken."""
    events, grouped = accepted.events, accepted.grouped
    rows = len(events) - accepted.expired_row.size
    if grouped.position.size == rows:
        return events if rows == len(events) else events.take(np.arange(rows))
    return events.take(np.sort(grouped.position >> 1))


def copy_of_one(event: Events) -> Events:
    """Return one event in arrays of its own."""
    return event.take(np.zeros(1, np.int64))
