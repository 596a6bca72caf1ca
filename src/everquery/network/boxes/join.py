"""Join: pairs of rows of two arrows that are near each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from everquery.errors import InvalidNetworkError
from everquery.network.boxes.join_operator import JoinOperator
from everquery.network.expressions.lists import Item, alias, compile_condition, compiled, read_items
from everquery.network.expressions.parsing import parse
from everquery.network.expressions.scope import Scope
from everquery.network.expressions.types import meet
from everquery.network.operator import Operator
from everquery.network.rows import RowType
from everquery.network.spec import Box
from everquery.network.windows import TIME, Window


@dataclass(frozen=True)
class JoinPlan:
    """A join, read and checked.

    Attributes
    ----------
    equal : list of (str, str)
        Columns of the left and of the right that are equal.
    rest : list of expressions
        What else the condition asks for, over the columns of pairs.
    pair : dict of str to (int, str)
        The columns of a pair: of which side, and their names there.
    scope : Scope
    items : list of Item
        The columns of the output.
    """

    equal: list[tuple[str, str]]
    rest: list[exp.Expression]
    pair: dict[str, tuple[int, str]]
    scope: Scope
    items: list[Item]


@dataclass(frozen=True)
class Join(Box):
    """Give every pair of a row of the first arrow and one of the second that are near each other.

    A pair is given as soon as both rows are there. Columns that `on` says are equal, and that have
    one name, come once; another column of the second arrow whose name the first has too gets the
    name of its box in front: ``box_column``.

    Parameters
    ----------
    within : Window
        How far the index of one may be from that of the other, at most.
    on : str, optional
        A condition on both; columns are written ``box.column``.
    select : str, optional
        The columns of the output; all of both without it.
    names : two names, optional
        What `on` and `select` call the two arrows, if not by the boxes that they come from. So a
        box may be joined with itself.

    Examples
    --------
    >>> Join(["bids", "asks"], within={"time": 1}, on="bids.symbol = asks.symbol").kind
    'join'
    """

    on: str | None = field(default=None, kw_only=True)
    within: Window = field(kw_only=True, metadata={"window": True})
    select: str | None = field(default=None, kw_only=True)
    names: Sequence[str] | None = field(default=None, kw_only=True, metadata={"names": True})
    kind = "join"
    arity = (2, 2)

    def plan(self, inputs: Sequence[RowType]) -> JoinPlan:
        """Return the join, read and checked for rows of these types."""
        names = [alias(name) for name in self.sources] if self.names is None else self.names
        if len(names) != 2 or names[0] == names[1]:
            raise InvalidNetworkError(
                f"the two sides of the join are called {' and '.join(names)}; give each a name of"
                " its own: names: [first, second]"
            )
        parts = [] if self.on is None else list(_conjuncts(parse(self.on)))
        equal, rest = [], []
        for part in parts:
            sides = _equality(part, names, inputs)
            if sides is None:
                rest.append(part)
            else:
                equal.append(sides)
                kinds = inputs[0].columns[sides[0]], inputs[1].columns[sides[1]]
                meet(*kinds, part.sql("duckdb"))
        pair, scope = _pair_scope(names, inputs, equal)
        for part in rest:
            compile_condition(part, scope)
        items = [Item(name, exp.column(name, quoted=True)) for name in pair if "." not in name]
        if self.select is not None:
            items = read_items(self.select, [item.name for item in items])
        else:
            items = [_named(name, side, names) for name, (side, _) in pair.items()]
        return JoinPlan(equal, rest, pair, scope, items)

    def infer(self, inputs: Sequence[RowType]) -> RowType:
        """Return the columns of both."""
        for source, rows in zip(self.sources, inputs, strict=True):
            self.within.column(rows, source)
        plan = self.plan(inputs)
        columns = {item.name: compiled(item.tree, plan.scope).type for item in plan.items}
        came = {
            _found(item.tree, plan.scope): item.name
            for item in plan.items
            if isinstance(item.tree, exp.Column)
        }
        time = came.get(inputs[0].time) if inputs[0].time and self.within.by == TIME else None
        return RowType(columns, key=came.get(inputs[0].key) if inputs[0].key else None, time=time)

    def operator(self, inputs: Sequence[RowType], output: RowType) -> Operator:
        """Return what runs it."""
        return JoinOperator(self, inputs, output)


def _found(tree: exp.Expression, scope: Scope) -> str:
    assert isinstance(tree, exp.Column)
    return tree.name if tree.name in scope.columns and not tree.table else scope.find(tree)


def _conjuncts(tree: exp.Expression) -> list[exp.Expression]:
    while isinstance(tree, exp.Paren):
        tree = tree.this
    if isinstance(tree, exp.And):
        return [*_conjuncts(tree.this), *_conjuncts(tree.expression)]
    return [tree]


def _equality(
    tree: exp.Expression, names: Sequence[str], inputs: Sequence[RowType]
) -> tuple[str, str] | None:
    """Return the columns of left and right that a condition equates; None if it does not."""
    if not isinstance(tree, exp.EQ):
        return None
    sides: dict[int, str] = {}
    for part in (tree.this, tree.expression):
        if not isinstance(part, exp.Column):
            return None
        for side, name in enumerate(names):
            if part.table == name and part.name in inputs[side].columns:
                sides[side] = part.name
    return (sides[0], sides[1]) if len(sides) == 2 else None


def _pair_scope(
    names: Sequence[str], inputs: Sequence[RowType], equal: list[tuple[str, str]]
) -> tuple[dict[str, tuple[int, str]], Scope]:
    """Return the columns of a pair, and how expressions may name them."""
    left, right = inputs
    pair = {name: (0, name) for name in left.columns}
    qualified = {(names[0], name): name for name in left.columns}
    ambiguous = set()
    for name in right.columns:
        if name not in left.columns:
            pair[name] = (1, name)
            qualified[names[1], name] = name
        elif (name, name) in equal:
            qualified[names[1], name] = name
        else:
            pair[f"{names[1]}.{name}"] = (1, name)
            qualified[names[1], name] = f"{names[1]}.{name}"
            ambiguous.add(name)
    kinds = {name: inputs[side].columns[own] for name, (side, own) in pair.items()}
    return pair, Scope(kinds, qualified, frozenset(ambiguous))


def _named(name: str, side: int, names: Sequence[str]) -> Item:
    """Return a column of the pair as an item of the output."""
    box, dot, own = name.partition(".")
    if dot and box == names[1]:
        return Item(f"{box}_{own}", exp.column(own, table=box, quoted=True))
    return Item(name, exp.column(name, table=names[side], quoted=True))
