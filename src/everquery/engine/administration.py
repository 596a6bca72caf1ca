"""An engine's registry, the quotas of owners, and queries that jobs run without."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pyarrow as pa

from everquery.engine.arguments import ids_of
from everquery.engine.query_log import QueryLog
from everquery.engine.quotas import check_quota
from everquery.engine.remembering import Remembering
from everquery.shard import Shard

if TYPE_CHECKING:
    from everquery.registry import Registry


class Administration(Remembering):
    """A shard behind a lock, and the log of its changes.

    Parameters
    ----------
    shard : Shard
    registry : Registry or None
    lazy, read_only : bool
        Those of `everquery.Engine`.
    """

    def __init__(
        self, shard: Shard, registry: Registry | None, *, lazy: bool, read_only: bool
    ) -> None:
        super().__init__(shard)
        self._log = QueryLog(registry, shard, lazy=lazy, read_only=read_only)

    @property
    def read_only(self) -> bool:
        """Whether the registry is only read."""
        return self._log.read_only

    @property
    def position(self) -> int:
        """The version of the query set: how far the registry's log has been followed."""
        return self._log.position

    @property
    def left_out(self) -> list[str]:
        """The live queries of the registry that this engine does without.

        They are about attributes that were added to the stream since it was opened.
        """
        return sorted(self._log.left_out)

    def refresh(self) -> int:
        """Follow the registry's log to its end; return how many queries its changes name.

        Raises
        ------
        RegistryError
            If the registry is away, damaged (`RegistryDamagedError`), or older than this engine
            (`RegistryLostError`).
        """
        with self._lock:
            return self._log.refresh()

    def compact_registry(self) -> None:
        """Replace the registry's log by the queries that are live: reopening takes less time."""
        with self._lock:
            self._log.compact()

    def hold_ends(self) -> None:
        """Let the registry hear that queries have ended only when `report_ends` is called.

        Who saves snapshots calls that behind each. A query that ended after the last one is then
        still in the registry for the engine that begins with it.
        """
        with self._lock:
            self._log.hold_ends = True

    def report_ends(self) -> None:
        """Write into the registry which queries have ended by themselves; see `hold_ends`.

        If the registry does not answer, a later call does it.
        """
        with self._lock:
            self._log.report_later(held=True)

    def set_quota(self, owner: str | None, limit: int | None) -> None:
        """Say how many live queries an owner may have.

        Parameters
        ----------
        owner : str or None
            None is the default, for all owners without a quota of their own.
        limit : int or None
            None removes the quota. Queries that are live already stay.

        Examples
        --------
        >>> import everquery as eq
        >>> engine = eq.Engine(eq.Stream("trades", attributes=["price"]))
        >>> engine.set_quota("ann", 1)
        >>> engine.register(eq.Range("a", {"price": (0, 10)}, owner="ann"))
        >>> engine.register(eq.Range("b", {"price": (0, 10)}, owner="ann"))
        Traceback (most recent call last):
        everquery.errors.QuotaError: owner 'ann' has 1 live queries and a quota of 1, ...
        """
        check_quota(owner, limit)
        with self._lock:
            self._log.set_quota(owner, limit)

    def quotas(self) -> dict[str | None, int]:
        """Return how many live queries each owner may have; None is the default for all others."""
        with self._lock:
            return self._log.quotas()

    def live_of(self, owner: str) -> int:
        """Return how many live queries an owner has."""
        with self._lock:
            return self._shard.queries.live_of(owner)

    # -- queries that Spark jobs run without --------------------------------------------------

    def quarantined(self) -> pa.Table:
        """Return the live queries that Spark jobs run without: id, kind, reason, position, ...

        One row for each ``job`` and ``shard`` that has taken a query out. The embedded runtime
        takes out none.
        """
        with self._lock:
            return self._log.quarantined()

    def give_back(self, query_id: str | Iterable[str]) -> None:
        """Let Spark jobs try a quarantined query, or several, again.

        For every runtime it ends and is registered anew, as it was.

        Raises
        ------
        UnknownQueryError
            If one of them is not quarantined; nothing has changed then.
        """
        ids = ids_of(query_id).to_pylist()
        with self._lock:
            self._log.give_back(ids)
