"""A chain of filters and maps as one box: every expression over the columns of its input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from everquery.network.boxes.filter import Filter
from everquery.network.boxes.map import Map
from everquery.network.expressions.compiled import Columns, Compiled
from everquery.network.expressions.compiler import compile_tree
from everquery.network.expressions.lists import scope_of
from everquery.network.expressions.parsing import parse
from everquery.network.expressions.scope import Scope
from everquery.network.expressions.types import NUMBER
from everquery.network.operator import FAILURES, Operator, without_nan
from everquery.network.optimizer.numbers import Formula, NumberChain, formula
from everquery.network.rows import BEGINNING, END, Flow, RowType, columns_of
from everquery.network.runtime.figures import Figures
from everquery.network.spec import Box

BLOCK = 65_536  # rows whose columns stay in the processor's cache between expressions
FEW = 0.5  # of a block: below this share, further conditions look at the rows that are left alone
_GROWING = (exp.Mul, exp.Div, exp.Pow)  # what may make large numbers of small ones


@dataclass(frozen=True)
class Fused(Box):
    """Filters and maps in a row, none of whose expressions can fail.

    Parameters
    ----------
    members : tuple of (str, Box)
        In the order of their arrows.
    first : tuple of str
        Filters whose conditions are looked at first, in this order; the others follow as they are.
    """

    members: tuple[tuple[str, Box], ...] = field(default=(), kw_only=True)
    first: tuple[str, ...] = field(default=(), kw_only=True)
    kind = "fused"

    def types(self, inputs: Sequence[RowType]) -> list[RowType]:
        """Return the type of rows in front of each member, and behind the last."""
        found = [inputs[0]]
        for _, box in self.members:
            found.append(box.infer([found[-1]]))
        return found

    def infer(self, inputs: Sequence[RowType]) -> RowType:
        """Return the type that the last member gives."""
        return self.types(inputs)[-1]

    def operator(self, inputs: Sequence[RowType], output: RowType) -> Operator:
        """Return what runs it."""
        return FusedOperator(self, inputs, output)


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of a filter, over the columns of the chain's input."""

    member: str
    tree: exp.Expression
    compiled: Compiled


class Lazy(dict[str, Any]):
    """Columns, and expressions that several others share: computed when first asked for."""

    def __init__(self, columns: Mapping[str, Any], shared: Mapping[str, Compiled]) -> None:
        super().__init__(columns)
        self._shared = shared

    def __missing__(self, name: str) -> Any:  # noqa: ANN401 - an Arrow array
        self[name] = found = self._shared[name].run(self)
        return found


class FusedOperator(Operator):
    """A running chain."""

    stateless = True

    def __init__(self, spec: Fused, inputs: Sequence[RowType], output: RowType) -> None:
        super().__init__(inputs, output)
        self._spec = spec
        self.figures = {name: Figures() for name, _ in spec.members}
        self.rebind(inputs, output)

    def rebind(self, inputs: Sequence[RowType], output: RowType) -> None:
        """Write all expressions over the columns of the input."""
        super().rebind(inputs, output)
        types = self._spec.types(inputs)
        conditions, values = composed(self._spec, types)
        ranks = {name: at for at, name in enumerate(self._spec.first)}
        conditions.sort(key=lambda one: ranks.get(one[0], len(ranks)))
        trees = [*(tree for _, tree in conditions), *values.values()]
        shared, trees = share(trees)
        scope = Scope(inputs[0].columns)
        self._shared: dict[str, Compiled] = {}
        for name, tree in shared.items():
            found = compile_tree(tree, scope)
            self._shared[name] = found
            scope = Scope({**scope.columns, name: found.type})
        compiled = [compile_tree(tree, scope) for tree in trees]
        tests = zip(conditions, compiled, strict=False)
        self._conditions = [Condition(name, tree, test) for (name, tree), test in tests]
        self._values = dict(zip(values, compiled[len(conditions) :], strict=True))
        self._operators = [
            box.operator([types[at]], types[at + 1])
            for at, (_, box) in enumerate(self._spec.members)
        ]
        self._needed = self._closure([value.reads for value in self._values.values()])
        self._numbers = self._number_chain(shared, trees, conditions, list(values))
        reads = self._closure([one.reads for one in compiled])
        self._bounded = [name for name in reads if inputs[0].columns[name] == NUMBER]
        products = sum(isinstance(node, _GROWING) for tree in trees for node in tree.walk())
        self._bound = 10.0 ** (300 // (2 + products))

    def _number_chain(
        self,
        shared: Mapping[str, exp.Expression],
        trees: Sequence[exp.Expression],
        conditions: Sequence[tuple[str, exp.Expression]],
        names: Sequence[str],
    ) -> NumberChain | None:
        """Return the chain as NumPy runs it, if all that it computes are numbers."""
        types = {**self.inputs[0].columns, **dict.fromkeys(shared, NUMBER)}
        parts = {name: formula(tree, types) for name, tree in shared.items()}
        found = [formula(tree, types) for tree in trees]
        tests, computed = found[: len(conditions)], found[len(conditions) :]
        plain = [
            tree.name if isinstance(tree, exp.Column) and tree.name not in shared else None
            for tree in trees[len(conditions) :]
        ]
        values: dict[str, Formula | str] = {}
        for name, value, column in zip(names, computed, plain, strict=True):
            if column is not None:
                values[name] = column
            elif value is not None and not value[1]:
                values[name] = value[0]
            else:
                return None
        if any(part is None or part[1] for part in parts.values()):
            return None
        if any(test is None or not test[1] for test in tests):
            return None
        needs = [test.compiled.reads for test in self._conditions]
        ends = [self._values[name].reads for name, one in values.items() if callable(one)]
        return NumberChain(
            [(name, test[0]) for (name, _), test in zip(conditions, tests, strict=True) if test],
            values,
            {name: part[0] for name, part in parts.items() if part},
            [self._closure([*needs[at + 1 :], *ends]) for at in range(len(needs))],
            self._closure([*needs, *ends]),
        )

    def _closure(self, reads: Sequence[frozenset[str]]) -> list[str]:
        """Return the columns of the input that expressions read, through shared ones too."""
        todo, found = {name for some in reads for name in some}, set()
        while todo:
            name = todo.pop()
            if name in self._shared:
                todo |= self._shared[name].reads
            else:
                found.add(name)
        return [name for name in self.inputs[0].columns if name in found]

    def process(self, flows: Sequence[Flow]) -> Flow:
        """Return what the chain gives."""
        (flow,) = flows
        clock = flow.clock if self.output.time or flow.clock == END else BEGINNING
        if not flow.rows.num_rows:
            return Flow(self.output.empty(), clock)
        try:
            if self._stays_finite(flow.rows):
                return Flow(self._fast(flow.rows), clock)
        except FAILURES:
            pass  # box by box, which finds the rows
        return Flow(self._slow(flow), clock)

    def _stays_finite(self, rows: pa.Table) -> bool:
        """Tell whether no part of the chain can be infinite, or the difference of infinities.

        That difference is unknown behind a map, and must not go on as NaN inside an expression.
        """
        for name in self._bounded:
            ends = pc.min_max(rows.column(name)).as_py()
            if ends["min"] is not None and max(-ends["min"], ends["max"]) > self._bound:
                return False
        return True

    def _fast(self, rows: pa.Table) -> pa.Table:
        columns = columns_of(rows)
        if self._numbers is not None:
            arrays = self._numbers.run(columns, self.figures)
            if arrays is not None:
                return pa.table(arrays, names=list(self._values))
        pieces = []
        for begin in range(0, rows.num_rows, BLOCK):
            count = min(BLOCK, rows.num_rows - begin)
            part = {name: column.slice(begin, count) for name, column in columns.items()}
            pieces.append(self._block(part, count))
        names = list(self._values)
        if len(pieces) == 1:
            return pa.table(pieces[0], names=names)
        arrays = [pa.chunked_array(parts) for parts in zip(*pieces, strict=True)]
        return pa.table(arrays, names=names)

    def _block(self, columns: Columns, count: int) -> list[Any]:
        """Return the values for one block of rows."""
        left, mask = count, None
        known = Lazy(columns, self._shared)
        for condition in self._conditions:
            began = perf_counter()
            found = condition.compiled.array(known, left)
            figures = self.figures[condition.member]
            figures.seconds += perf_counter() - began
            figures.rows_in += left
            mask = found if mask is None else pc.and_kleene(mask, found)
            passed = pc.sum(mask).as_py() or 0
            figures.rows_out += passed
            if passed < FEW * left:
                known, left, mask = self._picked(known, mask, self._later(condition)), passed, None
        if mask is not None:
            left = pc.sum(mask).as_py() or 0
            if left < len(mask):
                known = self._picked(known, mask, self._needed)
        found = [value.array(known, left) for value in self._values.values()]
        return [without_nan(one) if pa.types.is_floating(one.type) else one for one in found]

    def _later(self, condition: Condition) -> list[str]:
        """Return the columns that are needed behind a condition."""
        at = self._conditions.index(condition)
        return self._closure(
            [
                *(later.compiled.reads for later in self._conditions[at + 1 :]),
                *(value.reads for value in self._values.values()),
            ]
        )

    def _picked(self, columns: Columns, mask: pa.Array, names: Sequence[str]) -> Lazy:
        return Lazy({name: columns[name].filter(mask) for name in names}, self._shared)

    def _slow(self, flow: Flow) -> pa.Table:
        for operator in self._operators:
            flow = operator.process([flow])
            for reason, row in operator.letters.kept:
                self.letters.kept.append((reason, row))
            for reason, count in operator.letters.counts.items():
                self.letters.counts[reason] = self.letters.counts.get(reason, 0) + count
            operator.letters = type(operator.letters)()
        return flow.rows


def composed(
    spec: Fused, types: Sequence[RowType]
) -> tuple[list[tuple[str, exp.Expression]], dict[str, exp.Expression]]:
    """Return the conditions and the values of a chain, over the columns of its input."""
    values: dict[str, exp.Expression] = {
        name: exp.column(name, quoted=True) for name in types[0].columns
    }
    conditions: list[tuple[str, exp.Expression]] = []
    for (name, box), rows in zip(spec.members, types, strict=False):
        scope = scope_of(dict(rows.columns), *box.sources)
        if isinstance(box, Filter):
            assert isinstance(box.where, str)
            conditions += [
                (name, substituted(part, scope, values)) for part in conjuncts(parse(box.where))
            ]
        elif isinstance(box, Map):
            _, items = box.items(rows)
            values = {item.name: substituted(item.tree, scope, values) for item in items}
    return conditions, values


def conjuncts(tree: exp.Expression) -> list[exp.Expression]:
    """Return the conditions that one of several, joined by AND, is made of."""
    while isinstance(tree, exp.Paren):
        tree = tree.this
    if isinstance(tree, exp.And):
        return [*conjuncts(tree.this), *conjuncts(tree.expression)]
    return [tree]


def substituted(
    tree: exp.Expression, scope: Scope, values: Mapping[str, exp.Expression]
) -> exp.Expression:
    """Return an expression with the values of columns in their places."""

    def put(node: exp.Expression) -> exp.Expression:
        if not isinstance(node, exp.Column):
            return node
        value = values[scope.find(node)].copy()
        return value if isinstance(value, (exp.Column, exp.Literal)) else exp.Paren(this=value)

    return tree.copy().transform(put)


def share(
    trees: Sequence[exp.Expression],
) -> tuple[dict[str, exp.Expression], list[exp.Expression]]:
    """Return the expressions that occur more than once, by new names, and all that use them."""
    shared: dict[str, exp.Expression] = {}
    trees = [tree.copy() for tree in trees]
    while True:
        counts: dict[str, int] = {}
        examples: dict[str, exp.Expression] = {}
        for tree in trees:
            for node in tree.walk():
                if _worth(node):
                    text = node.sql()
                    counts[text] = counts.get(text, 0) + 1
                    examples.setdefault(text, cast("exp.Expression", node))
        often = [text for text, count in counts.items() if count > 1]
        if not often:
            return shared, trees
        text = min(often, key=len)  # the smallest first: larger ones are made of it
        name = f"_s{len(shared)}"
        shared[name] = examples[text].copy()

        def put(node: exp.Expression, text: str = text, name: str = name) -> exp.Expression:
            return exp.column(name) if _worth(node) and node.sql() == text else node

        trees = [tree.transform(put) for tree in trees]


def _worth(node: object) -> bool:
    """Tell whether an expression is worth keeping: it computes something."""
    leaf = (exp.Column, exp.Literal, exp.Identifier, exp.Paren, exp.Null, exp.Boolean, exp.DataType)
    branch = isinstance(node, exp.If) and isinstance(node.parent, exp.Case)  # WHEN ... THEN ...
    return isinstance(node, exp.Condition) and not isinstance(node, leaf) and not branch
