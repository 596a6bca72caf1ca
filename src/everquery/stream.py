"""What an event of a stream looks like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from everquery.core.spans import BadSpanError, SpanLike, read_span
from everquery.core.spans import Span as Span  # part of what a stream is
from everquery.errors import InvalidStreamError

# The columns of a notice; an attribute of the same name would hide one.
NOTICE_COLUMNS = (
    *("query_id", "kind", "event", "key", "time", "seq", "reason"),
    *("total", "rounds", "held_back", "notice_id"),
)
OWNER_COLUMNS = ("owner", "labels")  # of notices, on request
SPANS = ("grace", "expire_after", "max_ahead")  # the fields of a stream that are spans of time
ALTERABLE = (*SPANS, "keep")  # the fields that may be altered later
ALL = "all"  # as `Stream.keep`: everything
ROLES = ("name", "key", "time", "attributes", "weight")  # of a stream: what its columns are

MOST_ATTRIBUTES = 60
NAMELESS = -1  # the position behind those of the attributes: see `Stream.places`

LETTER_COLUMNS = ("position", "detail")  # of dead letters, besides those of notices


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
        The numeric columns that queries restrict. An event may lack some of them: it is then not
        seen by queries that restrict one that it lacks, and by all others. There may be none:
        queries then count events or add up weights, and tell of keys.
    weight : str, optional
        A column of positive integers, which thresholds add up. Where it is missing or not positive,
        they do not see the event.
    grace : span of time, optional
        Events are held back until the newest time seen is this far ahead, so that disorder within
        it costs nothing.
    expire_after : span of time, optional
        A key without events for this long leaves every box it is in, with reason ``expired``.
    max_ahead : span of time, optional
        How far an event may be ahead of the clock that `Engine.process` is given; one that is
        further ahead is a dead letter ``ahead``, and does not move time. Without a clock, events
        that are further ahead of the newest time seen wait until a second key confirms them.
    keep : int, span of time or "all", optional
        How much of its past the stream keeps, for queries that begin in the past: so many events,
        a text such as ``1h`` or a timedelta, or everything. Without one, nothing is kept.

    A span is a text such as ``5s``, ``1h30m`` or ``PT90S``, or a timedelta; where the time column
    holds integers or floats, a number in its unit. It is kept as a timedelta or a number.

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
    grace: SpanLike | None = field(default=None, kw_only=True)
    expire_after: SpanLike | None = field(default=None, kw_only=True)
    max_ahead: SpanLike | None = field(default=None, kw_only=True)
    keep: int | timedelta | str | None = field(default=None, kw_only=True)

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
        if not any(names):
            raise InvalidStreamError(
                f"{where} has no columns at all; name a key, a time, a weight or attributes"
            )
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
        for span in SPANS:
            self._read_span(span)
        if self.keep is not None:
            self._read_keep()

    def _read_span(self, name: str) -> None:
        """Give a span its own type."""
        given = getattr(self, name)
        if given is None:
            return
        if self.time is None:
            raise InvalidStreamError(f"stream {self.name!r}: {name} needs a time column")
        try:
            object.__setattr__(self, name, read_span(given, zero=name == "grace"))
        except BadSpanError as error:
            raise InvalidStreamError(
                f"stream {self.name!r}: {name} is {given!r}; {error}"
            ) from None

    def _read_keep(self) -> None:
        """Give what is kept its own type: a number of events, a timedelta, or `ALL`."""
        given = self.keep
        if isinstance(given, str) and given.strip().lower() == ALL:
            object.__setattr__(self, "keep", ALL)
            return
        where = f"stream {self.name!r}: keep is {given!r}"
        advice = 'give a number of events, a span such as "1h", or "all"'
        try:
            kept = given if isinstance(given, bool) else read_span(given)
        except BadSpanError as error:
            raise InvalidStreamError(f"{where}; {advice} ({error})") from None
        if isinstance(kept, bool) or (isinstance(kept, float) and not kept.is_integer()):
            raise InvalidStreamError(f"{where}; {advice}")
        if isinstance(kept, timedelta) and self.time is None:
            raise InvalidStreamError(f"{where}, and a span needs a time column; {advice}")
        object.__setattr__(self, "keep", kept if isinstance(kept, timedelta) else int(kept))

    @property
    def places(self) -> Sequence[str]:
        """What boxes may restrict, by position: the attributes, and a value without name.

        That value is always 0, and an event never lacks it: empty boxes are found by it. Its
        position is `NAMELESS`, however many attributes there are.
        """
        return (*self.attributes, "")

    def needed_columns(self) -> tuple[str, ...]:
        """Return the columns that every batch must have; what others lack is unknown."""
        return tuple(name for name in (self.key, self.time) if name is not None)

    def altered(self, *, attributes: Sequence[str] = (), **spans: SpanLike | None) -> Stream:
        """Return the stream with further attributes, behind those it has, other spans and `keep`.

        Raises
        ------
        InvalidStreamError
            If something else is to be altered, or can't be.

        Examples
        --------
        >>> Stream("trades", attributes=["price"]).altered(attributes=["volume"]).attributes
        ('price', 'volume')
        """
        unknown = sorted(spans.keys() - set(ALTERABLE))
        if unknown:
            raise InvalidStreamError(
                f"of stream {self.name!r} {', '.join(ALTERABLE)} can be altered, and attributes"
                f" added; {', '.join(unknown)} stays as it is. Create another stream"
            )
        if isinstance(attributes, str):
            raise InvalidStreamError(
                f"stream {self.name!r}: attributes is the string {attributes!r}; give a list of"
                " names"
            )
        if attributes and not self.attributes:
            raise InvalidStreamError(
                f"stream {self.name!r} has no attributes, and can't get any: what its queries are"
                " found by would be another. Create another stream"
            )
        return replace(self, attributes=(*self.attributes, *attributes), **spans)  # type: ignore[arg-type]

    def extends(self, other: Stream) -> bool:
        """Tell whether this is another stream's definition, perhaps altered since."""
        known = len(other.attributes)
        return self.attributes[:known] == other.attributes and all(
            getattr(self, role) == getattr(other, role) for role in ROLES if role != "attributes"
        )

    def columns(self) -> tuple[str, ...]:
        """Return the columns of a batch."""
        named = (self.key, self.time, *self.attributes, self.weight)
        return tuple(dict.fromkeys(name for name in named if name is not None))
