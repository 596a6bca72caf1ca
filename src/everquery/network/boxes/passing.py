"""Passing: a box that changes nothing, which is what a connection point is on its arrow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from everquery.network.operator import Operator
from everquery.network.rows import Flow, RowType
from everquery.network.spec import Box


@dataclass(frozen=True)
class Passing(Box):
    """Give the rows as they come."""

    kind = "point"

    def infer(self, inputs: Sequence[RowType]) -> RowType:
        """Return the type of its input."""
        return inputs[0]

    def operator(self, inputs: Sequence[RowType], output: RowType) -> Operator:
        """Return what runs it."""
        return PassingOperator(inputs, output)


class PassingOperator(Operator):
    """What passes rows on."""

    stateless = True

    def process(self, flows: Sequence[Flow]) -> Flow:
        """Return what came."""
        return flows[0]
