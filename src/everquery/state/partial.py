"""How many accepted events lack a value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Partial:
    """Accepted events with a value that is unknown.

    Attributes
    ----------
    events : int
        Each counts once, whatever it lacks.
    by_column : mapping from column to number
        How many lack a value there; columns that none lacks are not there.
    """

    events: int = 0
    by_column: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, more: Partial) -> Partial:
        """Return both together."""
        counts = Counter(self.by_column) + Counter(more.by_column)
        return Partial(self.events + more.events, dict(counts))

    def since(self, earlier: Partial) -> Partial:
        """Return what has been counted since then."""
        counts = Counter(self.by_column) - Counter(earlier.by_column)
        return Partial(self.events - earlier.events, dict(counts))
