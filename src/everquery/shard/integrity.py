"""Whether all of a shard's state belongs together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Integrity:
    """Shared by all that change a shard's state.

    Attributes
    ----------
    torn : bool
        Whether something failed while state was changing: then nobody knows what has changed, and
        what has not.
    """

    def __init__(self) -> None:
        self.torn = False

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Note if something fails in between."""
        try:
            yield
        except BaseException:
            self.torn = True
            raise
