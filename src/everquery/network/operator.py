"""What runs: the operator of a box, its dead letters and its state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from everquery.network.expressions.compiled import Columns, Compiled
from everquery.network.expressions.functions import RowError
from everquery.network.rows import Flow, RowType, columns_of

MOST_LETTERS = 10_000  # rows that a box keeps; all are counted


@dataclass(slots=True)
class Saved:
    """The state of an operator: plain values that JSON can hold, tables and bytes by name."""

    values: dict[str, Any] = field(default_factory=dict)
    tables: dict[str, pa.Table] = field(default_factory=dict)
    strings: dict[str, bytes] = field(default_factory=dict)


@dataclass(slots=True)
class Letters:
    """The rows that a box refused, by reason: the latest are kept, all are counted."""

    counts: dict[str, int] = field(default_factory=dict)
    kept: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def add(self, rows: pa.Table, reason: str) -> None:
        """Take in rows that were refused for a reason."""
        if rows.num_rows:
            self.counts[reason] = self.counts.get(reason, 0) + rows.num_rows
            latest = rows.slice(max(rows.num_rows - MOST_LETTERS, 0))
            self.kept += [(reason, row) for row in latest.to_pylist()]
            del self.kept[:-MOST_LETTERS]


class Operator(ABC):
    """A running box.

    Attributes
    ----------
    letters : Letters
    stateless : bool
        Whether what it does with a row depends on that row alone, so that it may be made anew.
    anywhere : bool
        Whether any thread may run it, one at a time.
    """

    stateless = False
    anywhere = True

    def __init__(self, inputs: Sequence[RowType], output: RowType) -> None:
        self.inputs = tuple(inputs)
        self.output = output
        self.letters = Letters()

    @abstractmethod
    def process(self, flows: Sequence[Flow]) -> Flow:
        """Take in what is new on each input, and return what is new on the output."""

    def rebind(self, inputs: Sequence[RowType], output: RowType) -> None:
        """Go on with types that have become known."""
        self.inputs, self.output = tuple(inputs), output

    def save(self) -> Saved:
        """Return the state."""
        return Saved()

    def load(self, saved: Saved) -> None:  # noqa: B027 - most boxes have no state
        """Take a state that `save` gave."""

    def held(self) -> int:
        """Return how many rows it keeps."""
        return 0


FAILURES = (RowError, pa.ArrowException, ArithmeticError)


def evaluate(
    rows: pa.Table, work: Callable[[Columns, int], Any], letters: Letters
) -> tuple[pa.Table, Any]:
    """Return what an expression gives for rows, and those rows; what fails are dead letters.

    Where the whole fails, halves are tried, down to the single rows that fail.

    Parameters
    ----------
    work : function
        From columns and a number of rows to a list of arrays.
    """
    try:
        return rows, work(columns_of(rows), rows.num_rows)
    except Exception as error:
        if not (isinstance(error, FAILURES) or type(error).__module__.endswith("duckdb")):
            raise
        if rows.num_rows <= 1:
            letters.add(rows, reason_of(error))
            empty = rows.slice(0, 0)
            return empty, work(columns_of(empty), 0)
    middle = rows.num_rows // 2
    parts = [evaluate(rows.slice(*span), work, letters) for span in ((0, middle), (middle,))]
    kept = pa.concat_tables([part[0] for part in parts])
    values = [
        pa.concat_arrays(_same(pair)) for pair in zip(*(part[1] for part in parts), strict=True)
    ]
    return kept, values


def _same(pair: Sequence[pa.Array]) -> list[pa.Array]:
    return [part.combine_chunks() if isinstance(part, pa.ChunkedArray) else part for part in pair]


def reason_of(error: Exception) -> str:
    """Return why a row failed, in one line."""
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    return "overflow" if text.startswith("overflow") else text[:200]


def arrays_of(items: Sequence[Compiled]) -> Callable[[Columns, int], list[Any]]:
    """Return the function that evaluates some expressions over columns."""

    def work(columns: Columns, rows: int) -> list[Any]:
        found = []
        for item in items:
            array = item.array(columns, rows)
            if pa.types.is_floating(array.type):
                array = without_nan(array)
            found.append(array)
        return found

    return work


def without_nan(array: Any) -> Any:  # noqa: ANN401 - Arrow has no types
    """Return numbers with NULL in the place of NaN: both are unknown."""
    if not array.null_count and isinstance(array, pa.Array):
        numbers = array.to_numpy(zero_copy_only=True)
        with np.errstate(invalid="ignore"):
            total = numbers.sum()  # quicker than a look at each; infinities may make it NaN
        if not np.isnan(total):
            return array
    bad = pc.is_nan(array)
    if pc.any(bad).as_py():
        return pc.if_else(bad, pa.scalar(None, array.type), array)
    return array
