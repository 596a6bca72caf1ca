"""Windows beside an oracle that was written from the docs alone, and shares no code with them.

The oracle keeps all events and computes each statistic anew, in fractions. Exact windows must tell
what it tells, notice by notice, however events are cut into batches. Approximate ones must have
bounds that hold after every event, and keep the error that docs/windows.md promises. Values are
quarters, so that floats hold all sums exactly.
"""

import math
import random
from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import pyarrow as pa
import pytest

import everquery as eq

STREAM = eq.Stream("s", key="k", time="t", attributes=["x", "y"])
EXACT = 64  # distinct values and norms of fewer events are exact
STATISTICS = ["count", "sum", "mean", "variance", "min", "max", "distinct", "l1", "l2"]
SHAPES = {
    "uniform": lambda rng, i: rng.randint(0, 80) / 4,
    "signed": lambda rng, i: rng.randint(-60, 60) / 4,
    "sorted": lambda rng, i: i / 4,
    "falling": lambda rng, i: -i / 4,
    "constant": lambda rng, i: 7.5,
    "zipf": lambda rng, i: float(int(rng.paretovariate(0.8)) % 100_000),
    "few": lambda rng, i: float(rng.randint(0, 3)),
}


@dataclass(frozen=True)
class Event:
    """One event, and which of its key's it is."""

    k: str
    t: int
    x: float | None
    y: float | None
    seq: int


@dataclass(frozen=True)
class Asked:
    """A window query as the oracle knows it; a name of None is no attribute."""

    id: str
    statistic: str
    attribute: str | None = None
    per: str | None = None
    box: tuple = ()
    key: str | None = None
    by_key: bool = False
    last: int | None = None
    span: int | None = None
    epsilon: float = 0.0
    when: tuple | None = None
    every: int | None = None

    def query(self) -> eq.Window:
        fields = {name: getattr(self, name) for name in ("per", "key", "by_key", "last", "span")}
        rules = {"epsilon": self.epsilon, "when": self.when, "every": self.every}
        rules["box"] = dict(self.box)
        return eq.Window(self.id, self.statistic, self.attribute, **fields, **rules)

    def counts(self, event: Event) -> bool:
        """Tell whether the statistic is of this event: all it needs is known, and in the box."""
        needed = [getattr(event, name) for name in (self.attribute, self.per) if name]
        for name, (low, high) in self.box:
            value = getattr(event, name)
            if value is None or (low is not None and value < low):
                return False
            if high is not None and value >= high:
                return False
        return all(value is not None for value in needed)

    def lanes(self, events: list[Event]) -> dict[str | None, list[Event]]:
        """Return the events of each window: of a key, of each key, or all."""
        if self.key is not None:
            return {self.key: [event for event in events if event.k == self.key]}
        lanes = defaultdict(list)
        for event in events:
            lanes[event.k if self.by_key else None].append(event)
        return lanes

    def window(self, lane: list[Event], now: int) -> list[Event]:
        """Return the events that the statistic is of; one that is as old as the span has left."""
        rows = lane[-self.last :] if self.last else [e for e in lane if e.t > now - self.span]
        return [event for event in rows if self.counts(event)]


def true_value(asked: Asked, events: list[Event]) -> Fraction | None:
    """Return the statistic as it is; of l2, its square."""
    values = [Fraction(getattr(e, asked.attribute)) for e in events] if asked.attribute else []
    n = len(events)
    match asked.statistic:
        case "count":
            return Fraction(n)
        case "sum":
            return sum(values, Fraction(0))
        case "distinct":
            return Fraction(len(set(values)))
        case "l1" | "l2":
            sums = defaultdict(Fraction)
            for event, value in zip(events, values, strict=True):
                sums[getattr(event, asked.per)] += value
            power = 1 if asked.statistic == "l1" else 2
            return sum((abs(total) ** power for total in sums.values()), Fraction(0))
    if not n:
        return None
    match asked.statistic:
        case "min":
            return min(values)
        case "max":
            return max(values)
    mean = sum(values) / n
    return mean if asked.statistic == "mean" else sum((v - mean) ** 2 for v in values) / n


def rounded(asked: Asked, value: Fraction | None) -> float | None:
    if value is None:
        return None
    return math.sqrt(value) if asked.statistic == "l2" else float(value)


def is_inside(when: tuple, value: float | None) -> bool:
    low, high = when
    return value is not None and (low is None or value >= low) and (high is None or value < high)


def told(asked: Asked, lane: list[Event], end: int) -> list[tuple]:
    """Return what an exact query tells of a lane: event, key, time, seq, value, n."""
    moments = [(event.t, 1, i + 1) for i, event in enumerate(lane)]
    if asked.span:
        moments += [(t, 0, None) for t in {e.t + asked.span for e in lane if asked.counts(e)}]
    if asked.every and lane:
        first = lane[0].t // asked.every + 1
        moments += [(p * asked.every, 0, None) for p in range(first, end // asked.every + 1)]
    rows, seen, last_value, inside, periods = [], 0, None, False, set()
    for time, is_event, count in sorted(moments, key=lambda moment: moment[:2]):
        seen = count or seen
        if not seen or time > end:
            continue
        events = asked.window(lane[:seen], time)
        value = rounded(asked, true_value(asked, events))
        n = -1 if asked.statistic in ("min", "max", "distinct") else len(events)
        about = lane[seen - 1]
        row = (about.k, time, about.seq, value, n)
        if asked.when:
            if is_inside(asked.when, value) != inside:
                inside = not inside
                rows.append(("enter" if inside else "leave", *row))
        elif asked.every:
            begins = time % asked.every == 0 and events
            if time // asked.every not in periods and (begins or is_event):
                periods.add(time // asked.every)
                rows.append(("change", *row))
        elif value != last_value:
            rows.append(("change", *row))
            last_value = value
    return rows


def undisputed(asked: Asked, rows: list[tuple]) -> list[tuple]:
    """Leave out what the docs leave open: changes to null, and to 0 before anything was told."""
    if asked.when or asked.every:
        return rows
    kept = []
    for row in rows:
        value, before = row[4], kept[-1][4] if kept else 0
        if value is not None and value != before:
            kept.append(row)
    return kept


def make_events(rng: random.Random, shape: str, n: int) -> list[Event]:
    """Return events in time order, with ties, silences, and values that are unknown."""
    keys = [f"k{i}" for i in range(rng.choice([1, 3, 12]))]
    time, seqs, events = rng.choice([1, 1_000_001, -51]), defaultdict(int), []
    for i in range(n):
        time += 4 * rng.choice([0, 0, 1, 2, 2, 30])
        key = rng.choice(keys[: 1 + int(rng.paretovariate(1)) % len(keys)])
        x = SHAPES[shape](rng, i) if rng.random() > 0.05 else None
        y = float(rng.randint(-2, 3)) if rng.random() > 0.05 else None
        events.append(Event(key, time, x, y, seqs[key]))
        seqs[key] += 1
    return events


def make_queries(rng: random.Random, keys: list[str], epsilons: list[float]) -> list[Asked]:
    asked = []
    for i, statistic in enumerate(STATISTICS):
        needs_none = statistic == "count"
        scope = rng.choice([{}, {"by_key": True}, {"key": rng.choice(keys)}])
        window = rng.choice([{"last": rng.choice([1, 3, 40])}, {"span": rng.choice([4, 20, 400])}])
        rule = rng.choice([{}, {}, {"when": rng.choice([(2, None), (1, 4)])}])
        box = rng.choice([(), (), (("x", (2, 12)),), (("y", (0, None)),)])
        if needs_none and "span" in window and not rule and rng.random() < 0.5:
            rule, box = {"every": rng.choice([4, 40])}, ()
        per = "y" if statistic in ("l1", "l2") else None
        asked.append(Asked(f"q{i}", statistic, None if needs_none else "x", per, box,
                           epsilon=rng.choice(epsilons), **scope, **window, **rule))  # fmt: skip
    return asked


def as_table(events: list[Event]) -> pa.Table:
    floats = {name: pa.array([getattr(e, name) for e in events], pa.float64()) for name in "xy"}
    return pa.table({"k": [e.k for e in events], "t": [e.t for e in events], **floats})


def feed(engine: eq.Engine, events: list[Event], way: str) -> list[tuple]:
    """Give events to the engine, in one call or one by one, and return its notices."""
    if way == "push":
        pushed = [engine.push(k=e.k, t=e.t, x=e.x, y=e.y) for e in events]
        notices = [notice for each in pushed for notice in each]
        columns = ("query_id", "event", "key", "time", "seq", "value", "n", "low", "high")
        return [tuple(getattr(notice, name) for name in columns) for notice in notices]
    return read(engine.process(as_table(events)))


def read(notices: pa.Table) -> list[tuple]:
    columns = ["query_id", "event", "key", "time", "seq", "value", "n", "low", "high"]
    return [tuple(row.values()) for row in notices.select(columns).to_pylist()]


def batches(events: list[Event], size: int) -> list[list[Event]]:
    cuts = [*range(0, len(events), size), len(events)]
    return [events[a:b] for a, b in pairwise(cuts)]


WAYS = [
    ("process", 1),
    ("process", 7),
    ("process", 1_000),
    ("push", 1),
    ("threads", 40),
    ("restore", 9),
]


@pytest.mark.parametrize("shape", ["uniform", "signed", "sorted", "zipf"])
@pytest.mark.parametrize(("way", "size"), WAYS)
def test_exact_windows_tell_and_answer_what_the_oracle_does(shape, way, size):
    rng = random.Random(f"{shape} {way} {size}")
    events = make_events(rng, shape, 60)
    queries = make_queries(rng, sorted({e.k for e in events}), [0.0])
    engine = eq.Engine(STREAM, threads=2 if way == "threads" else 1)
    engine.register([asked.query() for asked in queries])
    notices, done = [], []
    for batch in batches(events, size):
        notices += feed(engine, batch, way)
        done += batch
        for asked in rng.sample(queries, 3):
            key = batch[-1].k if asked.by_key else None
            lane = asked.lanes(done).get(key if asked.by_key else asked.key, [])
            window = asked.window(lane, done[-1].t)
            answer = engine.answer(asked.id, key=key)
            value = rounded(asked, true_value(asked, window))
            assert answer.value == value, asked
            assert answer.low == answer.value == answer.high
        if way == "restore":
            snapshot = engine.snapshot()
            engine = eq.Engine(STREAM)
            engine.restore(snapshot)
    end = events[-1].t + 2_000
    places = {(event.k, event.seq): i for i, event in enumerate(events)}
    notices += read(engine.advance(end))
    for asked in queries:
        for key, lane in asked.lanes(events).items():
            got = [
                row[1:7]
                for row in notices
                if row[0] == asked.id and (not asked.by_key or row[2] == key)
            ]
            expected = told(asked, lane, end)
            if key is None:  # one series with notices of several keys: only each key's are in order
                got.sort(key=lambda row: (row[2], places[row[1], row[3]]))
            assert undisputed(asked, got) == undisputed(asked, expected), asked


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("way", "size"), [("process", 10), ("push", 1)])
def test_bounds_of_approximate_windows_hold_after_every_event(shape, way, size):
    rng = random.Random(f"about {shape} {way} {size}")
    events = make_events(rng, shape, 90)
    queries = make_queries(rng, sorted({e.k for e in events}), [0.01, 0.1, 0.5])
    queries = [asked for asked in queries if not asked.every]
    by_id = {asked.id: asked for asked in queries}
    engine = eq.Engine(STREAM)
    engine.register([asked.query() for asked in queries])
    done = []
    for batch in batches(events, size):
        notices = feed(engine, batch, way)
        done += batch
        for name, _, key, time, seq, value, _, low, high in notices:
            asked = by_id[name]
            lane = asked.lanes(done)[key if asked.by_key else asked.key]
            about = max(i for i, e in enumerate(lane) if (e.k, e.seq) == (key, seq))
            check_bounds(asked, asked.window(lane[: about + 1], time), value, low, high)
        for asked in rng.sample(queries, 4):
            key = batch[-1].k if asked.by_key else None
            lane = asked.lanes(done).get(key if asked.by_key else asked.key, [])
            answer = engine.answer(asked.id, key=key)
            check_bounds(
                asked, asked.window(lane, done[-1].t), answer.value, answer.low, answer.high
            )


def check_bounds(asked, events, value, low, high):
    """Check that the truth is within the bounds, and the value within its error of the truth."""
    true = true_value(asked, events)
    if true is None:
        assert value is None
        return
    power = 2 if asked.statistic == "l2" else 1
    slack = abs(true) / 2**50 if asked.statistic == "l2" else 0
    assert low <= value <= high
    assert Fraction(max(low, 0) if power == 2 else low) ** power - slack <= true, asked
    assert true <= Fraction(high) ** power + slack, asked
    positive = any(name == asked.attribute and ends[0] is not None for name, ends in asked.box)
    plain_sum = asked.statistic == "l1" and positive  # which docs/windows.md says is kept as a sum
    if asked.statistic in ("min", "max", "distinct", "l1", "l2") and not plain_sum:
        if asked.statistic in ("min", "max") or len(events) < EXACT:
            assert value == pytest.approx(rounded(asked, true), rel=1e-15)
            assert low == value == high
        return  # of larger ones, only the bounds are certain
    scale = true
    if asked.statistic in ("sum", "mean"):  # of both signs: by the absolute values
        scale = sum(abs(Fraction(e.x)) for e in events)
        scale /= len(events) if asked.statistic == "mean" else 1
    rounding = Fraction(1, 10**4) if asked.statistic == "variance" else Fraction(1, 10**9)
    assert abs(Fraction(value) - true) <= Fraction(asked.epsilon) * scale + rounding, asked
