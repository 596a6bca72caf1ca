"""Watch: standing queries, all of everquery as one box."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from everquery.core.times import nanoseconds_of
from everquery.errors import EverqueryError, InvalidNetworkError
from everquery.network.expressions.types import UNKNOWN, is_number
from everquery.network.operator import Operator, Saved
from everquery.network.rows import BEGINNING, END, Flow, RowType
from everquery.network.spec import Box
from everquery.network.windows import index_column, index_values
from everquery.stream import NOTICE_COLUMNS, Stream

if TYPE_CHECKING:
    from everquery.engine import Engine


@dataclass(frozen=True)
class Watch(Box):
    """Give the notices of standing queries over the rows.

    Parameters
    ----------
    registry : str, optional
        The URL of a registry, whose queries are followed while the network runs.
    queries : sequence of str, optional
        Standing queries in SQL, of this network alone.
    stream : str, optional
        The name of the stream that queries are of. Without it, the name that the box reads from.

    Examples
    --------
    >>> Watch("readings", registry="sqlite:///queries.db").form()
    {'box': 'watch', 'from': 'readings', 'registry': 'sqlite:///queries.db'}
    """

    registry: str | None = field(default=None, kw_only=True)
    queries: Sequence[str] | None = field(default=None, kw_only=True)
    stream: str | None = field(default=None, kw_only=True)
    kind = "watch"

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.registry is None) == (self.queries is None):
            raise InvalidNetworkError(
                "a watch box has a `registry` or `queries`, and this has"
                f" {'both' if self.registry else 'neither'}"
            )
        if self.queries is not None:
            given = (self.queries,) if isinstance(self.queries, str) else tuple(self.queries)
            object.__setattr__(self, "queries", given)

    def watched(self, rows: RowType) -> Stream:
        """Return the stream of standing queries that rows of a type are."""
        name = self.stream or self.sources[0]
        if rows.stream is not None and (self.stream or rows.stream.name) == rows.stream.name:
            return rows.stream
        numbers = [
            column
            for column, kind in rows.columns.items()
            if kind != UNKNOWN and is_number(kind) and column not in (rows.key, rows.time)
        ]
        clash = [column for column in numbers if column in NOTICE_COLUMNS]
        if clash:
            raise InvalidNetworkError(
                f"column {clash[0]!r} has the name of a notice column; rename it in a map before"
            )
        return Stream(name, key=rows.key, time=rows.time, attributes=numbers)

    def infer(self, inputs: Sequence[RowType]) -> RowType:
        """Return the columns of notices."""
        (rows,) = inputs
        stream = self.watched(rows)
        if self.queries is not None and rows.bound:
            self.engine(rows)
        return _notice_type(stream, rows)

    def engine(self, rows: RowType) -> Engine:
        """Return an engine with the queries."""
        from everquery.engine import Engine  # compiled loops, for networks that have such a box

        engine = Engine(self.watched(rows), registry=self.registry, all_columns=True)
        for text in self.queries or ():
            try:
                engine.sql(text)
            except EverqueryError as error:
                raise InvalidNetworkError(f"query {text!r}: {error}") from None
        return engine

    def operator(self, inputs: Sequence[RowType], output: RowType) -> Operator:
        """Return what runs it."""
        return WatchOperator(self, inputs, output)


@cache
def _notice_columns(stream: Stream) -> pa.Schema:
    from everquery.engine import Engine

    return Engine(stream, all_columns=True).advance(0).schema


def _notice_type(stream: Stream, rows: RowType) -> RowType:
    """Return the columns of notices, as all kinds have them, without dictionaries."""
    columns = {}
    for column in _notice_columns(stream):
        kind = column.type
        columns[column.name] = kind.value_type if pa.types.is_dictionary(kind) else kind
    columns["key"] = UNKNOWN if stream.key is None else rows.columns[stream.key]
    columns["time"] = UNKNOWN if stream.time is None else rows.columns[stream.time]
    return RowType(columns, key="key" if stream.key else None, time="time" if stream.time else None)


class WatchOperator(Operator):
    """A running watch box."""

    def __init__(self, spec: Watch, inputs: Sequence[RowType], output: RowType) -> None:
        super().__init__(inputs, output)
        self._spec = spec
        self._engine = spec.engine(inputs[0])
        self.anywhere = spec.registry is None  # connections of a registry stay in their thread

    @property
    def engine(self) -> Engine:
        """The engine that it runs."""
        return self._engine

    def rebind(self, inputs: Sequence[RowType], output: RowType) -> None:
        """Make another engine if columns have turned out to be numbers."""
        super().rebind(inputs, output)
        if self._spec.watched(inputs[0]) != self._engine.stream:
            self._engine = self._spec.engine(inputs[0])

    def process(self, flows: Sequence[Flow]) -> Flow:
        """Return the notices."""
        (flow,) = flows
        pieces = []
        if flow.rows.num_rows:
            pieces.append(self._engine.process(flow.rows))
        if flow.clock == END:
            pieces.append(self._engine.flush())
        elif self._is_ahead(flow):
            pieces.append(self._engine.advance(self._moment(flow.clock)))
        self._take_letters()
        if not pieces:
            return Flow(self.output.empty(), self._clock(flow))
        tables = [self._plain(piece) for piece in pieces]
        return Flow(pa.concat_tables(tables, promote_options="default"), self._clock(flow))

    def _is_ahead(self, flow: Flow) -> bool:
        """Tell whether time has come further than the rows: others did not get here."""
        time = self._engine.stream.time
        if time is None or flow.clock == BEGINNING or self.inputs[0].columns[time] == UNKNOWN:
            return False
        rows = flow.rows
        return not rows.num_rows or bool(index_values(rows.column(time)).max() < flow.clock)

    def _moment(self, clock: float) -> Any:  # noqa: ANN401 - a number, a date or a datetime
        """Return the clock as the engine takes a time, to the microsecond."""
        kind = self.inputs[0].columns[str(self._engine.stream.time)]
        if nanoseconds_of(kind) is None:
            return clock if pa.types.is_floating(kind) else math.floor(clock)
        if pa.types.is_timestamp(kind) and kind.unit == "ns":
            clock, kind = clock // 1000, pa.timestamp("us", kind.tz)
        return index_column(np.asarray([math.floor(clock)]), kind)[0].as_py()

    def _clock(self, flow: Flow) -> float:
        return flow.clock if self.output.time or flow.clock == END else BEGINNING

    def _take_letters(self) -> None:
        letters = self._engine.drain_dead_letters()
        for reason in pc.unique(letters.column("reason").cast(pa.string())).to_pylist():
            self.letters.add(
                letters.filter(pc.equal(letters.column("reason").cast(pa.string()), reason)), reason
            )

    def _plain(self, notices: pa.Table) -> pa.Table:
        """Return notices with the columns that the arrow has, without dictionaries."""
        arrays = []
        for name, kind in self.output.columns.items():
            column = notices.column(name)
            if pa.types.is_dictionary(column.type):
                column = column.cast(column.type.value_type)
            arrays.append(column if pa.types.is_null(kind) else column.cast(kind))
        return pa.table(arrays, names=list(self.output.columns))

    def save(self) -> Saved:
        """Return the engine's snapshot."""
        return Saved(strings={"engine": self._engine.snapshot()})

    def load(self, saved: Saved) -> None:
        """Restore the engine."""
        self._engine.restore(saved.strings["engine"])
