"""A stream as an engine has it, and as its registry has it by now: it may have been altered."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from everquery.errors import RegistryError, UnknownStreamError
from everquery.queries.changes import Change, Deregister
from everquery.registry.definitions import stream_as_json
from everquery.registry.digests import digest_of_stream
from everquery.registry.strangers import strangers, without_strangers
from everquery.state.stream_header import differences, stream_header
from everquery.stream import Stream

if TYPE_CHECKING:
    from everquery.registry import Registry

SHOWN = 3  # ids in a warning

log = logging.getLogger("everquery.registry")


class Definition:
    """What an engine knows of its stream in the registry.

    An engine goes on with the stream as it was when it was opened. Queries about attributes that
    were added since are left out, and the engine writes no more changes: it does not know all
    queries.

    Attributes
    ----------
    stored : Stream
        As the registry has it.
    altered : str or None
        In what that differs from the engine's own.
    left_out : set of str
        The ids of live queries that this engine can't answer.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.stored = stream
        self.altered: str | None = None
        self.left_out: set[str] = set()
        self._digest = digest_of_stream(stream.name, stream_as_json(stream))

    def look(self, registry: Registry) -> int:
        """Return the position behind the last change; note it if the stream has been altered.

        Raises
        ------
        UnknownStreamError, RegistryError
            If the stream has been dropped, perhaps for another one of its name.
        """
        try:
            head, digest = registry.look(self._stream.name)
        except UnknownStreamError:
            raise UnknownStreamError(
                f"stream {self._stream.name!r} is not in the registry any more: it was dropped,"
                " with its queries. An engine on it goes on with the queries that it has, until it"
                " is ended"
            ) from None
        if digest != self._digest:
            self._compare(registry.stream(self._stream.name))
            self._digest = digest
        return head

    def _compare(self, stored: Stream) -> None:
        if not stored.extends(self._stream):
            raise RegistryError(
                f"stream {stored.name!r} was dropped, and another one is there in its place:"
                f" {stored}. Open a new engine on it"
            )
        self.stored = stored
        self.altered = differences(stream_header(stored), self._stream) or None
        if self.altered:
            log.warning(
                "stream %r was altered (%s); this engine goes on with it as it was: open a new one",
                stored.name,
                self.altered,
            )

    def check_unaltered(self) -> None:
        """Raise if the registry may hold queries that this engine does not know."""
        if len(self.stored.attributes) > len(self._stream.attributes):
            raise RegistryError(
                f"stream {self._stream.name!r} was altered ({self.altered}), and this engine does"
                " not know all of its queries any more; to change some, open a new engine on it"
            )

    def of_entry(self, change: Change) -> Change:
        """Return what this engine can take of a change in the log."""
        if isinstance(change, Deregister):
            self.left_out.difference_update(change.ids.to_pylist() if self.left_out else ())
        if len(self.stored.attributes) == len(self._stream.attributes):
            return change
        found = sorted(query_id for _, query_id in strangers(change, self._stream))
        if not found:
            return change
        self.left_out.update(found)
        log.warning(
            "%d queries on %r are left out, %s first: they are about attributes that this engine"
            " does not know; open a new one",
            len(found),
            self._stream.name,
            ", ".join(map(repr, found[:SHOWN])),
        )
        return without_strangers(change, self._stream)

    def of_base(self, changes: Sequence[Change]) -> list[Change]:
        """Return what this engine can take of a compacted base."""
        self.left_out.clear()
        return [self.of_entry(change) for change in changes]
