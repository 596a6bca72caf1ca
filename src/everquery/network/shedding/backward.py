"""Intervals of an output's values, carried upstream through boxes that have an inverse."""

from __future__ import annotations

import math
from collections.abc import Mapping

from sqlglot import exp

from everquery.network.analysis.layout import Layout, Place
from everquery.network.boxes.join import Join
from everquery.network.boxes.map import Map
from everquery.network.boxes.tumble import Tumble
from everquery.network.expressions.lists import read_items
from everquery.network.expressions.types import is_number
from everquery.network.rows import RowType
from everquery.network.shedding.droppers import Interval
from everquery.network.spec import Box

SAME = ("filter", "union", "point", "drop", "group")
"""Boxes that change no value of the rows that they let through."""

Way = tuple[int, Interval]
"""The number of an arrow into a box, and the interval there."""


def linear(tree: exp.Expression) -> tuple[exp.Column, float, float] | None:
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


def _applied(
    kind: type[exp.Expression], inner: tuple[exp.Column, float, float], number: float
) -> tuple[exp.Column, float, float] | None:
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


def ways_into(box: Box, inputs: list[RowType], interval: Interval) -> list[Way] | None:
    """Return the intervals on the arrows into a box that give this one behind it; None if none."""
    if box.kind in SAME:
        return [(at, interval) for at in range(len(inputs))]
    if isinstance(box, Map) and isinstance(box.select, str):
        scope, items = box.items(inputs[0])
        found = _source(items, interval)
        return None if found is None else [(0, inverse(interval, scope.find(found[0]), *found[1:]))]
    if isinstance(box, Join):
        plan = box.plan(inputs)
        found = _source(plan.items, interval)
        if found is None:
            return None
        side, own = plan.pair[plan.scope.find(found[0])]
        return [(side, inverse(interval, own, *found[1:]))]
    if isinstance(box, Tumble):
        found = _source(read_items(box.select, list(inputs[0].columns)), interval)
        if found is None or found[0].name not in (box.by or ()):
            return None
        return [(0, inverse(interval, found[0].name, *found[1:]))]
    return None


def _source(items: list, interval: Interval) -> tuple[exp.Column, float, float] | None:  # type: ignore[type-arg]
    for item in items:
        if item.name == interval.column:
            return linear(item.tree)
    return None


def carried(
    boxes: Mapping[str, Box],
    types: Mapping[str, RowType],
    layout: Layout,
    output: str,
    interval: Interval,
) -> dict[Place, Interval] | None:
    """Return the intervals at the places where rows of an output alone go; None if a box has none.

    Where one side of a join has the column, rows of that side alone are shed.
    """
    places = set(layout.frontier(frozenset({output})))
    found: dict[Place, Interval] = {}

    def visit(name: str, here: Interval) -> bool:
        if name in layout.streams:
            return _note(found, Place(name), here, places, types)
        ways = ways_into(boxes[name], [types[one] for one in layout.sources[name]], here)
        if ways is None:
            return False
        for at, there in ways:
            source = layout.sources[name][at]
            place = Place(source, name, at)
            if place in places:
                if not _note(found, place, there, places, types):
                    return False
            elif not visit(source, there):
                return False
        return True

    return found if visit(layout.outputs[output], interval) and found else None


def _note(
    found: dict[Place, Interval],
    place: Place,
    interval: Interval,
    places: set[Place],
    types: Mapping[str, RowType],
) -> bool:
    """Take down an interval at a place; tell whether it is the only one there, over numbers."""
    kind = types[place.source].columns.get(interval.column)
    if place not in places or kind is None or not is_number(kind):
        return False
    return found.setdefault(place, interval) == interval
