"""A registry that is away or damaged while events go on: said once, counted, and tried again."""

from __future__ import annotations

import logging
import time

from everquery.errors import (
    EverqueryError,
    RegistryDamagedError,
    RegistryLostError,
    UnknownStreamError,
)

REMIND_SECONDS = 60.0
PATIENCE = 10  # a look that takes a second without an answer is followed by ten without a look

log = logging.getLogger("everquery.registry")


class Outage:
    """What an engine knows of its registry's trouble.

    Parameters
    ----------
    stream : str
        Whose queries stay as they are meanwhile.
    """

    def __init__(self, stream: str) -> None:
        self._stream = stream
        self._again = 0.0
        self._reminded: float | None = None
        self._lost = False
        self.reason: str | None = None

    def check(self, head: int, position: int) -> None:
        """Raise if a registry has not come as far as what follows it.

        It is then another one, or older, and so it stays: when its log is longer again, it says
        something else at positions that were followed already.
        """
        if head < position:
            self._lost = True
        if self._lost:
            raise self.lost(position)

    def lost(self, position: int) -> RegistryLostError:
        """Return the error for a registry that was at a position once, and is no longer."""
        return RegistryLostError(
            f"this engine stands at position {position} of {self._stream!r}, and the registry is"
            " not there: it is older than the engine, or another one. Open a new engine on it"
        )

    def is_over(self) -> bool:
        """Tell whether it is time to look again; always, where looking costs nothing."""
        return self.reason is None or time.monotonic() >= self._again

    def note(self, error: EverqueryError, seconds: float) -> None:
        """Note what happened when the registry was looked at for so long; warn now and then."""
        now = time.monotonic()
        news = self.reason is None
        self.reason = str(error)
        damaged = isinstance(error, RegistryDamagedError)
        silent = seconds > 1 and not damaged  # it was waited for
        self._again = now + PATIENCE * seconds if silent else now
        if news or self._reminded is None or now - self._reminded > REMIND_SECONDS:
            self._reminded = now
            until = "until their registry is " + ("repaired" if damaged else "back")
            if isinstance(error, (RegistryLostError, UnknownStreamError)):
                until = "from now on"
            log.warning("the queries on %r stay as they are %s: %s", self._stream, until, error)

    def end(self) -> None:
        """Note that the registry has answered."""
        if self.reason is not None:
            log.warning("the registry of %r answers again", self._stream)
        self.reason = self._reminded = None
