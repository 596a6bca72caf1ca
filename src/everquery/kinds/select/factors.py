"""Conditions between two attributes of a row, for all queries at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from everquery.core.arrays import Bools, Floats, Int32s, Int64s
from everquery.core.jit import kernel
from everquery.kinds.select.plan import Factor, Plan
from everquery.stream import Stream

OPERATORS = ("=", "<", "<=", ">", ">=")


@kernel
def check_factors(
    plan: Int32s, event: Int64s, values: Floats,
    start: Int64s, left: Int32s, operator: Int32s, right: Int32s, constant: Floats,
    kept: Bools,
) -> None:  # fmt: skip
    """Tell which matches, given by plan and event, satisfy all factors of their plans."""
    for i in range(plan.size):
        kept[i] = True
        for factor in range(start[plan[i]], start[plan[i] + 1]):
            a = values[left[factor], event[i]]
            b = values[right[factor], event[i]] + constant[factor]
            code = operator[factor]
            if code == 0:
                holds = a == b
            elif code == 1:
                holds = a < b
            elif code == 2:
                holds = a <= b
            elif code == 3:
                holds = a > b
            else:
                holds = a >= b
            if not holds:
                kept[i] = False
                break


def holds(left: Floats, operator: str, right: Floats | float) -> Bools:
    """Compare columns; nothing holds of what is unknown."""
    match operator:
        case "=":
            found = left == right
        case "<":
            found = left < right
        case "<=":
            found = left <= right
        case ">":
            found = left > right
        case _:
            found = left >= right
    return np.asarray(found)


class FactorTable:
    """The factors within one stream of all plans, one behind the other.

    Attributes
    ----------
    some : bool
        Whether any plan has some.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._start = [0]
        self._rows: list[tuple[int, int, int, float]] = []
        self._arrays: tuple[Int64s, Int32s, Int32s, Int32s, Floats] | None = None
        self.some = False

    def add(self, plan: Plan) -> None:
        """Add the factors of the next plan."""
        place = self._stream.attributes.index
        for factor in own_factors(plan):
            assert factor.right is not None
            assert not isinstance(factor.constant, str)
            columns = place(factor.left.name), place(factor.right.name)
            code = OPERATORS.index(factor.operator)
            self._rows.append((columns[0], code, columns[1], float(factor.constant)))
            self.some = True
        self._start.append(len(self._rows))
        self._arrays = None

    def satisfied(self, plan: Int32s, event: Int64s, values: Floats) -> Bools:
        """Tell which matches satisfy the factors of their plans."""
        if self._arrays is None:
            left, code, right, constant = zip(*self._rows, strict=True)
            self._arrays = (
                np.array(self._start, np.int64),
                np.array(left, np.int32),
                np.array(code, np.int32),
                np.array(right, np.int32),
                np.array(constant, np.float64),
            )
        kept = np.empty(plan.size, np.bool_)
        check_factors(plan, event, values, *self._arrays, kept)
        return kept


def own_factors(plan: Plan) -> Sequence[Factor]:
    """Return the factors that compare two attributes of the first stream."""
    return [
        factor
        for factor in plan.factors
        if factor.right is not None and factor.left.side == factor.right.side == 0
    ]
