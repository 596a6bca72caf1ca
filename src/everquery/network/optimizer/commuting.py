"""When two boxes may change places: the commutativity table of the report's appendix 2.

Each function answers for one case of the table, and says no where it can't prove yes. An expression
that fails on some rows never moves: its dead letters would be others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from everquery.network.boxes.drop import Drop
from everquery.network.boxes.filter import Filter
from everquery.network.boxes.join import Join, JoinPlan
from everquery.network.boxes.map import Map
from everquery.network.boxes.union import Union
from everquery.network.expressions.compiler import UnknownFunctionError, compile_tree, parse
from everquery.network.expressions.lists import column_of, scope_of
from everquery.network.expressions.types import BadExpressionError
from everquery.network.optimizer.fused import conjuncts
from everquery.network.rows import RowType
from everquery.network.spec import Box


def is_safe(box: Box, rows: RowType) -> bool:
    """Tell whether a filter or map computes what PyArrow has and what can't fail."""
    try:
        if isinstance(box, Filter) and isinstance(box.where, str):
            trees = [parse(box.where)]
        elif isinstance(box, Map) and isinstance(box.select, str):
            trees = [item.tree for item in box.items(rows)[1]]
        else:
            return False
        scope = scope_of(dict(rows.columns), *box.sources)
        return not any(compile_tree(tree, scope).may_fail for tree in trees)
    except (UnknownFunctionError, BadExpressionError):
        return False


def filter_before_map(condition: Filter, box: Map, rows: RowType, mapped: RowType) -> bool:
    """Case 1: the attributes that the filter reads are unchanged by the map."""
    if not (is_safe(condition, mapped) and is_safe(box, rows)):
        return False
    scope, items = box.items(rows)
    unchanged = {item.name for item in items if column_of(item.tree, scope) == item.name}
    return reads(condition, mapped) <= unchanged


def filter_before_union(condition: Filter, box: Union, rows: Sequence[RowType]) -> bool:
    """Filter and merge always commute."""
    return isinstance(box, Union) and all(is_safe(condition, one) for one in rows)


def filter_before_drop(condition: Filter, box: Drop, rows: RowType) -> bool:
    """Filter and drop commute where the index is a value of the row.

    The papers' index is always one. By position, rows would be counted anew behind the filter.
    """
    return is_safe(condition, rows) and not box.by_position


def filter_before_join(
    condition: exp.Expression, box: Join, inputs: Sequence[RowType]
) -> dict[int, exp.Expression]:
    """Case 3: return what becomes of a condition on the sides of a join on which it is defined.

    Empty if it is not defined on one side alone, or on both by columns that are equal.
    """
    plan = box.plan(inputs)
    columns = {item.name: item.tree for item in plan.items}
    sides: dict[int, exp.Expression] = {}
    for side in (0, 1):
        moved = _on_side(condition, columns, plan, side)
        if moved is not None:
            sides[side] = moved
    return sides


def _on_side(
    condition: exp.Expression,
    columns: Mapping[str, exp.Expression],
    plan: JoinPlan,
    side: int,
) -> exp.Expression | None:
    """Return a condition over the columns of one side; None if it reads others."""
    partner = dict(plan.equal) if side else {}
    names = {}
    for node in condition.find_all(exp.Column):
        tree = columns.get(node.name)
        if not isinstance(tree, exp.Column):
            return None
        of, own = plan.pair[plan.scope.find(tree)]
        if of != side and (of == 1 or own not in partner):
            return None
        names[node.name] = own if of == side else partner[own]

    def put(node: exp.Expression) -> exp.Expression:
        if isinstance(node, exp.Column):
            return exp.column(names[node.name], quoted=True)
        return node

    return condition.copy().transform(put)


def reads(condition: Filter, rows: RowType) -> set[str]:
    """Return the columns that a filter reads."""
    assert isinstance(condition.where, str)
    scope = scope_of(dict(rows.columns), *condition.sources)
    return {scope.find(column) for column in parse(condition.where).find_all(exp.Column)}


def parts_of(condition: Filter) -> list[exp.Expression]:
    """Return the conditions that a filter is made of."""
    assert isinstance(condition.where, str)
    return conjuncts(parse(condition.where))
