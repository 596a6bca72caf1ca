"""An engine that calls back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from everquery.engine.callbacks import Callback, Callbacks
from everquery.engine.notice import Notice
from everquery.engine.registration import Registration
from everquery.shard import Shard

if TYPE_CHECKING:
    from everquery.registry import Registry


class Listening(Registration):
    """A shard behind a lock, and the functions that hear what it tells.

    The parameters are those of `Registration`.
    """

    def __init__(
        self, shard: Shard, registry: Registry | None, *, lazy: bool, read_only: bool
    ) -> None:
        super().__init__(shard, registry, lazy=lazy, read_only=read_only)
        self._callbacks = Callbacks()

    def on(
        self, queries: str | Mapping[str, str], function: Callable[[Notice], object]
    ) -> Callback:
        """Call a function with each notice of some queries, from the next one on.

        It is called before `process` (or `advance`, `flush`, `expire`) returns, once the engine is
        done with the batch, notice by notice and in their order. It may call the engine; what that
        tells comes after. What it raises is counted (``stats()["failed_callbacks"]``) and logged
        (``everquery.engine``), and changes nothing. Callbacks are not in snapshots.

        Parameters
        ----------
        queries : str or mapping from str to str
            The id of a query or of a composite, which need not be live yet; or labels, all of
            which a query must have (none at all: every query).
        function : callable
            Takes a `Notice`, which has the columns as attributes.

        Returns
        -------
        Callback
            Its ``off()`` ends the calls.

        Examples
        --------
        >>> import everquery as eq
        >>> engine = eq.Engine(eq.Stream("trades", key="symbol", attributes=["price"]))
        >>> engine.register(eq.Border("band", {"price": (40, 50)}, labels={"team": "fx"}))
        >>> calls = engine.on({"team": "fx"}, lambda notice: print(notice.event, notice.price))
        >>> notices = engine.process([{"symbol": "IBM", "price": 45}])
        enter 45.0
        >>> calls.off()
        """
        return self._callbacks.add(queries, function)

    def _told(self, notices: pa.Table) -> pa.Table:
        """Call who listens, outside the lock: a callback may call the engine."""
        self._callbacks.call()
        return notices
