"""The stateful stage of a network's job, as Spark calls it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
from pyspark.sql import Row

from everquery.spark.run_shards import StatefulStage

if TYPE_CHECKING:
    from everquery.spark.network.work import NetworkWork

_PICKLE: Any = cloudpickle  # it has no types


class RunNetwork(StatefulStage):
    """Pieces of streams to rows of outputs, with all state in Spark's store."""

    def __init__(self, work: NetworkWork) -> None:
        self._packed = _PICKLE.dumps(work)  # boxes may have functions of the user's
        self._work: NetworkWork | None = None

    def handleInputRows(
        self,
        key: Any,  # noqa: ANN401 - Spark's types
        rows: Iterator[Any],
        timerValues: Any,  # noqa: ANN401
    ) -> Iterator[Row]:
        """Run one batch."""
        if self._work is None:
            self._work = _PICKLE.loads(self._packed)
        yield from self._work.run(rows, self._store)
