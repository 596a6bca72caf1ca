"""What an engine can be asked of its queries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from everquery.engine.arguments import ids_of
from everquery.engine.calls import WholeCall
from everquery.engine.composites import with_parts
from everquery.engine.listing import filtered, list_queries
from everquery.engine.results import Answer, Explanation
from everquery.errors import InvalidQueryError
from everquery.queries.changes import Deregister
from everquery.queries.spec import LONGEST_KEY, Key, bad_text
from everquery.shard import Shard
from everquery.stream import Stream


class Questions:
    """A shard behind a lock, and what can be asked of its queries.

    Parameters
    ----------
    shard : Shard
    """

    def __init__(self, shard: Shard) -> None:
        self._state = shard
        self._lock = WholeCall()

    @property
    def stream(self) -> Stream:
        """The stream that the queries are about."""
        return self._state.stream

    @property
    def _shard(self) -> Shard:
        """All queries and state; an error if an earlier call failed while it was changing them."""
        return self._state.whole()

    def queries(
        self,
        *,
        like: str | None = None,
        owner: str | None = None,
        labels: Mapping[str, str] | None = None,
        kind: str | None = None,
    ) -> pa.Table:
        """Return live queries in order of registration: all, or those that all filters hold for.

        Columns: id, kind, key, attribute (of queries without box), emit (the events that it tells
        of: ``enter,leave``), state (``live`` or ``paused``), owner, labels (a JSON object), the
        fields of the kinds (see `register_table`), spans of time as SQL writes them, and for each
        attribute its half-open range, null where there is no limit.

        Parameters
        ----------
        like : str, optional
            A pattern for the id: ``%`` is anything, ``_`` one character.
        owner, kind : str, optional
        labels : mapping, optional
            Labels that a query has, perhaps among others.
        """
        for what, value in (("like", like), ("owner", owner), ("kind", kind)):
            reason = value and bad_text(value, what, LONGEST_KEY)
            if reason:
                raise InvalidQueryError(reason)
        with self._lock:
            table = list_queries(self._shard)
        return filtered(table, like=like, owner=owner, labels=labels, kind=kind)

    def parts(self, query_id: str | Iterable[str]) -> list[str]:
        """Return the ids of the live queries that an id, or several, stands for.

        The id of a live query stands for that query. Any other id stands for the parts of the
        composite with that id that are still live.

        Raises
        ------
        UnknownQueryError
            If an id stands for no live query.

        Examples
        --------
        >>> import everquery as eq
        >>> engine = eq.Engine(eq.Stream("calls", attributes=["ms"]))
        >>> engine.register(eq.Quantile("slow", "ms", phi=[0.5, 0.99], epsilon=0.005))
        >>> engine.parts("slow")
        ['slow[0.5]', 'slow[0.99]']
        >>> engine.deregister("slow")
        """
        with self._lock:
            ids = with_parts(self._shard, ids_of(query_id))
            self._shard.check(Deregister(ids))
            found: list[str] = ids.to_pylist()
            return found

    def progress(self, query_id: str, *, key: Key | None = None) -> int:
        """Return how much weight a threshold query has seen since it began, or last fired.

        If its total starts again every so often, that is since the period began in which the last
        event was that it counted.

        Parameters
        ----------
        key : str or int, optional
            The key whose total is wanted; needed if the query is by key.

        Raises
        ------
        UnknownQueryError
            If no live query has this id: one that has fired, and does not repeat, has ended.
        InvalidQueryError
            If the query is of another kind, or a key is missing, or one is given without need.

        Examples
        --------
        >>> import everquery as eq, pyarrow as pa
        >>> engine = eq.Engine(eq.Stream("trades", attributes=["price"], weight="shares"))
        >>> engine.register(eq.Threshold("sold", {"price": (100, 105)}, total=500))
        >>> notices = engine.process(pa.table({"price": [101.0, 99.0], "shares": [300, 300]}))
        >>> engine.progress("sold")
        300
        """
        ids_of(query_id)
        with self._lock:
            said = {} if key is None else {"key": key}
            seen: int = self._shard.ask("progress", query_id, **said)
            return seen

    def answer(self, query_id: str, *, key: Key | None = None) -> Any:  # noqa: ANN401 - below
        """Return the current answer to a query.

        For a composite, it is a tuple: the answers to its parts.

        Parameters
        ----------
        key : str or int, optional
            The key whose answer is wanted; needed if the query is by key.

        Raises
        ------
        UnknownQueryError
            If no live query has this id.
        InvalidQueryError
            If the query is of another kind, or a key is missing, or one is given without need.

        Examples
        --------
        >>> import everquery as eq, pyarrow as pa
        >>> engine = eq.Engine(eq.Stream("calls", attributes=["ms"]))
        >>> engine.register(eq.Quantile("median", "ms", phi=0.5, epsilon=0.01))
        >>> notices = engine.process(pa.table({"ms": [12.0, 48.0, 7.0]}))
        >>> engine.answer("median").value
        12.0
        """
        # Each kind has its own answers, and a composite has several.
        with self._lock:
            parts = self._parts(query_id)
            found = tuple(self._shard.ask("answer", part, key=key) for part in parts)
        return found[0] if parts == [query_id] else found

    def invoke(
        self,
        query_id: str,
        *,
        limit: int | None = None,
        after: str | None = None,
        since: str | None = None,
        partial: bool = False,
    ) -> pa.Table:
        """Return the answer of a select query over its window, as of now.

        It is the effect of all events and changes of queries so far, and of no others.

        Parameters
        ----------
        limit : int, optional
            Read a page of at most so many rows.
        after : str, optional
            Go on behind the page whose `place_of` this is, in the answer as it was then.
        since : str, optional
            Return what changed since the answer whose `place_of` this is: the column ``change``
            says ``insert``, ``delete`` or ``update``.
        partial : bool
            Answer from the rows that are kept, even if others of the window are gone.

        Raises
        ------
        RowsGoneError
            If rows of the window are kept no more.
        AnswerTooLargeError
            If it has too many rows to be given at once; see `limit`.
        UnknownQueryError
            If no live query has this id.

        Examples
        --------
        >>> import everquery as eq
        >>> engine = eq.Engine(eq.Stream("calls", key="host", attributes=["ms"]))
        >>> _ = engine.sql("CREATE STANDING QUERY slow AS SELECT host, ms FROM calls WHERE ms > 20"
        ...                " BEGIN NOW - 1000 ROWS END NOW")
        >>> notices = engine.process({"host": ["a", "b", "a"], "ms": [12.0, 48.0, 30.0]})
        >>> engine.invoke("slow").to_pylist()
        [{'host': 'b', 'ms': 48.0}, {'host': 'a', 'ms': 30.0}]
        """
        said = {"limit": limit, "after": after, "since": since, "partial": partial}
        return self.ask_invoke(query_id, said)

    def ask_invoke(self, query_id: str, said: Mapping[str, Any]) -> pa.Table:
        """Return the answer of a query; `said` may have what another stream brings to it."""
        with self._lock:
            found: pa.Table = self._shard.ask("invoke", query_id, **said)
            return found

    def ask_streams(self, query_id: str) -> tuple[str, ...]:
        """Return the streams that a query is about that is read on demand, its own first."""
        with self._lock:
            found: tuple[str, ...] = self._shard.ask("ask_streams", query_id)
            return found

    def needs_of_others(self) -> list[tuple[str, Any]]:
        """Return what queries here need of other streams: the stream, and what of it."""
        with self._lock:
            shard = self._shard
            shard.queries.settle()
            flags = shard.contents.catalog.flags
            found: list[tuple[str, Any]] = shard.ask_kind("needs_of_others", flags=flags)
            return found

    def keep_for_others(self, needs: list[Any]) -> None:
        """Keep what queries of other streams need."""
        with self._lock:
            self._shard.ask_kind("keep_for_others", plans=needs)

    def is_live(self, query_id: str) -> bool:
        """Tell whether a live query has this id."""
        with self._lock:
            return bool(self._shard.queries.live(ids_of(query_id))[0])

    def _parts(self, query_id: str) -> list[str]:
        """Return the ids of a composite's parts, or the one that is given."""
        found: list[str] = with_parts(self._shard, ids_of(query_id)).to_pylist()
        return found

    def quantiles(
        self,
        attribute: str | None = None,
        *,
        phi: Iterable[float],
        key: Key | None = None,
        last: int | None = None,
    ) -> list[Answer]:
        """Return any quantiles of rows for which a live quantile query keeps a summary.

        Parameters
        ----------
        attribute : str, optional
            Needed if there are quantile queries on several attributes.
        phi : iterable of numbers above 0 and up to 1
            The ranks, as shares.
        key : str or int, optional
            The key whose rows are meant; without one, the rows of all keys together.
        last : int, optional
            The window, as that of a query; without one, all rows.

        Raises
        ------
        InvalidQueryError
            If no live query keeps a summary of such rows, or a phi is out of bounds.

        Examples
        --------
        >>> import everquery as eq, pyarrow as pa
        >>> engine = eq.Engine(eq.Stream("calls", attributes=["ms"]))
        >>> engine.register(eq.Quantile("median", "ms", phi=0.5, epsilon=0.01))
        >>> notices = engine.process(pa.table({"ms": [12.0, 48.0, 7.0]}))
        >>> [answer.value for answer in engine.quantiles(phi=[0.25, 0.5, 1])]
        [7.0, 12.0, 48.0]
        """
        with self._lock:
            found: list[Answer] = self._shard.ask_kind(
                "quantiles", attribute=attribute, phi=phi, key=key, last=last
            )
            return found

    def explain(self, query_id: str) -> Explanation | Any:  # noqa: ANN401 - as `answer`
        """Return how a query is evaluated, and at what cost.

        For a composite, it is a tuple: an explanation for each part.
        """
        with self._lock:
            parts = self._parts(query_id)
            found = tuple(self._explain(part) for part in parts)
        return found[0] if parts == [query_id] else found

    def _explain(self, query_id: str) -> Explanation:
        kind, found = self._shard.explain(query_id)
        return Explanation(
            query_id=query_id,
            kind=kind,
            path=found.path,
            attributes=tuple(name for a in found.attributes if (name := self.stream.places[a])),
            candidate_share=found.share,
            cost_ns=found.nanoseconds,
            lane_queries=found.lane,
            segment_queries=found.segment,
            further=found.further,
        )
