"""Find the queries that make a batch fail, so that all others can go on."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set

from everquery.errors import InvalidBatchError, RegistryError, SnapshotError

Named = tuple[str, str]  # kind and id

# What is never a query's fault.
_OTHERS = (InvalidBatchError, SnapshotError, RegistryError, MemoryError, OSError)


class Quarantine:
    """A search for culprits by halves.

    Parameters
    ----------
    error : Exception
        What happened with all queries.
    rehearse : function
        Does the work again without some queries, by id, and raises if that fails.
    """

    def __init__(self, error: Exception, rehearse: Callable[[Set[str]], None]) -> None:
        self._error = error
        self._rehearse = rehearse

    def culprits(
        self, new: Sequence[Named], old: Callable[[], Sequence[Named]]
    ) -> dict[Named, str]:
        """Return the queries without which the work can be done, and what each of them causes.

        Those that have just come are suspected first.
        """
        if isinstance(self._error, _OTHERS):
            raise self._error
        found = self._among(new)
        if not found:
            found = self._among([*new, *old()])
        if not found:
            raise self._error
        return found

    def _among(self, suspects: Sequence[Named]) -> dict[Named, str]:
        everyone = frozenset(query_id for _, query_id in suspects)
        if not suspects or self._failure(everyone) is not None:
            return {}
        found: dict[Named, str] = {}
        waiting = [list(suspects)]
        while waiting:
            some = waiting.pop()
            failure = self._failure(everyone - {query_id for _, query_id in some})
            if failure is None:
                continue
            if len(some) == 1:
                found[some[0]] = f"{type(failure).__name__}: {failure}"
            else:
                waiting += [some[len(some) // 2 :], some[: len(some) // 2]]
        return found

    def _failure(self, left_out: Set[str]) -> Exception | None:
        try:
            self._rehearse(left_out)
        except Exception as failure:  # that it fails is the finding
            return failure
        return None
