"""The border query: only what enters or leaves a box."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from everquery.errors import InvalidQueryError
from everquery.queries.numbers import Bools, NumberColumn
from everquery.queries.spec import Query
from everquery.stream import Span, Stream

EVENTS = ("enter", "leave")


@dataclass(frozen=True)
class Border(Query):
    """Tell when a key enters a box, and when it leaves (events ``enter`` and ``leave``).

    Parameters
    ----------
    emit : tuple of str
        Which of ``enter`` and ``leave`` are told; both unless said otherwise.
    silent : bool
        Do not report the keys that are inside already when the query is registered or resumed.
    dwell : number or timedelta, optional
        A crossing counts only once the key has stayed on that side for this long; of one that is
        undone before, nothing is told.

    Examples
    --------
    >>> Border("band", {"price": (40, 50)}, key="IBM").silent
    False
    """

    emit: tuple[str, ...] = field(default=EVENTS, kw_only=True)
    silent: bool = field(default=False, kw_only=True)
    dwell: Span | None = field(default=None, kw_only=True)

    kind: ClassVar[str] = "border"
    spans: ClassVar[tuple[str, ...]] = ("ttl", "dwell", "throttle")
    options: ClassVar[tuple[str, ...]] = ("silent", "skip_enter", "skip_leave")
    words: ClassVar[Mapping[str, str]] = {"emit": "enter, leave or enter,leave, or null for both"}

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.silent, bool):
            raise InvalidQueryError(
                f"query {self.id!r}: silent is {self.silent!r}; it is true or false"
            )
        emit = (self.emit,) if isinstance(self.emit, str) else tuple(self.emit)
        if not emit or set(emit) - set(EVENTS):
            raise InvalidQueryError(
                f"query {self.id!r}: emit is {self.emit!r}; it takes 'enter', 'leave' or both"
            )
        object.__setattr__(self, "emit", tuple(event for event in EVENTS if event in emit))

    @classmethod
    def options_of_word(cls, column: str, word: str) -> tuple[str, ...] | None:
        """Return what ``enter``, ``leave`` or ``enter,leave`` leaves out.

        Examples
        --------
        >>> Border.options_of_word("emit", "leave"), Border.options_of_word("emit", "enter,leave")
        (('skip_enter',), ())
        """
        told = [event.strip() for event in word.split(",")]
        if set(told) - set(EVENTS):
            return None
        return tuple(f"skip_{event}" for event in EVENTS if event not in told)

    @classmethod
    def bad_rows(
        cls,
        stream: Stream,
        keyed: Bools,
        options: Mapping[str, Bools],
        numbers: Mapping[str, NumberColumn],
    ) -> Iterator[tuple[Bools, str]]:
        """Yield the rows that would never tell anything."""
        yield (
            options["skip_enter"] & options["skip_leave"],
            "it tells neither enter nor leave, so it would never tell anything",
        )

    @property
    def skip_enter(self) -> bool:
        """Whether no enter is told."""
        return "enter" not in self.emit

    @property
    def skip_leave(self) -> bool:
        """Whether no leave is told."""
        return "leave" not in self.emit
