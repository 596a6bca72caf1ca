"""Group-by: a stream for each value of some columns, all on one arrow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from everquery.errors import InvalidNetworkError
from everquery.network.boxes.passing import PassingOperator
from everquery.network.operator import Operator
from everquery.network.rows import RowType
from everquery.network.spec import Box, check_columns


@dataclass(frozen=True)
class GroupBy(Box):
    """Divide the rows by the values of some columns.

    The groups go along one arrow. Boxes with windows behind it, that have no `by` of their own,
    take each group for itself.

    Parameters
    ----------
    by : sequence of str

    Examples
    --------
    >>> GroupBy("trades", by=["symbol"]).form()
    {'box': 'group-by', 'from': 'trades', 'by': ['symbol']}
    """

    by: Sequence[str] = field(kw_only=True, metadata={"names": True})
    kind = "group-by"

    def infer(self, inputs: Sequence[RowType]) -> RowType:
        """Return the type of its input, with the groups."""
        if not self.by:
            raise InvalidNetworkError("`by` is empty; name the columns that a group has in common")
        check_columns(self.by, inputs[0], "by")
        return inputs[0].but(groups=tuple(self.by))

    def operator(self, inputs: Sequence[RowType], output: RowType) -> Operator:
        """Return what runs it."""
        return PassingOperator(inputs, output)
