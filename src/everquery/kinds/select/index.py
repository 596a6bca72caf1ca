"""The select kind: what is read and told of the rows that satisfy live queries."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from everquery.core.arrays import Int32s, Int64s
from everquery.core.parts import Part
from everquery.index.flags import LIVE, LIVE_MASK, Flags
from everquery.index.kind import Explained
from everquery.index.rows import Changed, NoticeColumn, Outcome, Said
from everquery.kinds.select.changes import net_changes
from everquery.kinds.select.matching import LAZY, TELLS_CHANGES, UNREAD, MatchedRows
from everquery.kinds.select.memory import memory_of
from everquery.kinds.select.plan import print_plan
from everquery.kinds.select.results import Held
from everquery.kinds.select.state import SelectPart
from everquery.kinds.select.store import RowStore
from everquery.kinds.select.windows import Moment


class SelectIndex(MatchedRows):
    """Matched rows, and what is read and told of them."""

    outcomes: ClassVar[tuple[Outcome, ...]] = (
        Outcome("match", bare=True),
        Outcome("insert"),
        Outcome("delete"),
        Outcome("update"),
    )
    columns: ClassVar[tuple[NoticeColumn, ...]] = (
        NoticeColumn("value", pa.float64(), "the aggregate"),
    )
    must_know_of_drops: ClassVar[bool] = True

    def tells_changes(self) -> bool:
        """Tell whether some query may tell how its answer changes."""
        return self._changing

    def net_changes(
        self,
        flags: Flags,
        now: Any,  # noqa: ANN401 - a number
        time_type: pa.DataType | None,
        said: Said,
    ) -> Changed | None:
        """Return how answers changed, of the queries that tell it and are not paused."""
        if self._new:
            self.read_plans(said)
        flags = flags[: self.plan.size]
        telling = np.flatnonzero(flags & TELLS_CHANGES)
        telling = telling[~self.joins_among(telling)]  # those are told with both streams
        self._changing = bool(telling.size)
        live = telling[flags[telling] & LIVE_MASK == LIVE].tolist()
        slots = np.array([slot for slot in live if self.is_fit(slot)], np.int64)
        if not slots.size:
            return None
        self.have_rows()
        if self.store is None:
            return None
        reach = self.store.reach
        if reach is not None and (now is None or reach > now):
            now = reach
        if isinstance(now, np.generic):
            now = now.item()
        self._meet(flags, now, time_type)
        moment = Moment(self.store.end, now)
        lazy = (flags[slots] & LAZY != 0).tolist()
        return net_changes(self, slots.tolist(), lazy, moment, time_type, said.stream)

    def mark_of(self, slot: int, query_id: str, keys: Callable[[], pa.Array]) -> int:
        """Return a print of what a query is and asks for; `keys` returns all keys by number."""
        if slot not in self._marks:
            (boxes,) = self.layers.find(np.array([slot], np.int32))
            key = keys()[int(boxes.key[0])].as_py() if boxes.shape.keyed else None
            said = [query_id, print_plan(self.plans[self.plan[slot]]), key]
            said += [boxes.shape.attributes, boxes.low[:, 0].tolist(), boxes.high[:, 0].tolist()]
            self._marks[slot] = zlib.crc32(repr(said).encode())
        return self._marks[slot]

    # -- answers ------------------------------------------------------------------------------

    def held(self, slot: int, *, lazy: bool) -> Held:
        """Return all rows that satisfy a query, as far as they are kept."""
        store = self.store
        assert store is not None
        held = self.results.held(slot)
        if held.upto < store.first:
            held.upto = store.first
        since = store.end if lazy else int(self.since[slot])
        if held.upto < since:
            held.extend(self.probe(slot, range(held.upto, min(since, store.end))))
            held.upto = since
        if not lazy and held.upto < store.end:
            self.results.catch_up(slot, held, store.end)
        return held

    def probe(self, slot: int, rows: range) -> Int64s:
        """Return the rows of a range that satisfy a query: a new query meets old rows."""
        store = self.store
        assert store is not None
        (boxes,) = self.layers.find(np.array([slot], np.int32))
        found: Int64s | None = None
        low, high = boxes.low[:, 0], boxes.high[:, 0]
        for place, attribute in enumerate(boxes.shape.attributes):
            if attribute < 0:
                continue
            if found is None:
                found = store.within(attribute, low[place], high[place], rows)
            else:
                values = store.values(attribute, found)
                kept = values >= low[place]
                if high[place] == high[place]:
                    kept &= values < high[place]
                found = found[kept]
        if found is None:
            found = np.arange(rows.start, rows.stop)
        if boxes.shape.keyed:
            found = found[store.column("key", found) == boxes.key[0]]
        return self._satisfying(int(self.plan[slot]), found, store)

    def _satisfying(self, plan: int, rows: Int64s, store: RowStore) -> Int64s:
        factors = self._factors
        if factors is None or not factors.some or not rows.size:
            return rows
        values = store.rows_of_values(rows)
        plans = np.full(rows.size, plan, np.int32)
        kept = factors.satisfied(plans, np.arange(rows.size), values)
        return rows[kept]

    def prepare(self, said: Said) -> None:
        """Take note of what new queries ask for."""
        self.read_plans(said)

    def explain(self, slot: int) -> Explained | None:
        """Return which structure finds a query, and what is kept for it."""
        found = super().explain(slot)
        if found is None or self.plan[slot] == UNREAD or self._stream is None:
            return found
        return replace(found, further=memory_of(self.plans[self.plan[slot]], self._stream))

    # -- state --------------------------------------------------------------------------------

    def parts(self, queries: Callable[[], Int32s], keys: Callable[[], int]) -> Sequence[Part]:
        """Return the rows that are kept."""
        return (SelectPart(self, queries, keys),)

    def nbytes(self) -> int:
        """Return the bytes of the structures."""
        rows = 0 if self.store is None else self.store.nbytes()
        return super().nbytes() + rows + self.results.nbytes()
