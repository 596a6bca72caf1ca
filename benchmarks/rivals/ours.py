"""everquery itself, by the calls that a user makes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import everquery as eq
from benchmarks.rivals.contestant import ENTER, FIRE, LEAVE, MATCH, Contestant, Told
from benchmarks.rivals.work import Events, Work

WHAT = {"enter": ENTER, "leave": LEAVE, "match": MATCH, "fire": FIRE}


class Ours(Contestant):
    """`Engine.process`, with all columns of the notices."""

    name = "everquery"
    plays_all = True

    def __init__(self, work: Work) -> None:
        self._engine = eq.Engine(work.stream)
        self._engine.register_table(work.table(), kind=work.kind)
        self._queries = work.queries
        first = work.first()
        if first is not None:
            self._engine.process(first.arrow())

    def prepare(self, events: Events) -> Any:  # noqa: ANN401 - an Arrow batch
        """Return an Arrow batch."""
        return events.arrow()

    def process(self, prepared: Any) -> Any:  # noqa: ANN401
        """Return the notices."""
        return self._engine.process(prepared)

    def count(self, found: pa.Table) -> int:
        """Return the number of notices."""
        return int(found.num_rows)

    def told(self, found: pa.Table, events: Events) -> Told:
        """Return the notices as numbers."""
        ids = found["query_id"].cast(pa.string())
        query = pc.utf8_slice_codeunits(ids, 1).cast(pa.int64()).to_numpy()
        what = [WHAT[each] for each in found["event"].cast(pa.string()).to_pylist()]
        return Told.sorted(query, np.array(what, np.int64), found["value"].to_numpy())

    def register(self, key: int, low: float, high: float) -> None:
        """Register one query."""
        name = f"q{self._queries:08}"
        self._queries += 1
        self._engine.register(eq.Border(name, {"value": (low, high)}, key=key))

    def close(self) -> None:
        """Close the engine."""
        self._engine.close()


class Pushed(Ours):
    """`Engine.push`: one event as a mapping in, a list of light notices out."""

    name = "everquery, push"
    largest_batch = 1

    def prepare(self, events: Events) -> dict[str, Any]:
        """Return the one event."""
        return {name: column.item() for name, column in events.columns().items()}

    def process(self, prepared: Any) -> Any:  # noqa: ANN401 - an event
        """Return the notices."""
        return self._engine.push(prepared)

    def count(self, found: Any) -> int:  # noqa: ANN401 - a list of notices
        """Return the number of notices."""
        return len(found)

    def told(self, found: Any, events: Events) -> Told:  # noqa: ANN401
        """Return the notices as numbers."""
        query = np.array([int(notice.query_id[1:]) for notice in found], np.int64)
        what = np.array([WHAT[notice.event] for notice in found], np.int64)
        return Told.sorted(query, what, np.full(query.size, events.value[0]))
