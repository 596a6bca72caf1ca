"""Whether all of a shard's state belongs together."""

from __future__ import annotations

from types import TracebackType


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

    def changing(self) -> Integrity:
        """Note if something fails in between: ``with integrity.changing(): ...``."""
        return self

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self.torn = True
