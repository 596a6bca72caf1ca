"""What select queries answer and tell, computed anew in plain Python from docs/past-and-future.md.

It shares no code with the engine. A `Book` is one stream as the pages describe it: what is
accepted, in which order, and how far time has come. An `Asked` is one query. Values are quarters,
so that floats hold all sums exactly.
"""

import operator
import random
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fractions import Fraction

import pyarrow as pa

COMPARE = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
KEYS = ["a", "b", "c"]
NUMBERS = [-1.0, 0.0, 0.5, 1.0, 1.25, 2.0, 3.0]


EPOCH = datetime(2026, 1, 1)


def stamp(t: int) -> datetime:
    return EPOCH + timedelta(seconds=t)


@dataclass(frozen=True)
class Row:
    """One accepted event: where it stands among the stream's, and which of its key's it is."""

    number: int
    k: str
    t: int
    x: float | None
    y: float | None
    seq: int


@dataclass
class Book:
    """One stream: what it has accepted, what it holds back, and how far its time has come."""

    name: str
    grace: int
    rows: list[Row] = field(default_factory=list)
    held: list[tuple] = field(default_factory=list)
    newest: int | None = None
    reach: int | None = None  # the latest time of a row that was let out, or that was set back to
    last: dict[str, int] = field(default_factory=dict)
    base: int | None = None  # the first row that select queries may see

    @property
    def now(self) -> int | None:
        if self.newest is None:
            return None
        now = self.newest - self.grace
        return now if self.reach is None else max(now, self.reach)

    def take(self, events: list[tuple]) -> None:
        """Accept a batch of (key, time, x, y) in the order of time; late ones are dead letters."""
        events = [event for event in events if event[1] >= self.last.get(event[0], event[1])]
        if events:
            self.newest = max(
                [e[1] for e in events] + ([] if self.newest is None else [self.newest])
            )
        self.held += events
        self.let_out(self.newest - self.grace if self.newest is not None else None)

    def let_out(self, until: int | None) -> None:
        if until is None:
            return
        out = sorted((e for e in self.held if e[1] <= until), key=lambda e: e[1])
        self.held = [e for e in self.held if e[1] > until]
        for k, t, x, y in out:
            seq = sum(row.k == k for row in self.rows)
            self.rows.append(Row(len(self.rows), k, t, x, y, seq))
            self.last[k] = t
            self.reach = t if self.reach is None else max(self.reach, t)

    def advance(self, time: int) -> None:
        if self.newest is None:
            return
        self.newest = max(self.newest, time)
        self.let_out(self.newest - self.grace)

    def flush(self) -> None:
        if self.held:
            self.let_out(max(e[1] for e in self.held))

    def reset_time(self, time: int) -> None:
        """Set time back: later events that are held back become dead letters."""
        self.newest = time
        self.reach = None if self.reach is None else min(self.reach, time)
        self.held = [e for e in self.held if e[1] <= time]
        self.last = {key: min(last, time) for key, last in self.last.items()}


@dataclass(frozen=True)
class Edge:
    """One end of a window: a number from the start, or so much before NOW; or OLDEST."""

    number: int | None
    from_now: bool = False

    def text(self, *, rows: bool, stamps: bool, needed: bool = False) -> str:
        if self.number is None:
            return "OLDEST"
        if stamps and not rows:
            if not self.from_now:
                return f"'{stamp(self.number).isoformat()}'"
            return f"NOW - INTERVAL '{self.number}' SECOND" if self.number else "NOW"
        unit = " ROWS" if rows else ""
        if not self.from_now:
            return f"{self.number}{unit}"
        return f"NOW - {self.number}{unit}" if self.number or needed else "NOW"


@dataclass(frozen=True)
class Term:
    """One comparison: a column with a number, or with another column plus a number."""

    left: str
    op: str
    right: str | None
    number: float

    def text(self) -> str:
        if self.right is None:
            return f"{self.left} {self.op} {self.number!r}"
        plus = "" if not self.number else f" {'+' if self.number > 0 else '-'} {abs(self.number)!r}"
        return f"{self.left} {self.op} {self.right}{plus}"

    def holds(self, value) -> bool:
        left, right = value(self.left), self.number
        if self.right is not None:
            other = value(self.right)
            if other is None:
                return False
            right = other + self.number if self.number else other
        return left is not None and COMPARE[self.op](left, right)


@dataclass(frozen=True)
class Aggregate:
    name: str
    of: str | None
    alias: str

    def text(self) -> str:
        said = f"COUNT({self.of or '*'})" if self.name == "COUNT" else f"{self.name}({self.of})"
        if self.name == "DISTINCT":
            said = f"COUNT(DISTINCT {self.of})"
        return f"{said} AS {self.alias}"

    def value(self, rows: list, value) -> float | None:
        if self.of is None:
            return len(rows)
        known = [Fraction(v) for v in (value(row, self.of) for row in rows) if v is not None]
        if self.name == "COUNT":
            return len(known)
        if self.name == "DISTINCT":
            return len(set(known))
        if not known:
            return None
        mean = sum(known) / len(known)
        match self.name:
            case "SUM":
                return float(sum(known))
            case "AVG":
                return float(mean)
            case "VAR_POP":
                return float(sum((v - mean) ** 2 for v in known) / len(known))
            case "MIN":
                return float(min(known))
        return float(max(known))


@dataclass(frozen=True)
class Asked:
    """A select query. Columns are (column, alias); of a join, columns are `stream.column`."""

    id: str
    streams: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    terms: tuple[Term, ...] = ()
    key: tuple[str, str] | None = None
    begin: Edge = Edge(None)
    end: Edge = Edge(0, True)
    by_rows: bool = False
    distinct: bool = False
    group: tuple[str, ...] | None = None
    aggregates: tuple[Aggregate, ...] = ()
    having: int | None = None
    tell: str = "nothing"
    upkeep: str = "auto"
    stamps: bool = False

    def sql(self, verb: str = "CREATE") -> str:
        wanted = [f"{name} AS {alias}" for name, alias in self.columns]
        wanted += [aggregate.text() for aggregate in self.aggregates]
        terms = [term.text() for term in self.terms]
        terms += [f"{self.key[0]} = '{self.key[1]}'"] if self.key else []
        parts = [f"{verb} STANDING QUERY {self.id} AS SELECT {'DISTINCT ' * self.distinct}"]
        parts += [", ".join(wanted), "FROM", ", ".join(self.streams)]
        parts += ["WHERE " + " AND ".join(terms)] if terms else []
        parts += ["GROUP BY " + ", ".join(self.group)] if self.group else []
        parts += [f"HAVING COUNT(*) > {self.having}"] if self.having is not None else []
        how = {"rows": self.by_rows, "stamps": self.stamps}
        parts += ["BEGIN", self.begin.text(needed=self.by_rows, **how), "END", self.end.text(**how)]
        parts += [f"EMIT {self.tell.upper()}"] if self.tell != "nothing" else []
        parts += [f"WITH (upkeep = '{self.upkeep}')"] if self.upkeep != "auto" else []
        return " ".join(parts)

    def now(self, books: dict[str, Book]) -> int | None:
        known = [books[name].now for name in self.streams if books[name].now is not None]
        return max(known, default=None)

    def window(self, book: Book, now: int | None) -> list[Row]:
        """Return the rows of a stream that lie in the window, whatever the condition says."""
        rows = book.rows[book.base :] if book.base is not None else []
        if self.by_rows:
            total = len(rows)
            begin = 0 if self.begin.number is None else self.begin.number
            begin = max(total - begin, 0) if self.begin.from_now else begin
            end = max(total - self.end.number, 0) if self.end.from_now else self.end.number
            return rows[begin:end]
        if now is None:
            return []
        at = {edge: now - edge.number if edge.from_now else edge.number
              for edge in (self.begin, self.end) if edge.number is not None}  # fmt: skip
        low = at.get(self.begin)
        return [row for row in rows if (low is None or low <= row.t) and row.t <= at[self.end]]

    def value(self, found, name: str):
        """Return a column of a row, or of a pair of rows."""
        if "." not in name:
            return getattr(found[0], name)
        stream, column = name.split(".")
        return getattr(found[self.streams.index(stream)], column)

    def matches(self, found) -> bool:
        if self.key and self.value(found, self.key[0]) != self.key[1]:
            return False
        return all(term.holds(lambda name: self.value(found, name)) for term in self.terms)

    def found(self, books: dict[str, Book]) -> list[tuple[Row, ...]]:
        """Return the rows, or pairs of rows, that the answer is of, in the order of the first."""
        now = self.now(books)
        found = [(row,) for row in self.window(books[self.streams[0]], now)]
        if len(self.streams) == 2:
            others = self.window(books[self.streams[1]], now)
            found = [(row, other) for (row,) in found for other in others]
        return [each for each in found if self.matches(each)]

    def completed(self, books: dict[str, Book], called: str, start: int, before) -> list[tuple]:
        """Return the pairs of a join that the rows of a stream from one on complete, in order.

        Each is in the window as of the row that completes it; `before` is how far that stream's
        time had come before these rows.
        """
        (other,) = (name for name in self.streams if name != called)
        book, found = books[called], []
        known = [now for now in (before, books[other].now) if now is not None]
        for row in book.rows[start:]:
            known.append(row.t)
            then = Book(called, book.grace, rows=book.rows[: row.number + 1], base=book.base)
            if row not in self.window(then, max(known)):
                continue
            for match in self.window(books[other], max(known)):
                pair = (row, match) if called == self.streams[0] else (match, row)
                found += [pair] if self.matches(pair) else []
        return found

    def shown(self, found: list[tuple[Row, ...]]) -> list[tuple]:
        """Return the answer of these rows."""
        if self.aggregates:
            groups: dict[tuple, list] = {} if self.group else {(): []}
            for each in found:
                name = tuple(self.value(each, column) for column in self.group or ())
                groups.setdefault(name, []).append(each)
            shown = []
            for name, each in groups.items():
                if self.having is not None and not len(each) > self.having:
                    continue
                by_name = dict(zip(self.group or (), name, strict=True))
                row = [by_name[column] for column, _ in self.columns]
                row += [aggregate.value(each, self.value) for aggregate in self.aggregates]
                shown.append(tuple(row))
            return shown
        shown = [tuple(self.value(each, column) for column, _ in self.columns) for each in found]
        return list(dict.fromkeys(shown)) if self.distinct else shown

    def answer(self, books: dict[str, Book]) -> list[tuple]:
        return self.shown(self.found(books))


def make_edges(rng: random.Random, *, told: str, bounded: bool) -> dict:
    by_rows = rng.random() < 0.5
    scale = rng.choice([0, 1, 2, 4, 8, 20])
    end = Edge(0, True)
    shape = rng.choice(["sliding", "sliding", "snapshot", "landmark", "oldest", "both"])
    if told != "nothing" and shape in ("snapshot", "both"):
        shape = "sliding"
    if told == "matches" and shape == "landmark":
        shape = "oldest"
    if bounded and shape in ("landmark", "oldest"):
        shape = "snapshot" if told == "nothing" else "sliding"
    match shape:
        case "sliding":
            begin = Edge(scale, True)
            if told == "nothing" and rng.random() < 0.3:
                end = Edge(rng.randint(0, scale), True)
        case "snapshot":
            begin = Edge(scale)
            end = Edge(scale + rng.randint(0, 10))
        case "landmark":
            begin = Edge(scale)
        case "oldest":
            begin = Edge(None)
            by_rows = False
        case "both":
            begin = Edge(None)
            by_rows = False
            end = Edge(scale)
    return {"begin": begin, "end": end, "by_rows": by_rows}


def make_asked(rng: random.Random, name: str, streams: list[str]) -> Asked:
    if len(streams) > 1 and rng.random() < 0.5:
        return make_join(rng, name, streams)
    stream = rng.choice(streams)
    told = rng.choice(["nothing", "nothing", "matches", "changes"])
    terms = [make_term(rng, ["x", "y"]) for _ in range(rng.choice([0, 0, 1, 1, 2]))]
    said = {
        "streams": (stream,),
        "terms": tuple(terms),
        "key": ("k", rng.choice(KEYS)) if rng.random() < 0.2 else None,
        "tell": told,
        "upkeep": rng.choice(["auto", "auto", "eager", "lazy"]) if told == "nothing" else "auto",
        **make_edges(rng, told=told, bounded=False),
    }
    shape = rng.choice(["rows", "rows", "distinct", "all", "group"])
    if told == "matches" or shape == "rows" or (told == "changes" and shape == "distinct"):
        columns = rng.sample(["k", "t", "x", "y"], rng.randint(1, 4))
        return Asked(name, columns=tuple((c, f"c_{c}") for c in columns), **said)
    if shape == "distinct":
        columns = rng.sample(["k", "x", "y"], rng.randint(1, 2))
        return Asked(name, columns=tuple((c, f"c_{c}") for c in columns), distinct=True, **said)
    group = None
    if shape == "group":
        group = (
            ("k",) if told == "changes" else tuple(rng.sample(["k", "x", "t"], rng.randint(1, 2)))
        )
    count = 1 if told == "changes" else rng.randint(1, 4)
    having = rng.randint(0, 2) if told == "nothing" and rng.random() < 0.2 else None
    columns = tuple((c, f"c_{c}") for c in group or ())
    aggregates = make_aggregates(rng, ["x", "y"], count)
    return Asked(name, columns=columns, group=group, aggregates=aggregates, having=having, **said)


def make_aggregates(rng: random.Random, columns: list[str], count: int) -> tuple[Aggregate, ...]:
    made = []
    for i in range(count):
        kind = rng.choice(["COUNT", "SUM", "AVG", "MIN", "MAX", *MORE])
        of = None if kind == "COUNT" and rng.random() < 0.5 else rng.choice(columns)
        made.append(Aggregate(kind, of, f"a{i}"))
    return tuple(made)


MORE = ["VAR_POP", "DISTINCT"]


def make_term(rng: random.Random, columns: list[str]) -> Term:
    left = rng.choice(columns)
    op = rng.choice(list(COMPARE))
    if rng.random() < 0.6:
        return Term(left, op, None, rng.choice(NUMBERS))
    right = next(c for c in columns if c != left)
    return Term(left, op, right, rng.choice([0.0, 0.0, 0.5, -1.0]))


def make_join(rng: random.Random, name: str, streams: list[str]) -> Asked:
    first, second = rng.sample(streams, 2)
    both = [Term(f"{first}.k", "=", f"{second}.k", 0.0)]
    both += [Term(f"{first}.{rng.choice('xy')}", rng.choice(list(COMPARE)),
                  f"{second}.{rng.choice('xy')}", rng.choice([0.0, 0.5, -1.0]))]  # fmt: skip
    terms = rng.choice([both, both[:1], both[1:]])
    if rng.random() < 0.3:
        terms = [*terms, Term(f"{second}.x", rng.choice(["<", ">="]), None, rng.choice(NUMBERS))]
    if rng.random() < 0.3:
        terms = [*terms, Term(f"{first}.y", rng.choice(["<", ">="]), None, rng.choice(NUMBERS))]
    told = rng.choice(["nothing", "matches", "changes"])
    said = {
        "tell": told,
        "streams": (first, second),
        "terms": tuple(terms),
        "key": (f"{rng.choice([first, second])}.k", rng.choice(KEYS))
        if rng.random() < 0.2
        else None,
        **make_edges(rng, told=told, bounded=True),
    }
    names = [f"{s}.{c}" for s in (first, second) for c in "ktxy"]
    shape = rng.choice(["rows", "rows", "distinct", "all", "group"])
    if told == "matches" or (told == "changes" and shape == "distinct"):
        shape = "rows"
    if told == "changes" and shape == "group" and both[0] not in terms:
        shape = "all"
    if shape in ("rows", "distinct"):
        columns = tuple((c, f"c{i}") for i, c in enumerate(rng.sample(names, rng.randint(1, 4))))
        return Asked(name, columns=columns, distinct=shape == "distinct", **said)
    group = (rng.choice([f"{first}.k", f"{second}.k"]),) if shape == "group" else None
    columns = tuple((c, f"c{i}") for i, c in enumerate(group or ()))
    numbers = [n for n in names if n[-1] in "xy"]
    made = make_aggregates(rng, numbers, 1 if told == "changes" else rng.randint(1, 3))
    return Asked(name, columns=columns, group=group, aggregates=made, **said)


def as_table(events: list[tuple], *, stamps: bool) -> pa.Table:
    if stamps:
        events = [(k, stamp(t), x, y) for k, t, x, y in events]
    columns = list(zip(*events, strict=True)) if events else [[], [], [], []]
    types = {"k": pa.string(), "t": pa.timestamp("us") if stamps else pa.int64(),
             "x": pa.float64(), "y": pa.float64()}  # fmt: skip
    return pa.table({n: pa.array(c, t) for c, (n, t) in zip(columns, types.items(), strict=True)})
