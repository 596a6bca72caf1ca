"""The stateful stage of a job, and what all such stages share.

Spark starts a process with every query, on the driver, only to ask what state there is. What runs
shards is therefore loaded by the first rows that come.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

if TYPE_CHECKING:
    from everquery.spark.shard_work import ShardWork

_DRIVER = "pyspark.sql.streaming.transform_with_state_driver_worker"
_NAME = StructType([StructField("name", StringType(), False)])
_VALUE = StructType([StructField("value", BinaryType(), False)])


class _StateStore:
    """The state of one shard in Spark's store."""

    def __init__(self, state: Any) -> None:  # noqa: ANN401 - a MapState of pyspark, which has no types
        self._state = state

    def get(self, name: str) -> bytes | None:
        found = self._state.getValue((name,))
        return None if found is None else found[0]

    def put(self, name: str, value: bytes) -> None:
        self._state.updateValue((name,), (value,))

    def remove(self, name: str) -> None:
        self._state.removeKey((name,))


class StatefulStage(StatefulProcessor):
    """A stage whose state is values by name."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Arrive in another process."""
        vars(self).update(state)
        _silence_driver()

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Get hold of the state; called for every task, and once on the driver."""
        self._store = _StateStore(handle.getMapState("store", _NAME, _VALUE))

    def close(self) -> None:
        """Nothing is open."""


class RunShards(StatefulStage):
    """Packed rows of a shard to notices, with all state in Spark's store."""

    def __init__(self, work: ShardWork) -> None:
        self._packed = pickle.dumps(work)
        self._work: ShardWork | None = None

    def handleInputRows(
        self,
        key: Any,  # noqa: ANN401 - Spark's types
        rows: Iterator[Any],
        timerValues: Any,  # noqa: ANN401
    ) -> Iterator[Row]:
        """Run one batch of one shard."""
        if self._work is None:
            self._work = self._load()
            self._work.begin()
        yield from self._work.run(key[0], rows, self._store)

    def _load(self) -> ShardWork:
        work: ShardWork = pickle.loads(self._packed)
        return work


def _silence_driver() -> None:
    """Drop what is printed from now on, if this process only tells Spark what state there is.

    pyspark says there, at each start of a query, what it is about to do.
    """
    if getattr(sys.modules["__main__"].__spec__, "name", None) == _DRIVER:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
