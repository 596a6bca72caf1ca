"""The silence query: keys that nothing has been heard from for a while."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from everquery.core.spans import SpanLike
from everquery.errors import InvalidQueryError
from everquery.queries.box import Box
from everquery.queries.fields import KeysField, SpanField, declared
from everquery.queries.spec import LONGEST_ID, Key, Query, bad_text
from everquery.stream import Stream

AFTER = SpanField(
    "after",
    meaning="How long nothing is heard from a key before it counts as silent.",
    required=True,
    in_clause=True,
    example="10m",
)
KEYS = KeysField(
    "keys",
    meaning="Watch only these keys, also before anything was heard from them; one query each.",
)


@dataclass(frozen=True)
class Silence(Query):
    """Tell when a key has been silent for a while, and when it is back (``silent``, ``back``).

    Without `key` or `keys`, every key is watched that was heard from once. A key that is named is
    watched from the query's registration on, even if nothing has been heard from it.

    Parameters
    ----------
    after : span of time
        How long nothing is heard from a key before it counts as silent.
    keys : sequence of str or int, optional
        Watch only these keys. They make a composite, which is one query for each: see `parts`.

    Examples
    --------
    >>> query = Silence("offline", after=600, keys=["attic", "cellar"])
    >>> [part.id for part in query.parts()]
    ['offline[attic]', 'offline[cellar]']
    """

    box: Mapping[str, Any] = field(init=False, repr=False, compare=False)
    after: SpanLike = field(kw_only=True, metadata=declared(AFTER))
    keys: Sequence[Key] | None = field(default=None, kw_only=True, metadata=declared(KEYS))

    kind: ClassVar[str] = "silence"
    boxed: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "box", Box({}))
        super().__post_init__()
        for key in self.keys or ():
            reason = bad_text(self._id_of(key), "query id", LONGEST_ID)
            if reason:
                raise InvalidQueryError(f"{reason}; it is that of a part: one for each key")

    def _id_of(self, key: Key) -> str:
        return f"{self.id}[{key}]"

    def parts(self) -> tuple[Query, ...]:
        """Return one query for each of `keys`, with ids such as ``offline[attic]``; else itself.

        All else is that of the composite.
        """
        if self.keys is None:
            return (self,)
        return tuple(
            replace(self, id=self._id_of(key), key=key, keys=None, part_of=self.id)
            for key in self.keys
        )

    def misfit(self, stream: Stream) -> str | None:
        """Return why the query can't be on the stream, or None."""
        if self.keys is not None and stream.key is None:
            return f"keys needs a stream with a key, and stream {stream.name!r} has none"
        return None
