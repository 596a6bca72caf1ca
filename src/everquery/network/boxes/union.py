"""Union: the rows of several arrows (the papers' merge)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from everquery.errors import InvalidNetworkError
from everquery.network.expressions.types import UNKNOWN, BadExpressionError, meet
from everquery.network.operator import Operator
from everquery.network.rows import Flow, RowType, fitted
from everquery.network.spec import Box


@dataclass(frozen=True)
class Union(Box):
    """Give the rows of several arrows, which have the same columns.

    Its clock is the slowest of its inputs'. Rows of one call come arrow by arrow.

    Examples
    --------
    >>> Union(["north", "south"]).form()
    {'box': 'union', 'from': ['north', 'south']}
    """

    kind = "union"
    arity = (2, None)

    def infer(self, inputs: Sequence[RowType]) -> RowType:
        """Return the type that all inputs have."""
        first, *others = inputs
        kinds = dict(first.columns)
        for source, rows in zip(self.sources[1:], others, strict=True):
            if set(rows.columns) != set(kinds):
                raise InvalidNetworkError(
                    f"arrow {source} has the columns {rows}, and arrow {self.sources[0]} has"
                    f" {first}; a union takes arrows with the same columns"
                )
            for name, kind in rows.columns.items():
                try:
                    kinds[name] = meet(kinds[name], kind, f"column {name!r} of a union")
                except BadExpressionError as error:
                    raise InvalidNetworkError(f"arrow {source}: {error}") from None
        return RowType(
            kinds,
            key=_common([rows.key for rows in inputs]),
            time=_common([rows.time for rows in inputs]),
            groups=first.groups if all(rows.groups == first.groups for rows in inputs) else (),
            stream=first.stream if all(rows.stream == first.stream for rows in inputs) else None,
        )

    def operator(self, inputs: Sequence[RowType], output: RowType) -> Operator:
        """Return what runs it."""
        return UnionOperator(inputs, output)


def _common(names: list[str | None]) -> str | None:
    return names[0] if len(set(names)) == 1 else None


class UnionOperator(Operator):
    """A running union."""

    stateless = True

    def process(self, flows: Sequence[Flow]) -> Flow:
        """Return the rows of all inputs."""
        tables = [fitted(flow.rows, self.output) for flow in flows if flow.rows.num_rows]
        clock = min(flow.clock for flow in flows)
        if not tables:
            return Flow(fitted(flows[0].rows, self.output), clock)
        if len(tables) > 1 and UNKNOWN in self.output.columns.values():
            return Flow(pa.concat_tables(tables, promote_options="default"), clock)
        return Flow(pa.concat_tables(tables), clock)
