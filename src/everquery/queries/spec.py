"""What every standing query has: an id, a box, perhaps a key."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from everquery.errors import InvalidQueryError
from everquery.queries.box import Box

LONGEST_ID = 1_024  # bytes in UTF-8
LONGEST_KEY = 65_536

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
    """

    id: str
    box: Box
    key: Key | None = field(default=None, kw_only=True)

    kind: ClassVar[str]
    options: ClassVar[tuple[str, ...]] = ()
    """The fields beyond id, box and key; boolean, and columns of a table of queries too."""

    def __post_init__(self) -> None:
        reason = bad_id(self.id)
        if reason:
            raise InvalidQueryError(reason)
        if not isinstance(self.box, Box):  # a user may give any mapping
            try:
                object.__setattr__(self, "box", Box(self.box))
            except InvalidQueryError as error:
                raise InvalidQueryError(f"query {self.id!r}: {error}") from None
        if isinstance(self.key, np.integer):
            object.__setattr__(self, "key", int(self.key))
        if self.key is not None and (
            isinstance(self.key, bool) or not isinstance(self.key, (str, int))
        ):
            raise InvalidQueryError(
                f"query {self.id!r}: key is {self.key!r}; a key is a string or an integer"
            )


def bad_id(value: object) -> str | None:
    """Return why this can't be a query's id, or None."""
    if not isinstance(value, str):
        return f"query id {value!r} is not a string"
    if not value:
        return "query id is empty; give the query a name to be told by"
    size = len(value.encode("utf-8", "surrogatepass"))
    if size > LONGEST_ID:
        return (
            f"query id {value[:20]!r}... has {size:,} bytes; the limit is {LONGEST_ID:,}: "
            "use a shorter name"
        )
    return None
