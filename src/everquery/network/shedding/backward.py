"""Intervals of an output's values, carried upstream through boxes that have an inverse."""

from __future__ import annotations

import math
from collections.abc import Mapping

from sqlglot import exp

from everquery.network.analysis.layout import Layout, Place
from everquery.network.boxes.join import Join
from everquery.network.boxes.map import Map
from everquery.network.boxes.tumble import Tumble
from everquery.network.expressions.lists import Item, read_items
from everquery.network.expressions.types import is_number
from everquery.network.rows import RowType
from everquery.network.shedding.droppers import Interval
from everquery.network.spec import Box

SAME = ("filter", "union", "point", "drop", "group")
"""Boxes that change no value of the rows that they let through."""

Way = tuple[int, str, float, float]
"""The number of an arrow into a box, the column there, and its factor and constant."""
Linear = tuple[exp.Column, float, float]


def linear(tree: exp.Expression) -> Linear | None:
    """Return column, factor and constant of an expression that is linear in one column.

    Examples
    --------
    >>> import sqlglot
    >>> linear(sqlglot.parse_one("(x - 32) / 2"))[1:]
    (0.5, -16.0)
    """
    if isinstance(tree, exp.Column):
        return tree, 1.0, 0.0
    if isinstance(tree, exp.Paren):
        return linear(tree.this)
    if isinstance(tree, exp.Neg):
        inner = linear(tree.this)
        return None if inner is None else (inner[0], -inner[1], -inner[2])
    if not isinstance(tree, (exp.Add, exp.Sub, exp.Mul, exp.Div)):
        return None
    left, right = _number(tree.this), _number(tree.expression)
    if right is not None:
        inner = linear(tree.this)
        return None if inner is None else _applied(type(tree), inner, right)
    inner = linear(tree.expression)
    if left is None or inner is None or isinstance(tree, exp.Div):
        return None
    if isinstance(tree, exp.Sub):
        return inner[0], -inner[1], left - inner[2]
    return _applied(type(tree), inner, left)


def _applied(kind: type[exp.Expression], inner: Linear, number: float) -> Linear | None:
    column, factor, constant = inner
    if kind is exp.Add:
        return column, factor, constant + number
    if kind is exp.Sub:
        return column, factor, constant - number
    if number == 0:
        return None
    by = number if kind is exp.Mul else 1 / number
    return column, factor * by, constant * by


def _number(tree: exp.Expression) -> float | None:
    while isinstance(tree, exp.Paren):
        tree = tree.this
    if isinstance(tree, exp.Neg):
        inner = _number(tree.this)
        return None if inner is None else -inner
    if isinstance(tree, exp.Literal) and not tree.is_string:
        return float(tree.this)
    return None


def inverse(interval: Interval, column: str, factor: float, constant: float) -> Interval:
    """Return the interval of `column` whose values times `factor` plus `constant` are inside.

    Examples
    --------
    >>> str(inverse(Interval("y", 0.0, 10.0), "x", 2.0, 4.0))
    'x in [-2, 3)'
    """
    ends = [(end - constant) / factor for end in (interval.low, interval.high)]
    if factor < 0:  # the closed end has become the upper one
        ends = [math.nextafter(end, math.inf) for end in reversed(ends)]
    return Interval(column, *ends)


def ways_into(box: Box, inputs: list[RowType], column: str) -> list[Way] | None:
    """Return the columns on the arrows into a box that one behind it is linear in; None if none."""
    if box.kind in SAME:
        return [(at, column, 1.0, 0.0) for at in range(len(inputs))]
    if isinstance(box, Map) and isinstance(box.select, str):
        scope, items = box.items(inputs[0])
        found = _source(items, column)
        return None if found is None else [(0, scope.find(found[0]), *found[1:])]
    if isinstance(box, Join):
        plan = box.plan(inputs)
        found = _source(plan.items, column)
        return None if found is None else [(*plan.pair[plan.scope.find(found[0])], *found[1:])]
    if isinstance(box, Tumble):
        found = _source(read_items(box.select, list(inputs[0].columns)), column)
        if found is not None and found[0].name in (box.by or ()):
            return [(0, found[0].name, *found[1:])]
    return None


def _source(items: list[Item], column: str) -> Linear | None:
    return next((linear(item.tree) for item in items if item.name == column), None)


class Carrier:
    """Carries intervals of outputs to the places where rows of one output alone go."""

    def __init__(
        self, boxes: Mapping[str, Box], types: Mapping[str, RowType], layout: Layout
    ) -> None:
        self._boxes, self._types, self._layout = boxes, types, layout
        self._ways: dict[tuple[str, str], list[Way] | None] = {}

    def carried(self, output: str, interval: Interval) -> dict[Place, Interval] | None:
        """Return the intervals at the places of an output; None if a box has no inverse.

        Where one side of a join has the column, rows of that side alone are shed.
        """
        places = set(self._layout.frontier(frozenset({output})))
        found: dict[Place, Interval] = {}
        whole = self._visit(self._layout.outputs[output], interval, places, found)
        return found if whole and found else None

    def _visit(
        self, name: str, here: Interval, places: set[Place], found: dict[Place, Interval]
    ) -> bool:
        if name in self._layout.streams:
            return Place(name) in places and self._note(Place(name), here, found)
        sources = self._layout.sources[name]
        if (name, here.column) not in self._ways:
            inputs = [self._types[one] for one in sources]
            self._ways[name, here.column] = ways_into(self._boxes[name], inputs, here.column)
        ways = self._ways[name, here.column]
        if ways is None:
            return False
        for at, column, factor, constant in ways:
            there = inverse(here, column, factor, constant)
            place = Place(sources[at], name, at)
            if place in places:
                if not self._note(place, there, found):
                    return False
            elif not self._visit(sources[at], there, places, found):
                return False
        return True

    def _note(self, place: Place, interval: Interval, found: dict[Place, Interval]) -> bool:
        """Take down an interval at a place; tell whether it is the only one, over numbers."""
        kind = self._types[place.source].columns.get(interval.column)
        if kind is None or not is_number(kind):
            return False
        return found.setdefault(place, interval) == interval
