"""Which columns of a box anybody reads."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from sqlglot import exp

from everquery.network.boxes.filter import Filter
from everquery.network.boxes.join import Join
from everquery.network.boxes.latch import Latch
from everquery.network.boxes.map import Map
from everquery.network.boxes.passing import Passing
from everquery.network.boxes.slide import Slide
from everquery.network.boxes.tumble import Tumble
from everquery.network.boxes.union import Union
from everquery.network.expressions.scope import Scope
from everquery.network.graph import order
from everquery.network.optimizer.commuting import is_safe, reads
from everquery.network.rows import RowType
from everquery.network.spec import Box


def needed_columns(
    boxes: Mapping[str, Box], types: Mapping[str, RowType], keep: Collection[str]
) -> dict[str, set[str]]:
    """Return for every stream and box the columns that boxes behind it read.

    Of what is in `keep`, all are read.
    """
    needed: dict[str, set[str]] = {
        name: set(rows.columns) if name in keep else set() for name, rows in types.items()
    }
    roots = [name for name in types if name not in boxes]
    for name in reversed(order(boxes, roots)):
        box = boxes[name]
        inputs = [types[one] for one in box.sources]
        for source, wanted in zip(box.sources, _reads(box, inputs, needed[name]), strict=True):
            needed[source] |= wanted
    return needed


def _reads(box: Box, inputs: Sequence[RowType], needed: set[str]) -> list[set[str]]:
    """Return the columns of each input that a box reads, to give those that are needed."""
    if isinstance(box, Filter) and isinstance(box.where, str):
        return [needed | reads(box, inputs[0])]
    if isinstance(box, Map) and isinstance(box.select, str):
        scope, items = box.items(inputs[0])
        safe = is_safe(box, inputs[0])
        trees = [item.tree for item in items if item.name in needed or not safe]
        return [set().union(*(_columns(tree, scope) for tree in trees))]
    if isinstance(box, Passing):
        return [set(needed)]
    if isinstance(box, Union):
        return [set(needed) for _ in inputs]
    if isinstance(box, Join):
        return join_reads(box, inputs, needed)
    if isinstance(box, (Tumble, Slide, Latch)):
        return [set(box.columns(inputs[0]).needed)]
    return [set(rows.columns) for rows in inputs]


def join_reads(box: Join, inputs: Sequence[RowType], needed: set[str]) -> list[set[str]]:
    """Return the columns of each side that a join reads, to give those that are needed."""
    plan = box.plan(inputs)
    sides: list[set[str]] = [set(), set()]
    trees = [*plan.rest, *(item.tree for item in plan.items if item.name in needed)]
    for name in set().union(*(_columns(tree, plan.scope) for tree in trees)):
        side, own = plan.pair[name]
        sides[side].add(own)
    for left, right in plan.equal:
        sides[0].add(left)
        sides[1].add(right)
    for side, rows in enumerate(inputs):
        index = box.within.column(rows, box.sources[side])
        sides[side] |= {one for one in (index, rows.time) if one is not None}
    return sides


def _columns(tree: exp.Expression, scope: Scope) -> set[str]:
    return {scope.find(column) for column in tree.find_all(exp.Column)}
