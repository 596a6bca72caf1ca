"""The border query: only what enters or leaves a box."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from everquery.core.spans import SpanLike
from everquery.queries.fields import EventsField, FlagField, SpanField, declared
from everquery.queries.numbers import Bools
from everquery.queries.spec import Query, SaidColumns

EVENTS = ("enter", "leave")

SILENT = FlagField(
    "silent", meaning="Do not report the keys inside at registration or when it is resumed."
)
EMIT = EventsField(
    "emit",
    events=EVENTS,
    meaning="What is told: both, unless said otherwise.",
    takes="enter, leave, or both: enter,leave",
    in_clause=True,
)
DWELL = SpanField(
    "dwell", meaning="A crossing counts after the key has stayed on that side for this long."
)


@dataclass(frozen=True)
class Border(Query):
    """Tell when a key enters a box, and when it leaves (events ``enter`` and ``leave``).

    Parameters
    ----------
    emit : str or sequence of str
        Which of ``enter`` and ``leave`` are told; both unless said otherwise.
    silent : bool
        Do not report the keys that are inside already when the query is registered or resumed.
    dwell : span of time, optional
        A crossing counts only once the key has stayed on that side for this long; of one that is
        undone before, nothing is told.

    Examples
    --------
    >>> Border("band", {"price": (40, 50)}, key="IBM").silent
    False
    """

    silent: bool = field(default=False, kw_only=True, metadata=declared(SILENT))
    emit: Sequence[str] = field(default=EVENTS, kw_only=True, metadata=declared(EMIT))
    dwell: SpanLike | None = field(default=None, kw_only=True, metadata=declared(DWELL))

    kind: ClassVar[str] = "border"

    @classmethod
    def bad_rows(cls, said: SaidColumns) -> Iterator[tuple[Bools, str]]:
        """Yield the rows that would never tell anything."""
        yield (
            said.options["skip_enter"] & said.options["skip_leave"],
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
