"""What queries that have an answer at any time are asked, and how they answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from everquery.index.kind import KindIndex
from everquery.queries.spec import Key
from everquery.stream import Stream


@dataclass(frozen=True, slots=True)
class Answer:
    """A quantile.

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
    """What a question to a kind may look at.

    Attributes
    ----------
    stream : Stream
    index : KindIndex
        The kind's own, in which all queries have been settled.
    key_number : function
        The number of a key in the index; -1 if it has not been seen.
    """

    stream: Stream
    index: KindIndex
    key_number: Callable[[Key], int]


@dataclass(frozen=True, slots=True)
class Question:
    """A question that queries of a kind answer at any time.

    Attributes
    ----------
    ask : function
        Takes what is `Asked`, the `AskedQuery` if it is about one, and what the question says.
    says : str
        What queries of the kind do that answer it: "make progress".
    of_query : bool
        Whether it is about one live query, and not about the kind.
    """

    ask: Callable[..., Any]
    says: str
    of_query: bool = True
