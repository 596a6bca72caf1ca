"""A registry that is away or damaged while events go on: said once, counted, and tried again."""

from __future__ import annotations

import logging
import time

from everquery.errors import EverqueryError, RegistryDamagedError

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
        self.reason: str | None = None

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
            wanted = "repaired" if damaged else "back"
            log.warning(
                "the queries on %r stay as they are until their registry is %s: %s",
                self._stream,
                wanted,
                error,
            )

    def end(self) -> None:
        """Note that the registry has answered."""
        if self.reason is not None:
            log.warning("the registry of %r answers again", self._stream)
        self.reason = self._reminded = None
