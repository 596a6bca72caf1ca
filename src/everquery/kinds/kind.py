"""What a kind of query is: all that the rest of the program asks it for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from everquery.index.kind import KindIndex
from everquery.kinds.answer import Question
from everquery.queries.spec import Query
from everquery.queries.sql.clause import Clause
from everquery.stream import Stream

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from everquery.kinds.twin import Twin


@dataclass(frozen=True, slots=True)
class Listed:
    """A column by which a kind shows its fields to people who list queries.

    Attributes
    ----------
    title : str
    text : function
        Takes a query as a record of its fields; returns the text, None for one of another kind.
    """

    title: str
    text: Callable[[Mapping[str, Any]], str | None]


@dataclass(frozen=True, eq=False, slots=True)
class Kind:
    """A kind of query: a package, whose module ``kind`` has it under the name `KIND`.

    Two modules of the package are loaded only when they are asked for: ``twin`` with the class
    `Twin`, the brute-force answer; and ``strategies`` with the function `queries`, which takes an
    id and a stream and returns a strategy of the package hypothesis.

    Attributes
    ----------
    package : str
        The name of the package, by which other processes find the kind.
    spec : type
        What a user writes.
    index : type
        What answers it.
    clause : Clause
        How SQL says it.
    colours : mapping from event to colour
        Of lines that tell of the kind's events: an ANSI colour such as green, or bold green.
    sample : function
        Takes a stream and the number of a round; returns queries, with other ids in each round,
        that bring out what the index does with few. They compile its loops.
    crowd : function, optional
        Takes a stream of two attributes; returns the queries that bring out the rest.
    questions : mapping from name to Question
        What its queries are asked at any time.
    listed : Listed, optional
    once_a_batch : function
        Tells of a query whether it tells at most one thing a batch, so that it depends on batches.
    """

    package: str
    spec: type[Query]
    index: type[KindIndex]
    clause: Clause
    colours: Mapping[str, str]
    sample: Callable[[Stream, int], Iterable[Query]]
    crowd: Callable[[Stream], Iterable[Query]] = lambda stream: ()
    questions: Mapping[str, Question] = field(default_factory=dict)
    listed: Listed | None = None
    once_a_batch: Callable[[Any], bool] = lambda query: False

    @property
    def name(self) -> str:
        """The name in notices, tables and statistics."""
        return self.spec.kind

    @property
    def twin(self) -> type[Twin]:
        """The brute-force answer."""
        twin: type[Twin] = import_module(f"{self.package}.twin").Twin
        return twin

    def strategy(self, query_id: str, stream: Stream) -> SearchStrategy[Query]:
        """Return queries of this kind that fit a stream; needs the package hypothesis."""
        drawn: SearchStrategy[Query] = import_module(f"{self.package}.strategies").queries(
            query_id, stream
        )
        return drawn

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel by reference: whoever gets the kind imports, and so knows, it."""
        return kind_in, (self.package,)


def kind_in(package: str) -> Kind:
    """Return the kind of a package; it is known from now on.

    Examples
    --------
    >>> kind_in("everquery.kinds.range").name
    'range'
    """
    from everquery.kinds.known import register

    kind: Kind = import_module(f"{package}.kind").KIND
    return register(kind)
