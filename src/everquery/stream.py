"""What an event of a stream looks like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from everquery.errors import InvalidStreamError

# The columns of a notice; an attribute of the same name would hide one.
NOTICE_COLUMNS = (
    *("query_id", "kind", "event", "key", "time", "seq", "reason"),
    *("total", "rounds", "held_back", "notice_id"),
)
OWNER_COLUMNS = ("owner", "labels")  # of notices, on request
ROLES = ("name", "key", "time", "attributes", "weight")  # of a stream: what its columns are

MOST_ATTRIBUTES = 60
LONGEST_SPAN = 2**61  # in any unit: times are 64-bit

LETTER_COLUMNS = ("position", "detail")  # of dead letters, besides those of notices

Span = int | float | timedelta


@dataclass(frozen=True)
class Stream:
    """A named sequence of events with one schema.

    Parameters
    ----------
    name : str
    key : str, optional
        The column that says which object or series an event is about. Without one the whole stream
        is a single series.
    time : str, optional
        The column with the event's time. Without one, arrival order counts.
    attributes : sequence of str
        The numeric columns that queries restrict. Every event needs all of them.
    weight : str, optional
        A column of positive integers.
    grace : number or timedelta, optional
        Events are held back until the newest time seen is this far ahead, so that disorder within
        it costs nothing. A number is in the unit of the time column.
    expire_after : number or timedelta, optional
        A key without events for this long leaves every box it is in, with reason ``expired``.

    Examples
    --------
    >>> Stream("trades", key="symbol", time="ts", attributes=["price"]).attributes
    ('price',)
    """

    name: str
    key: str | None = field(default=None, kw_only=True)
    time: str | None = field(default=None, kw_only=True)
    attributes: Sequence[str] = field(kw_only=True)
    weight: str | None = field(default=None, kw_only=True)
    grace: Span | None = field(default=None, kw_only=True)
    expire_after: Span | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        where = f"stream {self.name!r}"
        if isinstance(self.attributes, str):
            raise InvalidStreamError(
                f"{where}: attributes is the string {self.attributes!r}; give a list of names"
            )
        object.__setattr__(self, "attributes", tuple(self.attributes))
        names = [self.key, self.time, *self.attributes, self.weight]
        for name in (self.name, *(name for name in names if name is not None)):
            if not isinstance(name, str) or not name:
                raise InvalidStreamError(f"{where}: {name!r} is not a name")
            if not name.isascii() and any("\ud800" <= letter <= "\udfff" for letter in name):
                raise InvalidStreamError(
                    f"{where}: {name!r} has half a surrogate pair; give valid text"
                )
        if not self.attributes:
            raise InvalidStreamError(f"{where} has no attributes; queries need one to restrict")
        if len(self.attributes) > MOST_ATTRIBUTES:
            raise InvalidStreamError(
                f"{where} has {len(self.attributes)} attributes; the limit is {MOST_ATTRIBUTES}:"
                " name those that queries restrict"
            )
        roles = [self.key, self.time, *self.attributes]
        for name in self.attributes:
            if roles.count(name) > 1:
                raise InvalidStreamError(f"{where}: column {name!r} is named twice")
            if name in (*NOTICE_COLUMNS, *LETTER_COLUMNS):
                raise InvalidStreamError(
                    f"{where}: attribute {name!r} has the name of a notice column;"
                    " rename it in the events"
                )
        if self.key is not None and self.key == self.time:
            raise InvalidStreamError(f"{where}: column {self.key!r} is key and time at once")
        for span, value in (("grace", self.grace), ("expire_after", self.expire_after)):
            self._check_span(span, value)

    def _check_span(self, name: str, span: Span | None) -> None:
        if span is None:
            return
        if self.time is None:
            raise InvalidStreamError(f"stream {self.name!r}: {name} needs a time column")
        reason = bad_span(span, zero=name == "grace")
        if reason:
            raise InvalidStreamError(f"stream {self.name!r}: {name} is {span!r}; {reason}")

    def columns(self) -> tuple[str, ...]:
        """Return the columns that a batch needs."""
        named = (self.key, self.time, *self.attributes, self.weight)
        return tuple(dict.fromkeys(name for name in named if name is not None))


def bad_span(span: Span | None, *, zero: bool = False) -> str | None:
    """Return why this is no span of time, or None."""
    if span is None:
        return None
    if isinstance(span, bool) or not isinstance(span, (int, float, timedelta)):
        return "give a number in the unit of the time column, or a timedelta"
    seconds = span.total_seconds() if isinstance(span, timedelta) else span
    if not (seconds > 0 or (zero and seconds == 0)):
        return "it must be positive"
    if seconds >= LONGEST_SPAN:
        return "it is longer than times are"
    return None
