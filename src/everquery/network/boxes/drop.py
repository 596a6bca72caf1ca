"""Drop: without every k-th row, or without a share of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from everquery.errors import InvalidNetworkError
from everquery.network.boxes.windowed import UNKNOWN_INDEX
from everquery.network.operator import Operator, Saved
from everquery.network.rows import Flow, RowType
from everquery.network.spec import Box
from everquery.network.windows import ROWS, Window, index_values


@dataclass(frozen=True)
class Drop(Box):
    """Take out rows: those whose index is a multiple of `every`, or a share of all.

    Rows are counted from 1, so ``{rows: 3}`` takes out the third, the sixth, and so on. A share is
    taken out evenly and by position: the same rows, however they come.

    Parameters
    ----------
    every : Window, optional
    rate : float, optional
        The share that is taken out, from 0 to 1.

    Examples
    --------
    >>> Drop("readings", every={"rows": 3}).form()
    {'box': 'drop', 'from': 'readings', 'every': {'rows': 3}}
    """

    every: Window | None = field(default=None, kw_only=True, metadata={"window": True})
    rate: float | None = field(default=None, kw_only=True)
    kind = "drop"

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.every is None) == (self.rate is None):
            raise InvalidNetworkError("a drop box has `every` or `rate`, and one of them alone")
        rate = self.rate
        if rate is not None and (
            isinstance(rate, bool) or not isinstance(rate, (int, float)) or not 0 <= rate <= 1
        ):
            raise InvalidNetworkError(f"rate is {rate!r}; it is a number from 0 to 1")

    @property
    def by_position(self) -> bool:
        """Whether what it does with a row depends on how many came before."""
        return self.every is None or self.every.by == ROWS

    def infer(self, inputs: Sequence[RowType]) -> RowType:
        """Return the type of its input."""
        if self.every is not None:
            self.every.column(inputs[0], self.sources[0])
        return inputs[0]

    def operator(self, inputs: Sequence[RowType], output: RowType) -> Operator:
        """Return what runs it."""
        return DropOperator(self, inputs, output)


class DropOperator(Operator):
    """A running drop box."""

    def __init__(self, spec: Drop, inputs: Sequence[RowType], output: RowType) -> None:
        super().__init__(inputs, output)
        self._spec = spec
        self._count = 0

    def process(self, flows: Sequence[Flow]) -> Flow:
        """Return the rows that stay."""
        (flow,) = flows
        rows = flow.rows
        if self._spec.by_position:
            places = np.arange(self._count, self._count + rows.num_rows)
            self._count += rows.num_rows
            return Flow(rows.filter(pa.array(self._stays(places))), flow.clock)
        every = self._spec.every
        assert every is not None
        column = every.column(self.inputs[0], self._spec.sources[0])
        assert column is not None
        unknown = pc.is_null(rows.column(column))
        self.letters.add(rows.filter(unknown), UNKNOWN_INDEX)
        rows = rows.filter(pc.invert(unknown))
        size = every.size(self.inputs[0].columns[column])
        index = index_values(rows.column(column))
        return Flow(rows.filter(pa.array(np.mod(index, size) != 0)), flow.clock)

    def _stays(self, places: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        if self._spec.every is not None:
            return np.asarray((places + 1) % int(self._spec.every.size()) != 0)
        assert self._spec.rate is not None
        rate = self._spec.rate
        return np.asarray(np.floor((places + 1) * rate) == np.floor(places * rate))

    def save(self) -> Saved:
        """Return how many rows came."""
        return Saved({"count": self._count})

    def load(self, saved: Saved) -> None:
        """Take a state that `save` gave."""
        self._count = saved.values["count"]
