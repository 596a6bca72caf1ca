"""What connection points keep of their past, for boxes that attach later."""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa

from everquery.errors import InvalidNetworkError
from everquery.network.ends import ALL, Point
from everquery.network.expressions.types import UNKNOWN
from everquery.network.operator import Saved
from everquery.network.rows import BEGINNING, Flow, RowType, joined
from everquery.network.windows import Window, index_values

NOW, OLDEST = "now", "oldest"


class History:
    """The kept rows of a connection point, oldest first.

    What `rows` gives and what `add` takes later follow one another without gap or overlap.
    """

    def __init__(self, name: str, point: Point) -> None:
        self.name = name
        self._keep = point.keep
        self._pieces: list[pa.Table] = []
        self.clock: float = BEGINNING

    def __len__(self) -> int:
        return sum(piece.num_rows for piece in self._pieces)

    def add(self, flow: Flow, row_type: RowType) -> None:
        """Take in what passes, and forget what need not be kept any more."""
        self.clock = max(self.clock, flow.clock)
        if self._keep is None or not flow.rows.num_rows:
            return
        self._pieces.append(flow.rows)
        if self._keep == ALL:
            return
        if "rows" in self._keep:
            self._drop(len(self) - self._keep["rows"])
            return
        if row_type.time is None:
            raise InvalidNetworkError(
                f"point {self.name!r} keeps a span of time, and its rows have none: {row_type}"
            )
        oldest = self.clock - Window(time=self._keep["time"]).size(row_type.columns[row_type.time])
        while self._pieces:
            times = index_values(self._pieces[0].column(row_type.time))
            young = times >= oldest
            if young.all():
                break
            kept = self._pieces[0].filter(pa.array(young))
            self._pieces[0:1] = [kept] if kept.num_rows else []
            if kept.num_rows:
                break

    def _drop(self, excess: int) -> None:
        while excess > 0:
            first = self._pieces[0]
            cut = min(excess, first.num_rows)
            self._pieces[0:1] = [first.slice(cut)] if cut < first.num_rows else []
            excess -= cut

    def since(self, begin: Any, row_type: RowType) -> Flow:  # noqa: ANN401 - a word or a time
        """Return the past from a begin on: ``oldest``, ``now``, or a time.

        Raises
        ------
        InvalidNetworkError
            If the point keeps nothing, or its rows have no time to begin at.
        """
        if begin == NOW:
            return Flow(row_type.empty(), self.clock)
        if self._keep is None:
            raise InvalidNetworkError(
                f"point {self.name!r} keeps no history, so that nothing can begin in its past;"
                " give it `keep`, or attach with begin='now'"
            )
        rows = joined(self._pieces, row_type)
        if begin == OLDEST:
            return Flow(rows, self.clock)
        if row_type.time is None:
            raise InvalidNetworkError(f"point {self.name!r} has no time to begin at: {row_type}")
        bound = _bound(begin, row_type.columns[row_type.time])
        if not rows.num_rows:
            return Flow(rows, self.clock)
        times = index_values(rows.column(row_type.time))
        return Flow(rows.filter(pa.array(times >= bound)), self.clock)

    def save(self, row_type: RowType) -> Saved:
        """Return what is kept."""
        clock = self.clock if np.isfinite(self.clock) else str(self.clock)
        return Saved({"clock": clock}, {"rows": joined(self._pieces, row_type)})

    def load(self, saved: Saved) -> None:
        """Take a state that `save` gave."""
        clock = saved.values["clock"]
        self.clock = float(clock) if isinstance(clock, str) else clock
        rows = saved.tables["rows"]
        self._pieces = [rows] if rows.num_rows else []


def _bound(begin: Any, kind: pa.DataType) -> Any:  # noqa: ANN401 - a time, and a number of NumPy
    """Return a time as a number; of a type that no row has shown yet, any time will do."""
    try:
        if begin is None or isinstance(begin, bool):
            raise TypeError(begin)
        if kind == UNKNOWN:
            if not isinstance(begin, (int, float, date)):
                raise TypeError(begin)
            return None
        return index_values(pa.array([begin], kind))[0]
    except (pa.ArrowException, TypeError, OverflowError):
        told = "time" if kind == UNKNOWN else f"time of type {kind}"
        raise InvalidNetworkError(
            f"begin is {begin!r}; it is 'now', 'oldest' or a {told}"
        ) from None
