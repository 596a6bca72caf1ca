"""Windows: so much time, so many rows, or so far in an index attribute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from everquery.core.spans import BadSpanError, read_span
from everquery.core.times import nanoseconds_of
from everquery.errors import InvalidNetworkError
from everquery.network.expressions.types import UNKNOWN, is_number, word
from everquery.network.rows import RowType, whole

TIME, ROWS, DISTANCE = "time", "rows", "distance"
HOW = "write {time: 60}, {rows: 100}, or {distance: 5, on: column}"
Index = npt.NDArray[Any]


@dataclass(frozen=True)
class Window:
    """The size of a window, by an index: time, position or an ascending attribute.

    Parameters
    ----------
    time : number, str or timedelta
        A number is in the unit of the time column; seconds, where that holds timestamps.
    rows : int
    distance : number
        How far in the column `on`.
    on : str
        For a distance: the column, which ascends.

    Examples
    --------
    >>> Window(time=60).form()
    {'time': 60}
    """

    time: Any = None
    rows: int | None = None
    distance: float | None = None
    on: str | None = None

    def __post_init__(self) -> None:
        given = [name for name in (TIME, ROWS, DISTANCE) if getattr(self, name) is not None]
        if len(given) != 1:
            raise InvalidNetworkError(
                f"a window has one size, and this has {given or 'none'}; {HOW}"
            )
        size = getattr(self, given[0])
        if self.time is not None:
            try:
                read_span(self.time)
            except BadSpanError as error:
                raise InvalidNetworkError(f"a window of time {self.time!r}: {error}") from None
        elif isinstance(size, bool) or not isinstance(size, int if self.rows else (int, float)):
            raise InvalidNetworkError(f"a window of {given[0]} {size!r}; it takes a number; {HOW}")
        elif not 0 < size < float("inf"):
            raise InvalidNetworkError(f"a window of {given[0]} {size!r} must be positive")
        if (self.distance is None) != (self.on is None):
            raise InvalidNetworkError(f"a window by distance names its column in `on`; {HOW}")

    @staticmethod
    def read(form: Any) -> Window:  # noqa: ANN401 - whatever a file has
        """Return a window from its form in YAML."""
        if isinstance(form, Window):
            return form
        known = {TIME, ROWS, DISTANCE, "on"}
        if not isinstance(form, Mapping) or not set(form) <= known:
            raise InvalidNetworkError(f"{form!r} is no window; {HOW}")
        return Window(**form)

    def form(self) -> dict[str, Any]:
        """Return it as YAML has it."""
        fields = {TIME: self.time, ROWS: self.rows, DISTANCE: self.distance, "on": self.on}
        return {name: value for name, value in fields.items() if value is not None}

    @property
    def by(self) -> str:
        """The kind of index: time, rows or distance."""
        return TIME if self.time is not None else ROWS if self.rows is not None else DISTANCE

    def column(self, rows: RowType, arrow: str) -> str | None:
        """Return the column that is the index; None for positions.

        Raises
        ------
        InvalidNetworkError
            If the rows have none, or one that is no number.
        """
        if self.by == ROWS:
            return None
        name = rows.time if self.by == TIME else self.on
        if name is None or name not in rows.columns:
            what = "a time" if self.by == TIME else f"the index attribute {self.on!r}"
            raise InvalidNetworkError(
                f"the window needs {what}, and arrow {arrow} has {rows}"
                + (", none of which is the time" if self.by == TIME else "")
            )
        kind = rows.columns[name]
        if self.by == DISTANCE and not is_number(kind):
            raise InvalidNetworkError(
                f"the index attribute {name!r} is a {word(kind)} on arrow {arrow}; it must be"
                " a number"
            )
        if self.by == TIME and kind != UNKNOWN:
            self.size(kind)
        return name

    def size(self, kind: pa.DataType | None = None) -> float:
        """Return the size in units of a column of this type."""
        if self.by != TIME:
            found = self.rows if self.rows is not None else self.distance
            assert found is not None
            return found
        span = read_span(self.time)
        unit = None if kind is None else nanoseconds_of(kind)
        if unit is None:
            if isinstance(span, timedelta):
                raise InvalidNetworkError(
                    f"a window of time {self.time!r} on a time column of numbers; give a number in"
                    " the column's unit"
                )
            return span
        if not isinstance(span, timedelta):
            span = timedelta(seconds=span)
        size, rest = divmod(span // timedelta(microseconds=1) * 1000, unit)
        if rest or not size:
            raise InvalidNetworkError(
                f"a window of time {self.time!r} is no whole number of the time column's units"
            )
        return size


def index_values(column: Any) -> Index:  # noqa: ANN401 - an Arrow column
    """Return an index column as numbers: float64 for floats, else int64."""
    array = whole(column)
    if pa.types.is_floating(array.type):
        return np.asarray(array.cast(pa.float64()).to_numpy(zero_copy_only=False))
    if pa.types.is_date32(array.type):
        array = array.cast(pa.int32())
    return np.asarray(array.cast(pa.int64()).to_numpy(zero_copy_only=False))


def index_column(values: Index, kind: pa.DataType) -> pa.Array:
    """Return numbers as an index column of a type again."""
    if pa.types.is_floating(kind) or pa.types.is_null(kind):
        return pa.array(values)
    if pa.types.is_date32(kind):
        return pa.array(values.astype(np.int32)).view(kind)
    array = pa.array(values.astype(np.int64))
    return array if pa.types.is_integer(kind) else array.view(kind)


def multiple_below(values: Index, size: float) -> Index:
    """Return the largest multiple of a size that is not above each value."""
    if values.dtype == np.int64 and float(size).is_integer():
        return np.asarray(values - values % int(size))
    starts = np.floor(values / size) * size
    # Rounding may put a start just above its value, or the next one just not above it.
    starts = np.where(starts > values, starts - size, starts)
    return np.asarray(np.where(starts + size <= values, starts + size, starts))
