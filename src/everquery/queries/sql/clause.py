"""What a kind of query brings to SQL: how its part of a statement is read and printed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

from everquery.queries.interval import Interval
from everquery.queries.sql.conditions import read_condition
from everquery.queries.sql.cursor import Cursor
from everquery.stream import Stream


class Clause(ABC):
    """How a kind is written: what is selected, of which events, and what follows ``EMIT``.

    A kind with a box is selected with ``*``, and needs `read` and `print` only.
    """

    words: ClassVar[tuple[str, ...]]
    """What may come first after ``EMIT``; no two kinds that select the same share one."""
    further: ClassVar[tuple[str, ...]] = ()
    """The other words of its part of a statement, for completion."""
    selects: ClassVar[str | None] = None
    """The word that follows ``SELECT``; None for ``*``."""
    selects_too: ClassVar[tuple[str, ...]] = ()
    """Other words that may stand there instead."""
    groups: ClassVar[bool] = False
    """Whether ``GROUP BY`` may follow the condition of a ``SELECT *``; it says `by_key`."""
    scopes: ClassVar[tuple[str, ...]] = ()
    """The words that begin clauses between the condition and ``EMIT``."""

    mark: ClassVar[str | None] = None
    """A word that only statements of this kind have: `read_statement` then reads all of it."""
    shape: ClassVar[str] = ""
    """The part of a statement that has the mark, for an error message."""

    def read_statement(
        self, cursor: Cursor, read_stream: Callable[[], Stream]
    ) -> tuple[Stream, dict[str, Any]]:
        """Read what follows ``SELECT``; return the stream and the fields of the spec."""
        raise NotImplementedError

    def print_statement(self, query: Any, stream: Stream) -> str | None:  # noqa: ANN401 - the kind's own spec
        """Return all that follows ``AS``, of a kind that reads whole statements."""
        return None

    @abstractmethod
    def read(self, cursor: Cursor, stream: Stream) -> dict[str, Any]:
        """Read from the first word after ``EMIT``; return the fields of the spec that it says."""

    @abstractmethod
    def print(self, query: Any, stream: Stream) -> str:  # noqa: ANN401 - the kind's own spec
        """Return what follows ``EMIT``."""

    def read_selection(self, cursor: Cursor) -> Any:  # noqa: ANN401 - as the kind has it
        """Read what is selected, from its word to before ``FROM``."""
        cursor.expect("*")

    def read_scope(self, cursor: Cursor, stream: Stream, selection: Any) -> dict[str, Any]:  # noqa: ANN401
        """Read from behind the stream's name to before ``EMIT``; return fields of the spec."""
        return read_box(cursor, stream)

    def print_selection(self, query: Any) -> str:  # noqa: ANN401 - the kind's own spec
        """Return what stands between ``SELECT`` and ``FROM``."""
        return "*"

    def print_scope(self, query: Any, stream: Stream) -> str:  # noqa: ANN401 - as above
        """Return the clauses between the condition and ``EMIT``, each with a space before."""
        return ""


def read_box(cursor: Cursor, stream: Stream) -> dict[str, Any]:
    """Read a box and a key, from behind the stream's name to before ``EMIT``."""
    box: dict[str, Interval] = {}
    key = None
    if cursor.accept("WHERE"):
        box, key = read_condition(cursor, stream)
    return {"box": box, "key": key}
