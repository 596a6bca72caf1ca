"""Where an event stands in the past of a stream: its batch, and its position there."""

from __future__ import annotations

from typing import NamedTuple


class Place(NamedTuple):
    """A place in the order in which a shard took its events.

    Attributes
    ----------
    batch : int
        The number of the step, from 0 on: each call of ``process``, ``push``, ``advance``,
        ``flush``, ``expire`` or ``reset_time`` is one, also one without events.
    position : int
        Among the accepted events of that step, from 0 on.
    """

    batch: int
    position: int = 0

    def __str__(self) -> str:
        return f"({self.batch}, {self.position})"


OLDEST = "oldest"
"""As `begin`: with the oldest event that is kept."""
