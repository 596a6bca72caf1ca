"""What every standing query has: an id, a box, perhaps a key, and who it belongs to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from everquery.errors import InvalidQueryError
from everquery.queries.box import Box
from everquery.queries.labels import Labels
from everquery.queries.numbers import Bools, NumberColumn, NumberField
from everquery.stream import LONGEST_SPAN, Span, Stream, bad_span

LONGEST_ID = 1_024  # bytes in UTF-8
LONGEST_KEY = 1 << 20
LONGEST_TIMEDELTA = timedelta(microseconds=LONGEST_SPAN)

Key = str | int


@dataclass(frozen=True)
class Query:
    """The part that all kinds share; use `Range`, `Border`, ...

    Parameters
    ----------
    id : str
        The owner's name for the query, unique among live queries.
    box : mapping from attribute to range
        Pairs are half-open ``[lo, hi)``; `Interval` says it otherwise. An empty box holds all.
    key : str or int, optional
        Only this key's events are seen.
    owner : str, optional
        Whose query it is.
    labels : mapping from str to str, optional
        Whatever the owner wants to find it by.
    ttl : number or timedelta, optional
        How long the query lives; it then ends by itself, with a notice ``end``.
    throttle : number or timedelta, optional
        At most one notice a key in this time; those held back are summed up at its end.

    Spans of time need a stream with a time column; a number is in the unit of that column.
    """

    id: str
    box: Mapping[str, Any]
    key: Key | None = field(default=None, kw_only=True)
    owner: str | None = field(default=None, kw_only=True)
    labels: Labels = field(default=Labels(), kw_only=True)
    ttl: Span | None = field(default=None, kw_only=True)
    throttle: Span | None = field(default=None, kw_only=True)

    kind: ClassVar[str]
    spans: ClassVar[tuple[str, ...]] = ("ttl", "throttle")
    """The fields that are spans of time, and columns of a table of queries too."""
    options: ClassVar[tuple[str, ...]] = ()
    """The fields beyond those above; boolean, and columns of a table of queries too."""
    words: ClassVar[Mapping[str, str]] = {}
    """Columns of a table of queries whose words stand for options, and what such a column takes."""
    across_keys: ClassVar[bool] = False
    """Whether a query without key looks at the events of all keys together, not at each key's.

    Of a kind with the option ``by_key``, only those queries do that have not set it."""
    boxed: ClassVar[bool] = True
    """Whether a user gives the box; else the field ``attribute`` names the one it is about."""
    numbers: ClassVar[tuple[NumberField, ...]] = ()
    """The fields that are numbers, and columns of a table of queries too."""

    def __post_init__(self) -> None:
        reason = bad_text(self.id, "query id", LONGEST_ID)
        if reason:
            raise InvalidQueryError(reason)
        try:
            if type(self.box) is not Box:
                object.__setattr__(self, "box", Box(self.box))
            if type(self.labels) is not Labels:
                object.__setattr__(self, "labels", Labels(self.labels))
        except InvalidQueryError as error:
            raise InvalidQueryError(f"query {self.id!r}: {error}") from None
        if isinstance(self.key, str):
            reason = self.key and bad_text(self.key, "key", LONGEST_KEY)
            if reason:
                raise InvalidQueryError(f"query {self.id!r}: {reason}")
        elif self.key is not None:
            if isinstance(self.key, np.integer):
                object.__setattr__(self, "key", int(self.key))
            if isinstance(self.key, bool) or not isinstance(self.key, (str, int)):
                raise InvalidQueryError(
                    f"query {self.id!r}: key is {self.key!r}; a key is a string or an integer"
                )
        if self.owner is not None:
            reason = bad_text(self.owner, "owner", LONGEST_ID)
            if reason:
                raise InvalidQueryError(f"query {self.id!r}: {reason}")
        for name in self.spans:
            span = getattr(self, name)
            if span is not None:
                self._check_span(name, span)

    @property
    def shared_name(self) -> str:
        """What queries have in common that must be in one shard, if they look across keys."""
        return self.id

    @classmethod
    def shared_names(
        cls, ids: pa.Array, attribute: str, numbers: Mapping[str, NumberColumn]
    ) -> pa.Array:
        """Return the shared names of queries of a block, whose first attribute is given."""
        return ids

    @property
    def looks_across_keys(self) -> bool:
        """Whether this query looks at the events of all keys together."""
        return self.across_keys and self.key is None

    def parts(self) -> tuple[Query, ...]:
        """Return the queries that this one is made of: itself, unless it is a composite."""
        return (self,)

    def misfit(self, stream: Stream) -> str | None:
        """Return why a query of this kind can't be on the stream, or None."""
        return None

    @classmethod
    def options_of_word(cls, column: str, word: str) -> tuple[str, ...] | None:
        """Return the options that a word in a column sets; None if it is no word of that column."""
        return None

    @classmethod
    def bad_rows(
        cls,
        stream: Stream,
        keyed: Bools,
        options: Mapping[str, Bools],
        numbers: Mapping[str, NumberColumn],
    ) -> Iterator[tuple[Bools, str]]:
        """Yield which rows of a table can't be for what several columns say together, and why.

        Parameters
        ----------
        stream : Stream
        keyed : bool, shape (n,)
            Which rows have a key.
        options, numbers : dicts of columns
            As in a block.
        """
        yield from ()

    def _read_number(self, number: NumberField) -> None:
        value = getattr(self, number.name)
        if value is None and not number.required:
            return
        try:
            object.__setattr__(self, number.name, number.read(value))
        except InvalidQueryError as error:
            raise InvalidQueryError(f"query {self.id!r}: {error}") from None

    def _check_span(self, name: str, span: Span) -> None:
        if isinstance(span, (np.integer, np.floating)):
            span = span.item()
            object.__setattr__(self, name, span)
        reason = bad_span(span)
        if reason is None and isinstance(span, timedelta) and span >= LONGEST_TIMEDELTA:
            reason = "it is longer than times are"
        if reason:
            raise InvalidQueryError(f"query {self.id!r}: {name} is {span!r}; {reason}")


def bad_text(value: object, what: str, longest: int) -> str | None:
    """Return why this can't be a query's id or the like, or None."""
    if not isinstance(value, str):
        return f"{what} {value!r} is not a string"
    if not value:
        return f"{what} is empty; give it a name to be told by"
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        return f"{what} {value!r} has half a surrogate pair; give valid text"
    if size > longest:
        return (
            f"{what} {value[:20]!r}... has {size:,} bytes; the limit is {longest:,}:"
            " use a shorter name"
        )
    return None
