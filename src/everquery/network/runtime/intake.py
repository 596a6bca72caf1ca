"""Where batches come in: the columns of the stream, in time order, with the clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from everquery.errors import InvalidBatchError
from everquery.network.boxes.windowed import LATE, plain_number
from everquery.network.ends import Source
from everquery.network.expressions.types import NUMBER, UNKNOWN, word
from everquery.network.operator import Letters, Saved, without_nan
from everquery.network.rows import BEGINNING, END, Flow, joined, whole
from everquery.network.windows import Window, index_values

_EXACT = 2**53


class Intake:
    """One stream of a running network.

    Attributes
    ----------
    row_type : RowType
        Its unknown types become known with the first batch that has rows.
    letters : Letters
    """

    def __init__(self, source: Source) -> None:
        self.name = source.stream.name
        self._source = source
        self.row_type = source.row_type()
        self.letters = Letters()
        self.clock: float = BEGINNING
        self._held: list[pa.Table] = []
        self._grace = source.stream.grace

    def check(self, given: Any) -> pa.Table:  # noqa: ANN401 - whatever a caller has
        """Return a batch with the columns of the stream; nothing has changed yet.

        Raises
        ------
        InvalidBatchError
            If a column is missing or of a wrong type.
        """
        batch = self._arrow(given)
        stream = self._source.stream
        columns: dict[str, Any] = {}
        for name, kind in self.row_type.columns.items():
            if name not in batch.column_names:
                if name in stream.needed_columns():
                    raise InvalidBatchError(
                        f"stream {self.name!r} needs column {name!r}, and the batch has"
                        f" {', '.join(batch.column_names)}. Nothing has changed"
                    )
                columns[name] = pa.nulls(batch.num_rows, kind)
                continue
            if batch.column_names.count(name) > 1:
                raise InvalidBatchError(
                    f"stream {self.name!r}: the batch has column {name!r} twice. Nothing has"
                    " changed"
                )
            columns[name] = self._typed(name, whole(batch.column(name)), kind)
        return pa.table(columns)

    def _arrow(self, given: Any) -> pa.Table:  # noqa: ANN401
        if isinstance(given, pa.RecordBatch):
            return pa.Table.from_batches([given])
        if isinstance(given, pa.Table):
            return given
        if isinstance(given, (list, tuple)) and all(isinstance(row, dict) for row in given):
            names = list(self.row_type.columns)
            return pa.table({name: [row.get(name) for row in given] for name in names})
        if isinstance(given, dict) or hasattr(given, "__arrow_c_stream__"):
            try:
                return pa.table(given)
            except (pa.ArrowException, TypeError) as error:
                raise InvalidBatchError(
                    f"stream {self.name!r}: the columns make no table: {error}. Nothing has changed"
                ) from None
        raise InvalidBatchError(
            f"stream {self.name!r}: {type(given).__name__} is no batch; give an Arrow table or"
            " batch, a DataFrame, a list of dicts or a dict of columns"
        )

    def _typed(self, name: str, column: pa.Array, kind: pa.DataType) -> pa.Array:
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_large_string(column.type) or pa.types.is_string_view(column.type):
            column = column.cast(pa.string())
        if pa.types.is_integer(column.type) and kind == UNKNOWN:
            return column.cast(pa.int64())
        if pa.types.is_floating(column.type) and column.type != NUMBER:
            column = column.cast(NUMBER)
        if kind in (UNKNOWN, column.type):
            return column
        if pa.types.is_null(column.type):
            return column.cast(kind)
        numbers = pa.types.is_integer(column.type) or pa.types.is_decimal(column.type)
        if kind == NUMBER and (numbers or pa.types.is_boolean(column.type)):
            return column if numbers else column.cast(pa.int8()).cast(NUMBER)
        try:
            return column.cast(kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise InvalidBatchError(
                f"stream {self.name!r}: column {name!r} has {column.type}, and takes"
                f" {word(kind)}. Nothing has changed"
            ) from None

    def learn(self, batch: pa.Table) -> bool:
        """Take unknown types from a checked batch; tell whether there were any."""
        if self.row_type.bound or not batch.num_rows:
            return False
        kinds = {
            name: batch.column(name).type if kind == UNKNOWN else kind
            for name, kind in self.row_type.columns.items()
        }
        changed = kinds != dict(self.row_type.columns)
        self.row_type = self.row_type.but(columns=kinds)
        return changed

    def take(self, batch: pa.Table) -> Flow:
        """Take in a checked batch, and return the rows that are let out."""
        rows = self._exact(self._without(batch))
        time = self._source.stream.time
        if time is None:
            return Flow(rows, self.clock)
        rows = self._in_order(rows, time)
        if self._grace is not None:
            return self._let_out(rows, time)
        if rows.num_rows:
            newest = plain_number(index_values(rows.column(time))[-1])
            self.clock = max(self.clock, newest)
        return Flow(rows, self.clock)

    def finish(self) -> Flow:
        """Let out all rows that the grace held back: the stream ends."""
        rows = joined(self._held, self.row_type)
        self._held, self.clock = [], END
        return Flow(self._in_order(rows, self._source.stream.time), END)

    def _without(self, rows: pa.Table) -> pa.Table:
        """Return rows whose key and time are there; the others are dead letters."""
        stream = self._source.stream
        for name, reason in ((stream.key, "null_key"), (stream.time, "null_time")):
            if name is None:
                continue
            column = whole(rows.column(name))
            bad = pc.is_null(column, nan_is_null=pa.types.is_floating(column.type))
            if pc.any(bad).as_py():
                self.letters.add(rows.filter(bad), reason)
                rows = rows.filter(pc.invert(bad))
        return rows

    def _exact(self, rows: pa.Table) -> pa.Table:
        """Return rows whose numbers are float64, NaN as unknown."""
        arrays = {name: whole(rows.column(name)) for name in rows.column_names}
        for name, kind in self.row_type.columns.items():
            column = arrays[name]
            if kind != NUMBER:
                continue
            if column.type == NUMBER:
                arrays[name] = without_nan(column) if name != self._source.stream.time else column
                continue
            bad = _inexact(column)
            if pc.any(bad).as_py():
                self.letters.add(rows.filter(bad), "inexact_attribute")
                return self._exact(rows.filter(pc.invert(bad)))
            arrays[name] = column.cast(NUMBER)
        return pa.table(arrays)

    def _in_order(self, rows: pa.Table, time: str | None) -> pa.Table:
        if time is None or rows.num_rows < 2:
            return rows
        times = index_values(rows.column(time))
        if np.all(times[1:] >= times[:-1]):
            return rows
        return rows.take(pa.array(np.argsort(times, kind="stable")))

    def _let_out(self, rows: pa.Table, time: str) -> Flow:
        """Hold rows back until the newest time is the grace ahead of them."""
        times = index_values(rows.column(time))
        late = times < self.clock
        if late.any():
            self.letters.add(rows.filter(pa.array(late)), LATE)
            rows, times = rows.filter(pa.array(~late)), times[~late]
        if not rows.num_rows:
            return Flow(rows, self.clock)
        held = self._in_order(joined([*self._held, rows], self.row_type), time)
        times = index_values(held.column(time))
        size = Window(time=self._grace).size(self.row_type.columns[time]) if self._grace else 0
        self.clock = max(self.clock, plain_number(times[-1]) - size)
        count = int(np.searchsorted(times, self.clock, "right"))
        self._held = [held.slice(count)] if count < held.num_rows else []
        return Flow(held.slice(0, count), self.clock)

    def save(self) -> Saved:
        """Return the types, the clock, and the rows that are held back."""
        clock = plain_number(self.clock) if np.isfinite(self.clock) else str(self.clock)
        return Saved(
            {"clock": clock},
            {"held": joined(self._held, self.row_type), "type": self.row_type.empty()},
        )

    def load(self, saved: Saved) -> None:
        """Take a state that `save` gave."""
        kinds = saved.tables["type"].schema
        self.row_type = self.row_type.but(columns=dict(zip(kinds.names, kinds.types, strict=True)))
        clock = saved.values["clock"]
        self.clock = float(clock) if isinstance(clock, str) else clock
        held = saved.tables["held"]
        self._held = [held] if held.num_rows else []


def _inexact(column: pa.Array) -> pa.Array:
    """Tell where float64 can't hold a whole number or a decimal exactly."""
    if pa.types.is_decimal(column.type):
        back = column.cast(NUMBER).cast(column.type, safe=False)
        return pc.fill_null(pc.not_equal(back, column), False)
    test: Callable[[Any], Any] = lambda value: pc.not_equal(  # noqa: E731 - one use
        value, pc.cast(pc.cast(value, NUMBER, safe=False), pa.int64(), safe=False)
    )
    large = pc.fill_null(pc.greater(pc.abs(column), _EXACT), False)
    if pc.any(large).as_py():
        return pc.fill_null(test(column.cast(pa.int64())), False)
    return large
