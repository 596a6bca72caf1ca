"""Questions that queries answer at any time, such as `progress`, and their answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from everquery.errors import InvalidQueryError
from everquery.index.kind import KindIndex
from everquery.index.rows import Said
from everquery.queries.spec import LONGEST_KEY, Key, bad_text
from everquery.stream import Stream

PLACE = b"everquery.place"  # in the metadata of answers that are tables

NOWHERE = -1  # the number of a key that is not known


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a quantile query.

    Attributes
    ----------
    value : float or None
        None before the first row.
    rank_low, rank_high : int
        Lower and upper bound of the value's rank; 0 before the first row.
    n : int
        How many rows it is a quantile of.
    epsilon : float
        The largest possible distance between the value's rank and ``phi * n``, as a share of `n`.
    """

    value: float | None
    rank_low: int
    rank_high: int
    n: int
    epsilon: float


def place_of(answer: pa.Table) -> str:
    """Return up to where an answer was read, for `since` and `after` of `Engine.invoke`.

    Examples
    --------
    >>> import everquery as eq
    >>> engine = eq.Engine(eq.Stream("calls", attributes=["ms"]))
    >>> engine.register(eq.Select("all", "SELECT ms BEGIN OLDEST END NOW"))
    >>> notices = engine.process({"ms": [12.0, 48.0]})
    >>> place = eq.place_of(engine.invoke("all"))
    >>> notices = engine.process({"ms": [7.0]})
    >>> engine.invoke("all", since=place).to_pylist()
    [{'change': 'insert', 'ms': 7.0}]
    """
    found = (answer.schema.metadata or {}).get(PLACE)
    if found is None:
        raise InvalidQueryError("the table is no answer of Engine.invoke, or lost its metadata")
    return str(found, "ascii")


@dataclass(frozen=True, slots=True)
class AskedQuery:
    """The live query that a question is about.

    Attributes
    ----------
    id : str
    slot : int
    options : mapping from name to bool
        Those of its kind.
    """

    id: str
    slot: int
    options: Mapping[str, bool]


@dataclass(frozen=True, slots=True)
class Asked:
    """What the answer to a question may use.

    Attributes
    ----------
    stream : Stream
    index : KindIndex
        That of the kind; all registered queries are in it.
    key_number : function
        Returns the number of a key in the index; -1 if the key is not known.
    said : Said
    keys : function
        Returns all keys as an Arrow array, in the order of their numbers.
    now : number or None
        How far time has come.
    time_type : Arrow type or None
        None before the first batch.
    """

    stream: Stream
    index: KindIndex
    key_number: Callable[[Key], int]
    said: Said
    keys: Callable[[], pa.Array]
    now: Any = None
    time_type: pa.DataType | None = None

    def number_of(self, key: Key) -> int:
        """Return the number of a key that a user gives; `NOWHERE` if it is not known.

        Raises
        ------
        InvalidQueryError
            If it can't be a key.
        """
        if isinstance(key, bool) or not isinstance(key, (str, int, np.integer)):
            raise InvalidQueryError(f"key is {key!r}; a key is a string or an integer")
        if isinstance(key, str):
            reason = key and bad_text(key, "key", LONGEST_KEY)
            if reason:
                raise InvalidQueryError(reason)
        elif not -(2**63) <= key < 2**63:
            return NOWHERE
        return self.key_number(key if isinstance(key, str) else int(key))


@dataclass(frozen=True, slots=True)
class Question:
    """A question that queries of a kind answer at any time.

    Attributes
    ----------
    ask : function
        Takes an `Asked`, then the `AskedQuery` if the question is about one query, then the
        arguments of the engine's method by name.
    says : str
        What queries that answer it do, for an error message: "make progress".
    of_query : bool
        Whether it is about one live query, and not about all queries of the kind.
    """

    ask: Callable[..., Any]
    says: str
    of_query: bool = True
