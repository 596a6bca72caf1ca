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
from everquery.network.boxes.resample import Resample
from everquery.network.boxes.union import Union
from everquery.network.expressions.compiler import compile_tree
from everquery.network.expressions.lists import column_of, scope_of
from everquery.network.expressions.parsing import DIALECT, parse
from everquery.network.expressions.types import UNKNOWN, BadExpressionError, UnknownFunctionError
from everquery.network.optimizer.fused import conjuncts, substituted
from everquery.network.rows import RowType
from everquery.network.spec import Box
from everquery.network.windows import TIME


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
    """Filter and drop commute where the index is the time.

    The papers' index is always a value of the row. By position, rows would be counted anew behind
    the filter. Another column may be unknown, and then the row is a dead letter of the drop.
    """
    return is_safe(condition, rows) and box.every is not None and box.every.by == TIME


def map_before_union(box: Map, union: RowType, rows: Sequence[RowType]) -> bool:
    """Map and merge always commute; a type that the union widens would be computed otherwise."""
    return all(dict(one.columns) == dict(union.columns) and is_safe(box, one) for one in rows)


def drop_before_map(box: Drop, mapped: Map, rows: RowType) -> bool:
    """Drop and map commute where the index is the time, and the map passes it on as it is."""
    if box.every is None or box.every.by != TIME or not is_safe(mapped, rows):
        return False
    scope, items = mapped.items(rows)
    own = [item.name for item in items if column_of(item.tree, scope) == rows.time]
    return rows.time is not None and own == [rows.time]


def filter_before_resample(condition: Filter, box: Resample, inputs: Sequence[RowType]) -> bool:
    """Case 2, for a condition on groups: each is predicted from its own rows alone."""
    groups = set(box.columns(inputs).groups)
    given = box.infer(inputs)
    return is_safe(condition, given) and reads(condition, given) <= groups


def map_into_join(box: Map, join: Join, inputs: Sequence[RowType]) -> str | None:
    """Case 7: return the `select` of a join that gives what a map behind it does; None if none may.

    What is computed has to read columns as the join has them, whose types are known: what the join
    itself computes may be unknown where a part of it is not.
    """
    plan, given = join.plan(inputs), join.infer(inputs)
    if not is_safe(box, given):
        return None
    scope, items = box.items(given)
    values = {item.name: item.tree for item in plan.items}
    found = []
    for item in items:
        columns = [scope.find(column) for column in item.tree.find_all(exp.Column)]
        whole = column_of(item.tree, scope) is not None
        if not whole and any(
            not isinstance(values[one], exp.Column) or given.columns[one] == UNKNOWN
            for one in columns
        ):
            return None
        tree = substituted(item.tree, scope, values)
        found.append(exp.alias_(tree, item.name, quoted=True).sql(DIALECT))
    return ", ".join(found)


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
