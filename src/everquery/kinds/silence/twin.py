"""The brute-force answer of silence queries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from everquery.kinds import twin
from everquery.kinds.silence.spec import Silence


class Twin(twin.Twin):
    """A key that is not heard from in time is told of, and that it is back."""

    def deadline(self, query: Silence, key: object, last: Any, since: Any) -> Any:  # noqa: ANN401
        """Return when a key becomes silent."""
        if query.key is not None and query.key != key:
            return None
        if last is None:
            named = query.key is not None or self.stream.key is None
            last = since if named else None
        return None if last is None else last + query.after

    def miss(self, query: Silence, *, heard: bool) -> tuple[str, str | None]:
        """Return that a key is silent."""
        return "silent", None if heard else "unheard"

    def answer(self, query: Silence, seen: twin.Seen) -> Iterator[twin.Happened]:
        """Yield that a key is back if it had been silent."""
        if seen.overdue:
            yield twin.Happened("back")
