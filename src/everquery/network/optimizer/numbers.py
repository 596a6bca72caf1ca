"""Expressions over float64 columns without unknown values, as NumPy has them.

PyArrow keeps track of NULL and makes bitmaps; NumPy does neither, and takes a third of the time
where blocks of rows stay in the processor's cache. Both follow IEEE 754, so that values are the
same, bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sqlglot import exp

from everquery.network.expressions.types import NUMBER
from everquery.network.runtime.figures import Figures

BLOCK = 16_384  # rows; a column of them is 128 kB
FEW = 0.5  # of a block: below this share, further conditions look at the rows that are left alone

Numbers = npt.NDArray[Any]
Formula = Callable[[Mapping[str, Numbers]], Any]

_TWO: dict[type[exp.Expression], Callable[[Any, Any], Any]] = {
    exp.Add: np.add,
    exp.Sub: np.subtract,
    exp.Mul: np.multiply,
    exp.GT: np.greater,
    exp.GTE: np.greater_equal,
    exp.LT: np.less,
    exp.LTE: np.less_equal,
    exp.EQ: np.equal,
    exp.NEQ: np.not_equal,
    exp.And: np.logical_and,
    exp.Or: np.logical_or,
}
_TRUTHS = (exp.GT, exp.GTE, exp.LT, exp.LTE, exp.EQ, exp.NEQ, exp.Between)
_LOGIC = (exp.And, exp.Or, exp.Not)


def formula(tree: exp.Expression, types: Mapping[str, pa.DataType]) -> tuple[Formula, bool] | None:
    """Return an expression as a function over NumPy columns, and whether it is a condition.

    None if it has anything but float64 columns, numbers, arithmetic that can't fail, comparisons
    and logic.
    """
    if isinstance(tree, exp.Paren):
        return formula(tree.this, types)
    if isinstance(tree, exp.Column):
        name = tree.name
        return ((lambda known: known[name]), False) if types.get(name) == NUMBER else None
    if isinstance(tree, exp.Literal):
        return None if tree.is_string else _constant(float(tree.this))
    if isinstance(tree, exp.Between):
        parts = [formula(tree.args[name], types) for name in ("this", "low", "high")]
        return _between(parts)
    if isinstance(tree, (exp.Neg, exp.Abs, exp.Not)):
        return _one(tree, formula(tree.this, types))
    if isinstance(tree, exp.Div):
        return _divided(tree, types)
    function = _TWO.get(type(tree))
    if function is None:
        return None
    left, right = formula(tree.this, types), formula(tree.expression, types)
    if left is None or right is None:
        return None
    if left[1] != isinstance(tree, _LOGIC) or right[1] != isinstance(tree, _LOGIC):
        return None
    first, second = left[0], right[0]
    truth = isinstance(tree, (*_TRUTHS, *_LOGIC))
    return (lambda known: function(first(known), second(known))), truth


def _constant(value: float) -> tuple[Formula, bool]:
    return (lambda known: value), False


def _one(tree: exp.Expression, part: tuple[Formula, bool] | None) -> tuple[Formula, bool] | None:
    logic = isinstance(tree, exp.Not)
    if part is None or part[1] != logic:
        return None
    function = np.logical_not if logic else np.negative if isinstance(tree, exp.Neg) else np.abs
    inner = part[0]
    return (lambda known: function(inner(known))), logic


def _between(parts: Sequence[tuple[Formula, bool] | None]) -> tuple[Formula, bool] | None:
    known_parts = [part[0] for part in parts if part is not None and not part[1]]
    if len(known_parts) < 3:
        return None
    it, low, high = known_parts

    def run(known: Mapping[str, Numbers]) -> Any:  # noqa: ANN401 - an array
        value = it(known)
        return (value >= low(known)) & (value <= high(known))

    return run, True


def _divided(tree: exp.Div, types: Mapping[str, pa.DataType]) -> tuple[Formula, bool] | None:
    divisor, part = tree.expression, formula(tree.this, types)
    if part is None or part[1] or not isinstance(divisor, exp.Literal) or divisor.is_string:
        return None
    by, inner = float(divisor.this), part[0]
    return ((lambda known: inner(known) / by), False) if by else None


class NumberChain:
    """The conditions and values of a chain, where all are numbers or columns as they are.

    Parameters
    ----------
    conditions : sequence of (str, formula)
        With the name of the filter that each is of.
    values : mapping of str to formula or str
        A column of the input that is passed on, by its name, or what is computed.
    shared : mapping of str to formula
        What several of them need.
    later : sequence of sequences of str
        For each condition, the columns that are read behind it.
    reads : sequence of str
        The columns that formulas read.
    """

    def __init__(
        self,
        conditions: Sequence[tuple[str, Formula]],
        values: Mapping[str, Formula | str],
        shared: Mapping[str, Formula],
        later: Sequence[Sequence[str]],
        reads: Sequence[str],
    ) -> None:
        self._conditions = conditions
        self._values = values
        self._shared = shared
        self._later = later
        self._reads = reads
        self._computed = {name: one for name, one in values.items() if not isinstance(one, str)}

    def run(self, columns: Mapping[str, pa.Array], figures: Mapping[str, Figures]) -> Any | None:  # noqa: ANN401
        """Return the arrays of the output; None if a column has unknown values."""
        if any(columns[name].null_count for name in self._reads):
            return None
        count = len(next(iter(columns.values())))
        numbers = {name: columns[name].to_numpy(zero_copy_only=True) for name in self._reads}
        taken = np.empty(count, bool)
        out = {name: np.empty(count) for name in self._computed}
        passed = 0
        with np.errstate(all="ignore"):
            for begin in range(0, count, BLOCK):
                part = {name: column[begin : begin + BLOCK] for name, column in numbers.items()}
                mask = taken[begin : begin + BLOCK]
                passed += self._block(part, mask, out, passed, figures)
        return self._arrays(columns, taken, out, passed)

    def _block(
        self,
        part: Mapping[str, Numbers],
        mask: npt.NDArray[np.bool_],
        out: Mapping[str, Numbers],
        at: int,
        figures: Mapping[str, Figures],
    ) -> int:
        """Write which rows of a block pass, and the values of those that do; return how many."""
        known, rows = Known(part, self._shared), None
        left, alive = mask.size, None
        for place, (member, condition) in enumerate(self._conditions):
            began = perf_counter()
            found = condition(known)
            alive = found if alive is None else np.logical_and(alive, found, out=alive)
            passed = int(np.count_nonzero(alive))
            figure = figures[member]
            figure.seconds += perf_counter() - began
            figure.rows_in += left
            figure.rows_out += passed
            left = passed
            last = place == len(self._conditions) - 1
            if passed < alive.size and (last or passed < FEW * alive.size):
                chosen = np.flatnonzero(alive)
                if rows is None:
                    mask[:] = alive
                    rows = chosen
                else:
                    rows = rows[chosen]
                    mask[:] = False
                    mask[rows] = True
                known, alive = known.picked(chosen, self._later[place]), None
        if rows is None:
            mask[:] = True
        for name, value in self._computed.items():
            out[name][at : at + left] = value(known)
        return left

    def _arrays(
        self,
        columns: Mapping[str, pa.Array],
        taken: npt.NDArray[np.bool_],
        out: Mapping[str, Numbers],
        passed: int,
    ) -> list[pa.Array]:
        whole = passed == taken.size
        mask = None if whole else pa.array(taken)
        found = []
        for name, value in self._values.items():
            if isinstance(value, str):
                column = columns[value]
                found.append(column if mask is None else column.filter(mask))
                continue
            own = out[name][:passed]
            bad = np.isnan(own.sum()) and np.isnan(own)
            found.append(pa.array(own, mask=bad) if np.any(bad) else pa.array(own))
        return found


class Known(dict[str, Any]):
    """Columns of a block; what several expressions share is computed when first asked for."""

    def __init__(self, columns: Mapping[str, Numbers], shared: Mapping[str, Formula]) -> None:
        super().__init__(columns)
        self._shared = shared

    def __missing__(self, name: str) -> Numbers:
        self[name] = found = self._shared[name](self)
        return found  # type: ignore[no-any-return]

    def picked(self, rows: npt.NDArray[np.int64], names: Sequence[str]) -> Known:
        """Return some columns of the block, with some of its rows."""
        return Known({name: self[name].take(rows) for name in names}, self._shared)
