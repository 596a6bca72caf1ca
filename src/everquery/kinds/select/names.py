"""Which stream a column of a select query is of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from everquery.kinds.select.plan import Column, Source
from everquery.queries.sql.cursor import Cursor
from everquery.queries.sql.errors import nearest
from everquery.queries.sql.scanner import QUOTED, WORD, Token
from everquery.stream import Stream


class Named(NamedTuple):
    """A column as it is written."""

    qualifier: str | None
    name: str
    token: Token


@dataclass(slots=True)
class Names:
    """The streams of a query, and what their columns are written with.

    Attributes
    ----------
    sources : list of Source
    streams : list of Stream
        Empty where only a text is known, and not the streams that it names.
    """

    sources: list[Source] = field(default_factory=list)
    streams: list[Stream] = field(default_factory=list)

    @property
    def joins(self) -> bool:
        """Whether there are two streams."""
        return len(self.sources) > 1

    def column(self, cursor: Cursor, named: Named) -> Column:
        """Return which stream's column is meant; refuse what is unknown or ambiguous."""
        if named.qualifier is not None:
            side = self._side(cursor, named)
        elif self.joins:
            side = self._only_side(cursor, named)
        else:
            side = 0
        if self.streams and named.name not in self.streams[side].columns():
            cursor.fail(unknown_column(named.name, self.streams[side]), named.token)
        return Column(side, named.name)

    def _side(self, cursor: Cursor, named: Named) -> int:
        aliases = [source.alias for source in self.sources]
        if named.qualifier not in aliases:
            hint = nearest(str(named.qualifier), aliases)
            known = ", ".join(aliases) or "none"
            cursor.fail(f"FROM names no {named.qualifier!r}{hint} (it names {known})", named.token)
        return aliases.index(named.qualifier)

    def _only_side(self, cursor: Cursor, named: Named) -> int:
        if not self.streams:
            cursor.fail(f"say whose column {named.name} is, as in stream.{named.name}", named.token)
        sides = [i for i, each in enumerate(self.streams) if named.name in each.columns()]
        if len(sides) > 1:
            first, second = (source.alias for source in self.sources)
            cursor.fail(
                f"{named.name} is ambiguous: write {first}.{named.name} or {second}.{named.name}",
                named.token,
            )
        if not sides:
            cursor.fail(
                "; ".join(unknown_column(named.name, each) for each in self.streams), named.token
            )
        return sides[0]


def unknown_column(name: str, stream: Stream) -> str:
    """Return the sentence for a column that the stream does not have."""
    columns: Sequence[str] = stream.columns()
    return (
        f"stream {stream.name!r} has no column {name!r}{nearest(name, columns)}"
        f" (it has {', '.join(columns)})"
    )


def read_named(cursor: Cursor) -> Named:
    """Read a column, perhaps with what its stream is called before it."""
    token = cursor.token
    if token.kind not in (WORD, QUOTED):
        cursor.fail_expected([], "a column")
    first = cursor.next().value()
    if not cursor.accept("."):
        return Named(None, first, token)
    return Named(first, cursor.name("a column"), token)
