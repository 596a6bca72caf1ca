"""Engines that inputs are given to: one that refused an input, and is as it was, is used again."""

from __future__ import annotations

from collections.abc import Callable

import everquery as eq


class Untouched:
    """Makes engines, and keeps one while nothing happens to it.

    Most inputs are refused, and to make an engine and look at all that it knows takes several times
    as long as to refuse one. What an engine knows is compared by its snapshots, byte by byte.
    """

    def __init__(self, make: Callable[[], eq.Engine]) -> None:
        self._make = make
        self._kept: eq.Engine | None = None
        self._before = b""

    def take(self) -> eq.Engine:
        """Return an engine; it is not given out again before `is_as_it_was` has looked at it."""
        engine, self._kept = self._kept, None
        if engine is None:
            engine = self._make()
            self._before = engine.snapshot()
        return engine

    def is_as_it_was(self, engine: eq.Engine) -> bool:
        """Tell whether nothing has happened to the engine that was taken last."""
        if engine.snapshot() != self._before:
            return False
        self._kept = engine
        return True
