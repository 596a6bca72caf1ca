"""The rows of a window, as of some moment."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from everquery.core.arrays import Int64s
from everquery.core.times import is_zoned, nanoseconds_of
from everquery.errors import InvalidBatchError, InvalidQueryError, RowsGoneError
from everquery.kinds.select.plan import Bound, Plan
from everquery.kinds.select.store import RowStore
from everquery.queries.spans import misfit
from everquery.state.said_times import span_in_units


class Moment(NamedTuple):
    """What an answer is as of: so many rows, and so far in time.

    Attributes
    ----------
    rows : int
        The number of the next row.
    now : number or None
        None where the stream has no time, or none yet.
    """

    rows: int
    now: Any = None


@dataclass(frozen=True, slots=True)
class Window:
    """Rows from one number to before another; of these, only those of some times.

    Attributes
    ----------
    begin, end : int
    first_time, last_time : number or None
        Where times went back: what the rows' times must be between, both included.
    """

    begin: int
    end: int
    first_time: Any = None
    last_time: Any = None

    def narrow(self, store: RowStore, rows: Int64s) -> Int64s:
        """Return those of its rows whose times are in the window."""
        if self.first_time is None and self.last_time is None:
            return rows
        times = store.column("time", rows)
        kept = np.ones(rows.size, np.bool_)
        if self.first_time is not None:
            kept &= times >= self.first_time
        if self.last_time is not None:
            kept &= times <= self.last_time
        return rows[kept]

    @property
    def is_piece(self) -> bool:
        """Whether all its rows are in it."""
        return self.first_time is None and self.last_time is None


def in_units(amount: Any, kind: pa.DataType, column: str) -> int | float:  # noqa: ANN401 - a number or text
    """Return a time that a window names in the unit of a stream's times."""
    unit = nanoseconds_of(kind)
    if not isinstance(amount, str):
        if unit is not None:
            raise InvalidQueryError(
                f"the window names {amount!r}, and {column} has type {kind}; give a text such as"
                " '2026-01-31T12:00:00'"
            )
        return amount  # type: ignore[no-any-return]
    if unit is None:
        raise InvalidQueryError(
            f"the window names {amount!r}, and {column} has type {kind}; give a number"
        )
    moment = datetime.fromisoformat(amount)
    if is_zoned(kind):
        moment = moment.replace(tzinfo=moment.tzinfo or UTC)
        since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    else:
        since = moment.replace(tzinfo=None) - datetime.combine(
            date(1970, 1, 1), datetime.min.time()
        )
    return since // timedelta(microseconds=1) * 1_000 // unit


def time_of(bound: Bound, now: Any, kind: pa.DataType, column: str) -> Any:  # noqa: ANN401 - numbers
    """Return the time that a bound stands for, None if it has no limit."""
    match bound.kind:
        case "now":
            return now
        case "ago":
            return now - _span_in_units(bound, kind, column)
        case "time":
            return in_units(bound.amount, kind, column)
        case _:
            return None


def _span_in_units(bound: Bound, kind: pa.DataType, column: str) -> int | float:
    assert not isinstance(bound.amount, str)
    try:
        return span_in_units(bound.amount, kind, column)
    except InvalidBatchError:
        reason = misfit("the span of its window", bound.amount, kind)
        raise InvalidQueryError(reason) from None


def misfit_of_times(plan: Plan, kind: pa.DataType, column: str) -> str | None:
    """Return why a plan's window can't be one of times of a type, or None."""
    try:
        for bound in (plan.begin, plan.end):
            time_of(bound, 0, kind, column)
    except InvalidQueryError as error:
        return str(error)
    return None


def window_of(
    plan: Plan,
    store: RowStore,
    moment: Moment,
    kind: pa.DataType | None,
    column: str | None,
    *,
    partial: bool = False,
) -> Window:
    """Return the rows of a plan's window as of a moment.

    Raises
    ------
    RowsGoneError
        If rows of it are kept no more, unless a partial answer will do.
    """
    if plan.by_rows or kind is None or moment.now is None or column is None:
        begin = _row_of(plan.begin, moment.rows, 0)
        end = min(_row_of(plan.end, moment.rows, moment.rows), moment.rows)
        asked = plan.begin.kind != "oldest" and not partial and begin < end
        whole = max(store.first, store.whole)
        if asked and begin < whole and store.lost is not None:
            raise _gone(plan, f"row {begin:,}", f"what follows from row {whole:,} on")
        return Window(max(begin, store.first), max(end, begin, store.first))
    low = time_of(plan.begin, moment.now, kind, column)
    high = time_of(plan.end, moment.now, kind, column)
    if low is not None and not partial and store.lost is not None and store.lost >= low:
        raise _gone(plan, f"time {low}", f"what came after time {store.lost}")
    begin, end = store.first, max(moment.rows, store.first)
    if store.ordered:
        if low is not None:
            begin = store.place_of_time(low, after=False)
        if high is not None:
            end = min(store.place_of_time(high, after=True), moment.rows)
        return Window(begin, max(begin, end))
    return Window(begin, end, low, high)


def _row_of(bound: Bound, rows: int, limit: int) -> int:
    match bound.kind:
        case "rows_ago":
            return max(0, rows - int(bound.amount))  # type: ignore[arg-type]
        case "row":
            return int(bound.amount)  # type: ignore[arg-type]
        case "now":
            return rows
        case _:
            return limit


def _gone(plan: Plan, asked: str, kept: str) -> RowsGoneError:
    return RowsGoneError(
        f"the window BEGIN {plan.begin} END {plan.end} asks for rows from {asked} on, and only"
        f" {kept} is kept; keep more (Stream(keep=...)), ask for less, or take what is there with"
        " partial=True"
    )


def rows_needed(plan: Plan, store: RowStore, kind: pa.DataType | None) -> int:
    """Return the first row that a plan needs from now on."""
    if plan.begin.kind == "rows_ago":
        return max(store.first, store.end - int(plan.begin.amount))  # type: ignore[arg-type]
    if plan.begin.kind == "row":
        return max(store.first, int(plan.begin.amount))  # type: ignore[arg-type]
    if plan.begin.kind == "now":
        return store.end if plan.by_rows else _at_or_after(store, store.reach)
    if plan.begin.kind == "oldest" or kind is None or store.reach is None:
        return store.first
    return _at_or_after(store, time_of(plan.begin, store.reach, kind, "time"))


def _at_or_after(store: RowStore, time: Any) -> int:  # noqa: ANN401 - a number
    """Return the first row that is not before a time."""
    if time is None:
        return store.first
    if store.ordered:
        return store.place_of_time(time, after=False)
    found = np.flatnonzero(store.times() >= time)
    return store.first + int(found[0]) if found.size else store.end
