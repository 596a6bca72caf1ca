"""Find the queries that make a batch fail, so that all others can go on.

What fails may as well be an error of ours, which no query is to blame for. So the search gives up,
and the batch fails with what happened, if the work fails without any query too, or if more
queries fail alone than can be a coincidence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set

from everquery.errors import InvalidBatchError, RegistryError, SnapshotError
from everquery.queries.changes import Change, Deregister
from everquery.registry.quarantined import Quarantined, as_json, from_json
from everquery.sharding.journal import Store
from everquery.sharding.routing import queries_of

Named = tuple[str, str]  # kind and id

# Somebody's query may be a case that nobody thought of, and then so may be a few like it. If more
# fail in one batch, then what they meet is broken, not they: taking them out would empty the set.
MOST_A_BATCH = 5
# Of one shard. A query set that loses some in batch after batch needs somebody to look at it.
MOST_IN_ALL = 50
MOST_LISTED = 100  # of one shard; a table of queries with keys of a wrong type may be large
LONGEST_REASON = 300  # characters: it travels with every telling

# What is never a query's fault.
_OTHERS = (InvalidBatchError, SnapshotError, RegistryError, MemoryError, OSError)
_CELL = "quarantined"


class Quarantine:
    """A search for culprits by halves.

    Parameters
    ----------
    error : Exception
        What happened with all queries.
    rehearse : function
        Does the work again without some queries, by id, and raises if that fails.
    already : int
        How many queries have been taken out before.
    """

    def __init__(
        self, error: Exception, rehearse: Callable[[Set[str]], None], *, already: int = 0
    ) -> None:
        self._error = error
        self._rehearse = rehearse
        self._already = already

    def culprits(
        self, new: Sequence[Named], old: Callable[[], Sequence[Named]]
    ) -> dict[Named, str]:
        """Return the queries without which the work can be done, and what each of them causes.

        Those that have just come are suspected first.

        Raises
        ------
        Exception
            The error itself, with a note that says why no query is taken out for it.
        """
        if isinstance(self._error, _OTHERS):
            raise self._error
        everyone = [*new, *old()]
        if not everyone or self._failure(_ids(everyone)) is not None:
            raise self.blameless("it happens without any query, too")
        found = self._among(new) or self._among(everyone)
        if not found:
            raise self.blameless("no query causes it by itself")
        if self._already + len(found) > MOST_IN_ALL:
            raise self.blameless(
                f"{self._already} queries of this shard are quarantined already, and {MOST_IN_ALL}"
                " are the most; see `everquery query quarantined`, and drop them or give them back"
            )
        return found

    def blameless(self, why: str) -> Exception:
        """Return the error, with a note that no query is taken out for it."""
        self._error.add_note(f"everquery: no query is quarantined for this: {why}")
        return self._error

    def _among(self, suspects: Sequence[Named]) -> dict[Named, str]:
        everyone = _ids(suspects)
        if not suspects or self._failure(everyone) is not None:
            return {}
        found: dict[Named, str] = {}
        waiting = [list(suspects)]
        while waiting:
            some = waiting.pop()
            failure = self._failure(everyone - _ids(some))
            if failure is None:
                continue
            if len(some) > 1:
                waiting += [some[len(some) // 2 :], some[: len(some) // 2]]
                continue
            found[some[0]] = f"{type(failure).__name__}: {failure}"[:LONGEST_REASON]
            if len(found) > MOST_A_BATCH:
                raise self.blameless(
                    f"more than {MOST_A_BATCH} queries fail, each by itself, which is no fault of"
                    f" theirs; among them {', '.join(repr(name) for _, name in found)}"
                )
        return found

    def _failure(self, left_out: Set[str]) -> Exception | None:
        try:
            self._rehearse(left_out)
        except Exception as failure:  # that it fails is the finding
            return failure
        return None


def _ids(queries: Sequence[Named]) -> frozenset[str]:
    return frozenset(query_id for _, query_id in queries)


class HeldOut:
    """The queries that a shard runs without, in a value of its store.

    A query that is dropped, or registered again, is none of them any more.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        stored = store.get(_CELL)
        self._queries = {query.id: query for query in from_json(stored or b"[]")}
        self._stored = self.all()

    @property
    def failed(self) -> int:
        """How many of them made work fail."""
        return sum(query.failed for query in self._queries.values())

    def all(self) -> tuple[Quarantined, ...]:
        """Return all of them."""
        return tuple(self._queries.values())

    def note(self, change: Change) -> None:
        """Take in a change of the log."""
        if not self._queries:
            return
        if isinstance(change, Deregister):
            named = change.ids.to_pylist()
        else:
            named = [name for _, name in queries_of(change)]
        for name in named:
            self._queries.pop(name, None)

    def add(self, reasons: Mapping[Named, str], position: int, *, failed: bool) -> None:
        """Note queries, given by kind and id, that are taken out at a position of the log."""
        for (kind, name), reason in reasons.items():
            if failed or len(self._queries) < MOST_LISTED:
                query = Quarantined(name, kind, reason[:LONGEST_REASON], position, failed)
                self._queries[name] = query

    def save(self) -> None:
        """Write them, if they are others than before."""
        if self.all() != self._stored:
            self._store.put(_CELL, as_json(self.all()).encode())
