"""What a select query asks for besides its box and key: columns, conditions, groups, a window."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Literal

from everquery.queries.sql.literals import print_number, print_span
from everquery.queries.sql.quotes import print_name, print_string

COUNT_DISTINCT = "COUNT DISTINCT"
IN_TREES = ("COUNT", "SUM", "AVG", "MIN", "MAX")  # those that a ranked tree answers
FUNCTIONS = (*IN_TREES, "VAR_POP")  # as they are written

Number = int | float
BoundKind = Literal["now", "oldest", "ago", "rows_ago", "time", "row"]


def is_count(function: str | None) -> bool:
    """Tell whether an aggregate is a whole number, also of nothing."""
    return function in ("COUNT", COUNT_DISTINCT)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of one of the streams, by the place of the stream in ``FROM``."""

    side: int
    name: str


@dataclass(frozen=True, slots=True)
class Item:
    """What is selected: a column, an aggregate of one, or all columns.

    Attributes
    ----------
    function : str or None
        One of `FUNCTIONS`, or `COUNT_DISTINCT`.
    column : Column or None
        None for ``*``.
    alias : str or None
        What the answer calls it.
    """

    function: str | None
    column: Column | None
    alias: str | None = None


@dataclass(frozen=True, slots=True)
class Factor:
    """A comparison that no box says: ``left operator right + constant``, or with a constant alone.

    Attributes
    ----------
    left : Column
    operator : str
        ``=``, ``<``, ``<=``, ``>`` or ``>=``.
    right : Column or None
    constant : number or str
        What is added to `right`, or compared with; a string for a key.
    """

    left: Column
    operator: str
    right: Column | None
    constant: Number | str = 0.0

    @property
    def joins(self) -> bool:
        """Whether it compares columns of two streams."""
        return self.right is not None and self.right.side != self.left.side


@dataclass(frozen=True, slots=True)
class Having:
    """A condition on an aggregate of a group."""

    item: Item
    operator: str
    constant: float


@dataclass(frozen=True, slots=True)
class Bound:
    """Where a window begins or ends.

    Attributes
    ----------
    kind : str
        ``now``; ``oldest``, the oldest row that is kept; ``ago`` and ``rows_ago``, so much before
        now; ``time`` and ``row``, a time or a row's number that stays.
    amount : number, timedelta or str
        A time that stays is a number, or a text in ISO 8601.
    """

    kind: BoundKind
    amount: Number | timedelta | str = 0

    @property
    def by_rows(self) -> bool | None:
        """Whether it counts rows, or time; None if it fits both."""
        if self.kind in ("rows_ago", "row"):
            return True
        return False if self.kind in ("ago", "time") else None

    @property
    def moves(self) -> bool:
        """Whether it moves with now."""
        return self.kind in ("now", "ago", "rows_ago")

    def __str__(self) -> str:
        match self.kind:
            case "now" | "oldest":
                return self.kind.upper()
            case "ago":
                assert not isinstance(self.amount, str)
                return f"NOW - {print_span(self.amount)}"
            case "rows_ago":
                return f"NOW - {self.amount} ROWS"
            case "row":
                return f"{self.amount} ROWS"
            case _:
                if isinstance(self.amount, str):
                    return print_string(self.amount)
                assert not isinstance(self.amount, timedelta)
                return print_number(self.amount)


@dataclass(frozen=True, slots=True)
class Source:
    """A stream in ``FROM``, and what its columns are written with."""

    stream: str
    alias: str


@dataclass(frozen=True)
class Plan:
    """A select query without its box and its key.

    Attributes
    ----------
    items : tuple of Item
    distinct : bool
    sources : tuple of Source
        Two of a join. Of a query over one stream, the one that its text names, or none.
    factors : tuple of Factor
        Conditions that all hold, besides those of the box and the key.
    groups : tuple of Column
    having : tuple of Having
    begin, end : Bound
        Both belong to the window.
    """

    items: tuple[Item, ...]
    begin: Bound
    end: Bound
    distinct: bool = False
    sources: tuple[Source, ...] = ()
    factors: tuple[Factor, ...] = ()
    groups: tuple[Column, ...] = ()
    having: tuple[Having, ...] = ()

    @cached_property
    def joins(self) -> bool:
        """Whether it is over two streams."""
        return len(self.sources) == 2

    @cached_property
    def aggregates(self) -> bool:
        """Whether the answer is made of aggregates."""
        return bool(self.groups) or any(item.function for item in self.items)

    @cached_property
    def by_rows(self) -> bool:
        """Whether the window counts rows."""
        return bool(self.begin.by_rows or self.end.by_rows)

    @cached_property
    def named_items(self) -> list[tuple[str, Item]]:
        """What is selected, by what the answer calls it."""
        return [(self.name_of(item), item) for item in self.items]

    @property
    def window(self) -> str:
        """What moves: nothing of a snapshot, the end of a landmark, both ends of a sliding one."""
        if self.begin.moves:
            return "sliding"
        return "landmark" if self.end.moves else "snapshot"

    def name_of(self, item: Item) -> str:
        """Return what the answer calls an item."""
        if item.alias is not None:
            return item.alias
        if item.column is None:
            return "count"
        name = item.column.name
        if self.joins and self._is_shared(item):
            name = f"{self.sources[item.column.side].alias}_{name}"
        if item.function is None:
            return name
        return f"{item.function.lower().replace(' ', '_')}_{name}"

    def _is_shared(self, item: Item) -> bool:
        column = item.column
        return any(
            other.column is not None
            and column is not None
            and other.column.name == column.name
            and other.column.side != column.side
            for other in self.items
        )

    def text_of(self, column: Column) -> str:
        """Return a column as SQL writes it."""
        name = print_name(column.name)
        return f"{print_name(self.sources[column.side].alias)}.{name}" if self.joins else name


def print_item(plan: Plan, item: Item) -> str:
    """Return an item of ``SELECT`` or ``HAVING``."""
    inner = "*" if item.column is None else plan.text_of(item.column)
    if item.function == COUNT_DISTINCT:
        text = f"COUNT(DISTINCT {inner})"
    else:
        text = inner if item.function is None else f"{item.function}({inner})"
    return text if item.alias is None else f"{text} AS {print_name(item.alias)}"


def print_factor(plan: Plan, factor: Factor) -> str:
    """Return a condition."""
    left = f"{plan.text_of(factor.left)} {factor.operator} "
    if factor.right is None:
        constant = factor.constant
        return left + (print_string(constant) if isinstance(constant, str) else _number(constant))
    assert not isinstance(factor.constant, str)
    left += plan.text_of(factor.right)
    if not factor.constant:
        return left
    sign = "-" if factor.constant < 0 else "+"
    return f"{left} {sign} {print_number(abs(factor.constant))}"


def _number(value: Number) -> str:
    return print_number(value)


def print_plan(plan: Plan, *, stream: str | None = None, conditions: tuple[str, ...] = ()) -> str:
    """Return a plan as a text that reads back equal.

    Parameters
    ----------
    stream : str, optional
        The stream of a query over one, for a whole statement.
    conditions : texts
        Those of the box and the key, for a whole statement.
    """
    parts = ["SELECT DISTINCT" if plan.distinct else "SELECT"]
    parts.append(", ".join(print_item(plan, item) for item in plan.items))
    if plan.sources:
        named = (
            print_name(source.stream)
            if source.alias == source.stream
            else f"{print_name(source.stream)} AS {print_name(source.alias)}"
            for source in plan.sources
        )
        parts.append(f"FROM {', '.join(named)}")
    elif stream is not None:
        parts.append(f"FROM {print_name(stream)}")
    where = [*conditions, *(print_factor(plan, factor) for factor in plan.factors)]
    if where:
        parts.append(f"WHERE {' AND '.join(where)}")
    if plan.groups:
        parts.append(f"GROUP BY {', '.join(map(plan.text_of, plan.groups))}")
    if plan.having:
        held = (
            f"{print_item(plan, each.item)} {each.operator} {print_number(each.constant)}"
            for each in plan.having
        )
        parts.append(f"HAVING {' AND '.join(held)}")
    parts.append(f"BEGIN {plan.begin} END {plan.end}")
    return " ".join(parts)
