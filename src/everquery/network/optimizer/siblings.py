"""Many filters on one arc as one index: each condition is a box of ranges, found by its values.

The report's section 4.4 does this with an R-tree; here it is the index of range queries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from everquery.errors import EverqueryError
from everquery.network.boxes.filter import Filter
from everquery.network.boxes.passing import Passing
from everquery.network.expressions.lists import scope_of
from everquery.network.expressions.parsing import parse
from everquery.network.expressions.scope import Scope
from everquery.network.expressions.types import NUMBER, BadExpressionError
from everquery.network.graph import infer
from everquery.network.operator import Operator
from everquery.network.optimizer.fused import conjuncts
from everquery.network.rows import Flow, RowType
from everquery.network.spec import Box
from everquery.queries import Interval
from everquery.stream import MOST_ATTRIBUTES, Stream

if TYPE_CHECKING:
    from everquery.engine import Engine

FEWEST = 16  # filters on one arc that are worth an index

Ranges = dict[str, Interval]
_TURNED: dict[type[exp.Expression], type[exp.Expression]] = {
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.EQ: exp.EQ,
}


@dataclass(frozen=True)
class Siblings(Box):
    """Filters that read from one arc: a row goes to each whose ranges it is in.

    Parameters
    ----------
    ranges : tuple of (str, ranges)
        The filters by name, each with the range of every column that it restricts.
    """

    ranges: tuple[tuple[str, Ranges], ...] = field(default=(), kw_only=True)
    kind = "siblings"

    def infer(self, inputs: Sequence[RowType]) -> RowType:
        """Return the type of its input."""
        return inputs[0]

    def operator(self, inputs: Sequence[RowType], output: RowType) -> Operator:
        """Return what runs it."""
        return SiblingsOperator(self, inputs, output)


@dataclass(slots=True)
class Routed(Flow):
    """Rows that go to some readers each; ``parts`` has them by the names of the readers."""

    parts: Mapping[str, pa.Table] = field(default_factory=dict)


class SiblingsOperator(Operator):
    """A running index of filters."""

    stateless = True

    def __init__(self, spec: Siblings, inputs: Sequence[RowType], output: RowType) -> None:
        super().__init__(inputs, output)
        self._names = [name for name, _ in spec.ranges]
        self._columns = sorted({column for _, one in spec.ranges for column in one})
        self._engine = self._made(spec)
        self._seen = 0

    def _made(self, spec: Siblings) -> Engine:
        from everquery.engine import Engine  # compiled loops, for networks that have many filters
        from everquery.kinds.range.spec import Range

        # Attributes may have any name in a network; here they are numbered.
        own = {column: f"c{at}" for at, column in enumerate(self._columns)}
        engine = Engine(Stream("rows", attributes=list(own.values())))
        for at, (_, ranges) in enumerate(spec.ranges):
            box = {own[column]: interval for column, interval in ranges.items()}
            engine.register(Range(str(at), box))
        return engine

    def process(self, flows: Sequence[Flow]) -> Flow:
        """Return for each filter the rows that are in its ranges."""
        (flow,) = flows
        rows = flow.rows
        empty = rows.slice(0, 0)
        if not rows.num_rows:
            return Routed(rows, flow.clock, dict.fromkeys(self._names, empty))
        batch = pa.table({f"c{at}": rows.column(column) for at, column in enumerate(self._columns)})
        notices = self._engine.process(batch)
        at = notices.column("seq").to_numpy() - self._seen
        self._seen += rows.num_rows
        ids = notices.column("query_id").cast(pa.string()).cast(pa.int64()).to_numpy()
        order = np.lexsort((at, ids))
        ends = np.searchsorted(ids[order], np.arange(len(self._names) + 1))
        whole = rows.combine_chunks()
        parts = {
            name: whole.take(pa.array(at[order[ends[place] : ends[place + 1]]]))
            if ends[place] < ends[place + 1]
            else empty
            for place, name in enumerate(self._names)
        }
        return Routed(rows, flow.clock, parts)


def unite(boxes: dict[str, Box], roots: Mapping[str, RowType], notes: list[str]) -> dict[str, Box]:
    """Return boxes in which many filters on one arc are one index, and `Passing` behind it."""
    types = infer(boxes, roots)
    by_source: dict[str, list[str]] = {}
    for name, box in boxes.items():
        if isinstance(box, Filter):
            by_source.setdefault(box.sources[0], []).append(name)
    for source, names in by_source.items():
        if len(names) < FEWEST:
            continue
        found = [(name, _ranges(boxes[name], types[source])) for name in names]
        known = tuple((name, ranges) for name, ranges in found if ranges)
        columns = {column for _, ranges in known for column in ranges}
        if len(known) < FEWEST or len(columns) > MOST_ATTRIBUTES:
            continue
        own = f"{source}@siblings"
        boxes[own] = Siblings(source, ranges=known)
        for name, _ in known:
            boxes[name] = Passing(own)
        notes.append(f"{own}: {len(known)} filters on {source} are one index of ranges")
    return boxes


def _ranges(box: Box, rows: RowType) -> Ranges | None:
    """Return the ranges that a filter's condition is; None if it is anything else."""
    assert isinstance(box, Filter)
    if not isinstance(box.where, str):
        return None
    scope = scope_of(dict(rows.columns), *box.sources)
    ends: dict[str, list[Any]] = {}
    for part in conjuncts(parse(box.where)):
        if not _put_ends(part, scope, ends):
            return None
    try:
        return {
            column: Interval(low, high, closed=_closed(low_in, high_in))
            for column, [low, low_in, high, high_in] in ends.items()
        }
    except EverqueryError:  # nothing can be in it
        return None


def _closed(low: bool, high: bool) -> Any:  # noqa: ANN401 - one of four words
    return {(True, True): "both", (True, False): "left", (False, True): "right"}.get(
        (low, high), "neither"
    )


def _put_ends(part: exp.Expression, scope: Scope, ends: dict[str, list[Any]]) -> bool:
    """Take a comparison of a column with a number into the ends of its range."""
    if isinstance(part, exp.Between):
        low = exp.GTE(this=part.this, expression=part.args["low"])
        high = exp.LTE(this=part.this, expression=part.args["high"])
        return _put_ends(low, scope, ends) and _put_ends(high, scope, ends)
    kind = type(part)
    if kind not in _TURNED:
        return False
    column, number = part.this, _number(part.expression)
    if number is None:
        column, number, kind = part.expression, _number(part.this), _TURNED[kind]
    try:
        name = scope.find(column) if isinstance(column, exp.Column) else None
    except BadExpressionError:
        return False
    if name is None or number is None or scope.columns[name] != NUMBER:
        return False
    own = ends.setdefault(name, [None, True, None, True])
    if kind in (exp.GT, exp.GTE, exp.EQ):
        _raise_low(own, number, kind is not exp.GT)
    if kind in (exp.LT, exp.LTE, exp.EQ):
        _lower_high(own, number, kind is not exp.LT)
    return True


def _raise_low(own: list[Any], number: float, inside: bool) -> None:
    if own[0] is None or number > own[0]:
        own[0], own[1] = number, inside
    elif number == own[0]:
        own[1] = own[1] and inside


def _lower_high(own: list[Any], number: float, inside: bool) -> None:
    if own[2] is None or number < own[2]:
        own[2], own[3] = number, inside
    elif number == own[2]:
        own[3] = own[3] and inside


def _number(tree: exp.Expression) -> float | None:
    if isinstance(tree, exp.Neg):
        found = _number(tree.this)
        return None if found is None else -found
    if isinstance(tree, exp.Paren):
        return _number(tree.this)
    return float(tree.this) if isinstance(tree, exp.Literal) and not tree.is_string else None
