"""Merges that failed: logged with their traceback, counted, and tried again later."""

from __future__ import annotations

import logging


class FailedMerges:
    """What is known of merges that failed; answers do not depend on them, only speed does.

    Parameters
    ----------
    logger : logging.Logger
        Where each failure is warned of.
    """

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self.count = 0
        self.last: str | None = None

    def note(self, kind: str, error: BaseException) -> None:
        """Count a merge of a kind's queries that failed, and warn with its traceback."""
        self.count += 1
        self.last = f"{kind}: {type(error).__name__}: {error}".rstrip(": ")
        self._logger.warning(
            "a merge of %s queries failed (%s); answers stay right, and it is tried again with"
            " the next batch",
            kind,
            type(error).__name__,
            exc_info=error,
        )
