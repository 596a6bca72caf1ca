"""Random networks of two to six boxes, each with what the oracle says that it gives."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

import everquery as eq
from everquery import network as n
from everquery.network.spec import Box
from tests.unit.network import oracle as o

BEGINNING = dt.datetime(1970, 1, 1) + dt.timedelta(seconds=27_720 * 61_500)
"""What is second 0 for the oracle: a multiple of 1 to 12 seconds, so that windows start there."""


class World:
    """A network over two streams, the rows of both, and what each output should give.

    Times are whole numbers, quarters, or timestamps of full seconds.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.clock = self.random.choice(["whole", "whole", "quarter", "timestamp"])
        self.boxes: dict[str, Box] = {}
        self.notices: dict[str, list[o.Row]] = {}
        self._names = 0
        key = {"key": "k", "time": "t"}
        self.arrows = {
            "s": o.Arrow(self._rows("x", "o"), _kinds("x", "o"), time="t", key="k"),
            "r": o.Arrow(self._rows("y"), _kinds("y"), time="t", key="k"),
        }
        self.streams = [
            eq.Stream("s", **key, attributes=["x", "o"]),
            eq.Stream("r", **key, attributes=["y"]),
        ]
        self.given = {name: self._batch(arrow) for name, arrow in self.arrows.items()}
        while len(self.boxes) < self.random.randint(2, 6):
            self._add()
        self.network = eq.Network("n", self.streams, self.boxes, self._outputs())

    def _rows(self, *columns: str) -> list[o.Row]:
        pick, time, reached, rows = self.random, 0.0 if self.clock == "quarter" else 0, 0.0, []
        names = "abcdefgh"[: pick.randint(1, 6)]
        for _ in range(pick.randint(0, 40)):
            time += pick.randint(0, 9) / 4 if self.clock == "quarter" else pick.randint(0, 4)
            row = {"k": pick.choice(names), "t": time}
            for column in columns:
                row[column] = None if pick.random() < 0.1 else pick.randint(-8, 40) / 4
            if "o" in row:
                reached += pick.randint(0, 3) / 2
                row["o"] = None if pick.random() < 0.05 else reached
            rows.append(row)
        return rows

    def _batch(self, arrow: o.Arrow) -> pa.Table:
        rows = arrow.rows
        if self.clock == "timestamp":
            rows = [{**row, "t": BEGINNING + dt.timedelta(seconds=row["t"])} for row in rows]
        times = {"whole": pa.int64(), "quarter": pa.float64(), "timestamp": pa.timestamp("ns")}
        types = {"number": pa.float64(), "text": pa.string(), "time": times[self.clock]}
        unknown = float("nan") if self.random.random() < 0.3 else None
        columns = {}
        for name, kind in arrow.kinds.items():
            values = [row[name] for row in rows]
            if kind == "number":
                values = [unknown if value is None else value for value in values]
            columns[name] = pa.array(values, types[kind])
        return pa.table(columns)

    def _outputs(self) -> dict[str, str]:
        read = {source for box in self.boxes.values() for source in box.sources}
        ends = [name for name in self.boxes if name not in read or self.random.random() < 0.15]
        return {f"out_{name}": name for name in ends}

    def _add(self) -> None:
        often = [self._filter, self._map] * 2
        two = [self._union, self._join, self._resample]
        windows = [self._tumble, self._slide, self._latch]
        make = self.random.choice([*often, *two, *windows, self._drop, self._watch])
        name = f"b{len(self.boxes)}"
        found = make()
        if found is not None:
            self.boxes[name] = found[0]
            if isinstance(found[1], o.Arrow):
                self.arrows[name] = found[1]
            else:
                self.notices[name] = found[1]

    def _new(self) -> str:
        self._names += 1
        return f"v{self._names}"

    def _pick(self, test: Callable[[o.Arrow], bool] = lambda _: True) -> str | None:
        fit = [name for name, arrow in self.arrows.items() if test(arrow)]
        fit += [name for name in fit if name.startswith("b")] * 2
        return self.random.choice(fit) if fit else None

    # -- expressions --------------------------------------------------------------------------

    def _number(self, arrow: o.Arrow) -> o.Term:
        names = arrow.of_kind("number", "whole")
        if not names:
            return o.Term("1.5", lambda row: 1.5)
        c, d = self.random.choice(names), self.random.choice(names)
        return self.random.choice(
            [
                o.Term(f"{c} * 2 + 1.5", lambda row: _with(row[c], lambda v: v * 2 + 1.5)),
                o.Term(f"abs({c})", lambda row: _with(row[c], abs), arrow.kinds[c]),
                o.Term(f"-{c}", lambda row: _with(row[c], lambda v: -v), arrow.kinds[c]),
                o.Term(f"coalesce({c}, 0.5)", lambda row: 0.5 if row[c] is None else row[c]),
                o.Term(
                    f"CASE WHEN {c} > 3 THEN 1.5 ELSE {d} END",
                    lambda row: 1.5 if row[c] is not None and row[c] > 3 else row[d],
                ),
                o.Term(f"{c} / 4", lambda row: _with(row[c], lambda v: v / 4)),
                o.Term(f"12.0 / {c}", lambda row: _with(row[c], _twelfth)),
                o.Term(
                    f"{c} - {d}",
                    lambda row: None if None in (row[c], row[d]) else row[c] - row[d],
                ),
                o.Term(f"nullif({c}, 2.5)", lambda row: None if row[c] == 2.5 else row[c]),
            ]
        )

    def _condition(self, arrow: o.Arrow) -> o.Term:
        kinds = [self._compared, self._compared, self._text]
        one = self.random.choice(kinds)(arrow)
        if self.random.random() < 0.4:
            other = self.random.choice(kinds)(arrow)
            word = self.random.choice(["AND", "OR"])
            return o.Term(
                f"({one.sql}) {word} ({other.sql})", lambda row: _logic(word, one, other, row)
            )
        if self.random.random() < 0.2:
            return o.Term(f"NOT ({one.sql})", lambda row: _with(one.function(row), lambda v: not v))
        return one

    def _compared(self, arrow: o.Arrow) -> o.Term:
        value, number = self.random.randint(-4, 30) / 4, self._number(arrow)
        tests = {"<": lambda v: v < value, ">=": lambda v: v >= value, "=": lambda v: v == value}
        word = self.random.choice([*tests, "IS NULL"])
        if word == "IS NULL":
            return o.Term(f"({number.sql}) IS NULL", lambda row: number.function(row) is None)
        return o.Term(
            f"{number.sql} {word} {value}", lambda row: _with(number.function(row), tests[word])
        )

    def _text(self, arrow: o.Arrow) -> o.Term:
        names = arrow.of_kind("text")
        if not names:
            return self._compared(arrow)
        c = self.random.choice(names)
        if self.random.random() < 0.5:
            return o.Term(f"{c} <> 'a'", lambda row: _with(row[c], lambda v: v != "a"))
        return o.Term(f"{c} IN ('a', 'b')", lambda row: _with(row[c], lambda v: v in "ab"))

    # -- boxes --------------------------------------------------------------------------------

    def _filter(self) -> tuple[Box, o.Arrow]:
        name = self._pick()
        condition = self._condition(self.arrows[name])
        return n.Filter(name, where=condition.sql), o.filtered(self.arrows[name], condition)

    def _map(self) -> tuple[Box, o.Arrow]:
        name = self._pick()
        arrow = self.arrows[name]
        items = {
            c: o.Term(c, lambda row, c=c: row[c], kind)
            for c, kind in arrow.kinds.items()
            if self.random.random() < (0.95 if c in (arrow.time, arrow.key) else 0.6)
        }
        items |= {self._new(): self._number(arrow) for _ in range(self.random.randint(1, 2))}
        select = ", ".join(f"{term.sql} AS {c}" for c, term in items.items())
        return n.Map(name, select=select), o.mapped(arrow, items)

    def _union(self) -> tuple[Box, o.Arrow] | None:
        name = self._pick()
        kinds = self.arrows[name].kinds
        others = [one for one in self.arrows if one != name and self.arrows[one].kinds == kinds]
        if not others:
            return None
        other = self.random.choice(others)
        return n.Union([name, other]), o.united([self.arrows[name], self.arrows[other]])

    def _join(self) -> tuple[Box, o.Arrow] | None:
        names = self._pick(lambda one: bool(one.time)), self._pick(lambda one: bool(one.time))
        left, right = (self.arrows[name] for name in names)
        if len(left.rows) * len(right.rows) > 4000:
            return None
        equal = self._equal(left, right)
        rest = self._across(left, right) if self.random.random() < 0.3 else None
        items = {
            self._new(): (side, c) for side, one in enumerate((left, right)) for c in one.kinds
        }
        items = {c: place for c, place in items.items() if place[1] or self.random.random() < 0.7}
        select = ", ".join(f"{'lr'[side]}.{own} AS {c}" for c, (side, own) in items.items())
        on = [f"l.{a} = r.{b}" for a, b in equal] + ([rest.sql] if rest else [])
        near = o.Near(
            self.random.choice([0.5, 2, 5]) if self.clock == "quarter" else 3, equal, rest, items
        )
        box = n.Join(
            list(names),
            within={"time": near.within},
            on=" AND ".join(on) or None,
            names=["l", "r"],
            select=select,
        )
        return box, o.joined(left, right, near)

    def _equal(self, left: o.Arrow, right: o.Arrow) -> list[tuple[str, str]]:
        pairs = [
            (a, b)
            for a, kind in left.kinds.items()
            for b, other in right.kinds.items()
            if kind == other or {kind, other} == {"number", "whole"}
        ]
        return self.random.sample(pairs, min(len(pairs), self.random.choice([0, 1, 1, 2])))

    def _across(self, left: o.Arrow, right: o.Arrow) -> o.Term | None:
        a, b = left.of_kind("number", "whole"), right.of_kind("number", "whole")
        if not a or not b:
            return None
        c, d = self.random.choice(a), self.random.choice(b)
        return o.Term(
            f"l.{c} < r.{d}",
            lambda pair: None if None in (pair[0][c], pair[1][d]) else pair[0][c] < pair[1][d],
        )

    def _resample(self) -> tuple[Box, o.Arrow] | None:
        first, second = (self._pick(lambda one: bool(one.time)) for _ in "ab")
        values, moments = self.arrows[first], self.arrows[second]
        both = [c for c in values.of_kind("text") if moments.kinds.get(c) == "text"]
        by = tuple(both[: self.random.randint(0, 1)])
        predict: dict[str, Any] = {self._new(): o.Term("count(*)", len, "whole")}
        numbers = values.of_kind("number")
        if numbers:
            column = self.random.choice(numbers)
            predict[self._new()] = o.aggregate("max", column, "number")
            if values.placed:
                predict[self._new()] = (self.random.choice(["previous", "nearest"]), column)
        text = ", ".join(
            f"{how.sql if isinstance(how, o.Term) else f'{how[0]}({how[1]})'} AS {c}"
            for c, how in predict.items()
        )
        within = self.random.choice([1, 4])
        box = n.Resample([first, second], within={"time": within}, by=by, predict=text)
        return box, o.resampled(values, moments, within, by, predict)

    def _drop(self) -> tuple[Box, o.Arrow] | None:
        name = self._pick()
        arrow, how = self.arrows[name], self.random.choice(["rows", "time", "rate"])
        if (how == "time" and not arrow.time) or (how != "time" and not arrow.placed):
            return None
        if how == "rate":
            rate = self.random.choice([0, 0.25, 0.5, 0.625, 1])
            return n.Drop(name, rate=rate), o.dropped(arrow, rate=rate)
        size = self.random.randint(1, 4)
        return n.Drop(name, every={how: size}), o.dropped(arrow, **{how: size})

    def _window(self, *, slide: bool, latch: bool = False) -> tuple[str, o.Windows] | None:
        name = self._pick()
        arrow = self.arrows[name]
        ways = ["time"] if arrow.time else []
        ways += ["rows"] if arrow.placed else []
        ways += ["distance"] if arrow.placed and "o" in arrow.kinds else []
        if not ways:
            return None
        by = self.random.choice(ways)
        groups = tuple(arrow.of_kind("text")[: self.random.randint(0, 1)])
        size = self.random.choice([1, 2.5, 4]) if by == "distance" else self.random.randint(1, 12)
        step = self.random.choice([None, 1, 3, size]) if slide else None
        items = {self._new(): o.Term("count(*)", len, "whole")}
        for column in arrow.of_kind("number", "whole")[:2]:
            barred = (o.NOT_LATCHED if latch else set()) | (set() if arrow.placed else o.BY_ORDER)
            word = self.random.choice([one for one in o.AGGREGATES if one not in barred])
            items[self._new()] = o.aggregate(word, column, arrow.kinds[column])
        return name, o.Windows(
            by, size, groups, items, step, "o" if by == "distance" else None, latch
        )

    def _boxed(self, kind: type[Box], *, latch: bool = False) -> tuple[Box, o.Arrow] | None:
        slide = kind is n.Slide
        found = self._window(slide=slide, latch=latch)
        if found is None:
            return None
        name, how = found
        arrow = self.arrows[name]
        on = {"on": how.on} if how.on else {}
        size = {how.by: how.size} | on
        sizes = {"last": size} if slide else {"every": size}
        if how.step:
            sizes["every"] = {how.by: how.step} | on
        select = ", ".join([*how.groups, *(f"{term.sql} AS {c}" for c, term in how.items.items())])
        by: Any = how.groups
        if how.groups and self.random.random() < 0.3:
            self.boxes[f"{name}_g{self._new()}"] = n.GroupBy(name, by=how.groups)
            name, by = list(self.boxes)[-1], None
            self.arrows[name] = arrow
        return kind(name, by=by, select=select, **sizes), o.windowed(arrow, how, slide=slide)

    def _tumble(self) -> tuple[Box, o.Arrow] | None:
        return self._boxed(n.Tumble)

    def _slide(self) -> tuple[Box, o.Arrow] | None:
        return self._boxed(n.Slide)

    def _latch(self) -> tuple[Box, o.Arrow] | None:
        return self._boxed(n.Latch, latch=True)

    def _watch(self) -> tuple[Box, list[o.Row]] | None:
        name = self._pick(lambda one: one.placed and bool(one.key and one.of_kind("number")))
        arrow = self.arrows[name]
        column, low = self.random.choice(arrow.of_kind("number")), self.random.randint(-2, 5)
        border = self.random.random() < 0.5
        emit = "ENTER, LEAVE" if border else "MATCHES"
        query = (
            f"CREATE STANDING QUERY q AS SELECT * FROM w WHERE {column} >= {low} AND"
            f" {column} < {low + 4} EMIT {emit}"
        )
        box = n.Watch(name, queries=[query], stream="w")
        return box, o.watched(arrow, column, low, low + 4, border=border)

    # -- what it should give ------------------------------------------------------------------

    def expected(self) -> dict[str, list[o.Row]]:
        """Return the rows of every output, as the oracle says."""
        found = {}
        for output, name in self._ends():
            arrow = self.arrows.get(name)
            found[output] = self.notices[name] if arrow is None else arrow.rows
        return found

    def _ends(self) -> Iterator[tuple[str, str]]:
        for output, end in self.network.outputs.items():
            yield output, end.source

    def ordered(self, output: str) -> bool:
        """Tell whether the order of an output's rows is the same in every run."""
        name = self.network.outputs[output].source
        return name in self.notices or self.arrows[name].ordered


def _kinds(*numbers: str) -> dict[str, str]:
    return {"k": "text", "t": "time", **dict.fromkeys(numbers, "number")}


def _with(value: Any, function: Callable[[Any], Any]) -> Any:
    return None if value is None else function(value)


def _twelfth(value: float) -> float:
    if value == 0:
        raise o.FailedError
    return 12.0 / value


def _logic(word: str, one: o.Term, other: o.Term, row: Any) -> bool | None:
    found = {one.function(row), other.function(row)}
    decides = word == "OR"
    if decides in found:
        return decides
    return None if None in found else not decides
