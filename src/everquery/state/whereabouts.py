"""Where keys are: the last values that queries saw, whichever attributes they restrict."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from everquery.core.arrays import Floats, Int32s
from everquery.state.accepted import Events
from everquery.state.sights import Sights
from everquery.stream import NAMELESS


class Whereabouts:
    """Where keys are, as queries over different attributes have seen them last.

    Parameters
    ----------
    last : Events
        The last event of each key.
    sights : Sights
    """

    def __init__(self, last: Events, sights: Sights) -> None:
        self._last = last
        self._sights = sights
        self._found: dict[int, Events] = {}

    @property
    def keys(self) -> Int32s:
        """The keys, ascending."""
        return self._last.key

    def events(self, attributes: Sequence[int]) -> Events:
        """Return each key's newest event that knows some attributes."""
        need = self._sights.need(attributes)
        if need not in self._found:
            self._found[need] = self._sights.recalled(self._last, attributes)
        return self._found[need]

    def values(self, attributes: Sequence[int]) -> Floats:
        """Return the values of some attributes there, NaN where a key was not seen with them all.

        What is `NAMELESS` is 0 everywhere: see `Grouped`.
        """
        events = self.events(attributes)
        values = np.zeros((len(attributes), len(events)))
        for row, a in zip(values, attributes, strict=True):
            if a != NAMELESS:
                row[:] = events.values[a]
        return values
