"""A step's work divided among threads: kernels and Arrow run without the interpreter lock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Piece = TypeVar("Piece")
Result = TypeVar("Result")


class Crew:
    """Some threads, of which the caller's is one.

    Parameters
    ----------
    threads : int
        1 for the caller's alone.
    """

    def __init__(self, threads: int = 1) -> None:
        self.threads = threads
        self._pool: ThreadPoolExecutor | None = None

    def pieces(self, n: int, worth: int) -> list[tuple[int, int]]:
        """Return begins and ends of about equal pieces of ``n``, one a thread.

        Parameters
        ----------
        worth : int
            What a piece must have for a thread of its own: handing it over takes some 50 µs.
        """
        if self.threads == 1 or n < 2 * worth:
            return [(0, n)]
        count = min(self.threads, n // worth)
        ends = [n * (i + 1) // count for i in range(count)]
        return list(zip([0, *ends[:-1]], ends, strict=True))

    def map(self, function: Callable[[Piece], Result], pieces: Sequence[Piece]) -> list[Result]:
        """Return what the function returns for each piece; all at once, the last one here."""
        if len(pieces) == 1:
            return [function(pieces[0])]
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.threads - 1, thread_name_prefix="everquery-step")
        others = [self._pool.submit(function, piece) for piece in pieces[:-1]]
        try:
            last = function(pieces[-1])
        finally:
            for other in others:  # also on an error nobody goes on working on what is shared
                other.exception()
        return [*(other.result() for other in others), last]

    def close(self) -> None:
        """End the threads; a later step starts others."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None


ALONE = Crew()
