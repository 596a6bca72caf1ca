"""Correlated queries beside an oracle that was written from the docs alone.

The oracle keeps all events and compares each with the reference, in fractions. Exact queries must
tell what it tells, event by event, however events are cut into batches. Of all others the bounds
must hold after every event. Values are quarters, so that floats hold all sums exactly.
"""

import operator
import random
from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import pyarrow as pa
import pytest

import everquery as eq

STREAM = eq.Stream("s", key="k", time="t", attributes=["x", "y"])
RELATIONS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
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
    """A correlated query as the oracle knows it: of y, where x."""

    id: str
    aggregate: str
    of: str | None
    compared: str
    to: str
    factor: float
    key: str | None = None
    by_key: bool = False
    last: int | None = None
    span: int | None = None
    epsilon: float = 0.0
    buckets: int = 10
    when: tuple | None = None

    def query(self) -> eq.Correlated:
        said = {
            name: value for name, value in vars(self).items() if name not in ("id", "aggregate")
        }
        return eq.Correlated(self.id, self.aggregate, where="x", **said)

    def lane(self, events: list[Event], key: str | None) -> list[Event]:
        """Return the events that the query sees, of a key or of all."""
        only = key if self.by_key else self.key
        lane = [event for event in events if only is None or event.k == only]
        return [e for e in lane if e.x is not None and (self.of is None or e.y is not None)]

    def true_value(self, lane: list[Event]) -> tuple[Fraction | None, int]:
        """Return the aggregate as it is, and how many events the reference is of."""
        if self.last:
            lane = lane[-self.last :]
        elif self.span:
            lane = [event for event in lane if event.t > lane[-1].t - self.span]
        xs = [Fraction(event.x) for event in lane]
        reference = {"min": min, "max": max, "avg": lambda xs: sum(xs) / len(xs)}[self.to](xs)
        factor = Fraction(self.factor)
        if self.compared == "within":
            picked = [e for e, x in zip(lane, xs, strict=True)
                      if abs(x - reference) <= factor * abs(reference)]  # fmt: skip
        else:
            relates = RELATIONS[self.compared]
            picked = [e for e, x in zip(lane, xs, strict=True) if relates(x, factor * reference)]
        if self.aggregate == "count":
            return Fraction(len(picked)), len(lane)
        total = sum((Fraction(event.y) for event in picked), Fraction(0))
        if self.aggregate == "sum":
            return total, len(lane)
        return (total / len(picked) if picked else None), len(lane)


def told(asked: Asked, lane: list[Event]) -> list[tuple]:
    """Return what an exact query tells of a lane: event, key, time, seq, value, n."""
    rows, last_value, inside = [], None, False
    for i, event in enumerate(lane):
        true, n = asked.true_value(lane[: i + 1])
        value = None if true is None else float(true)
        row = (event.k, event.t, event.seq, value, n)
        if asked.when:
            low, high = asked.when
            if (value is not None and low <= value and (high is None or value < high)) != inside:
                inside = not inside
                rows.append(("enter" if inside else "leave", *row))
        elif value is not None and value != last_value:
            rows.append(("change", *row))
            last_value = value
    return rows


def undisputed(rows: list[tuple]) -> list[tuple]:
    """Leave out changes to null, which the docs leave open, and those back to what was before."""
    kept = []
    for row in rows:
        if row[0] != "change" or (row[4] is not None and (not kept or row[4] != kept[-1][4])):
            kept.append(row)
    return kept


def make_events(rng: random.Random, shape: str, n: int) -> list[Event]:
    """Return events in time order, with ties, silences, and values that are unknown."""
    keys = [f"k{i}" for i in range(rng.choice([1, 2, 5]))]
    time, seqs, events = rng.choice([1, 1_000_001, -51]), defaultdict(int), []
    for i in range(n):
        time += rng.choice([0, 0, 1, 2, 2, 30])
        key = rng.choice(keys)
        x = SHAPES[shape](rng, i) if rng.random() > 0.05 else None
        y = rng.randint(-8, 60) / 4 if rng.random() > 0.05 else None
        events.append(Event(key, time, x, y, seqs[key]))
        seqs[key] += 1
    return events


def make_queries(rng: random.Random, keys: list[str], epsilons: list[float]) -> list[Asked]:
    """Return a query for each relation and reference; factors that floats hold exactly."""
    asked = []
    for compared in [*RELATIONS, "within"]:
        for to in ("min", "max", "avg"):
            aggregate = rng.choice(["count", "sum", "avg"])
            of = "y" if aggregate != "count" or rng.random() < 0.5 else None
            factor = rng.choice([0.25, 0.5] if compared == "within" else [1.0, 0.5, 2.0, -1.0])
            scope = rng.choice([{}, {"by_key": True}, {"key": rng.choice(keys)}])
            last, span = {"last": rng.choice([1, 5, 40])}, {"span": rng.choice([2, 20, 400])}
            rule = rng.choice([{}, {}, {"when": rng.choice([(2, None), (1, 4)])}])
            asked.append(Asked(f"{compared} {to}", aggregate, of, compared, to, factor,
                               epsilon=rng.choice(epsilons), buckets=rng.choice([2, 10, 30]),
                               **scope, **rng.choice([{}, last, span]), **rule))  # fmt: skip
    return asked


COLUMNS = ["query_id", "event", "key", "time", "seq", "value", "n", "low", "high"]


def feed(engine: eq.Engine, events: list[Event], way: str) -> list[tuple]:
    """Give events to the engine, in one call or one by one, and return its notices."""
    if way == "push":
        pushed = [engine.push(k=e.k, t=e.t, x=e.x, y=e.y) for e in events]
        return [tuple(getattr(one, name) for name in COLUMNS) for each in pushed for one in each]
    floats = {name: pa.array([getattr(e, name) for e in events], pa.float64()) for name in "xy"}
    batch = pa.table({"k": [e.k for e in events], "t": [e.t for e in events], **floats})
    return [tuple(row.values()) for row in engine.process(batch).select(COLUMNS).to_pylist()]


def batches(events: list[Event], size: int) -> list[list[Event]]:
    cuts = [*range(0, len(events), size), len(events)]
    return [events[a:b] for a, b in pairwise(cuts)]


WAYS = [
    ("process", 1),
    ("process", 7),
    ("process", 999),
    ("push", 1),
    ("threads", 30),
    ("restore", 9),
]


@pytest.mark.parametrize("shape", ["uniform", "signed", "sorted", "few"])
@pytest.mark.parametrize(("way", "size"), WAYS)
def test_exact_queries_tell_and_answer_what_the_oracle_does(shape, way, size):
    rng = random.Random(f"{shape} {way} {size}")
    events = make_events(rng, shape, 60)
    keys = sorted({e.k for e in events})
    queries = make_queries(rng, keys, [0.0])
    engine = eq.Engine(STREAM, threads=2 if way == "threads" else 1)
    engine.register([asked.query() for asked in queries])
    notices, done = [], []
    for batch in batches(events, size):
        notices += feed(engine, batch, way)
        done += batch
        if way == "restore":
            snapshot = engine.snapshot()
            engine = eq.Engine(STREAM)
            engine.restore(snapshot)
        for asked in rng.sample(queries, 4):
            key = batch[-1].k if asked.by_key else None
            answer = engine.answer(asked.id, key=key)
            if lane := asked.lane(done, key):
                true, n = asked.true_value(lane)
                assert answer.value == (None if true is None else float(true)), asked
                assert (answer.low, answer.high, answer.n) == (answer.value, answer.value, n)
    for asked in queries:
        of_query = [row[1:7] for row in notices if row[0] == asked.id]
        for key in keys if asked.by_key else [None]:
            got = [row for row in of_query if key in (None, row[1])]
            assert undisputed(got) == undisputed(told(asked, asked.lane(events, key))), asked


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("way", "size"), [("process", 10), ("push", 1), ("restore", 3)])
def test_bounds_of_approximate_queries_hold_after_every_event(shape, way, size):
    rng = random.Random(f"about {shape} {way} {size}")
    events = make_events(rng, shape, 120)
    queries = make_queries(rng, sorted({e.k for e in events}), [0.001, 0.01, 0.1])
    by_id = {asked.id: asked for asked in queries}
    engine = eq.Engine(STREAM)
    engine.register([asked.query() for asked in queries])
    done = []
    for batch in batches(events, size):
        notices = feed(engine, batch, way)
        done += batch
        if way == "restore":
            snapshot = engine.snapshot()
            engine = eq.Engine(STREAM)
            engine.restore(snapshot)
        for name, _, key, _, seq, value, _, low, high in notices:
            about = max(i for i, e in enumerate(done) if (e.k, e.seq) == (key, seq))
            check_bounds(by_id[name], by_id[name].lane(done[: about + 1], key), value, low, high)
        for asked in rng.sample(queries, 4):
            key = batch[-1].k if asked.by_key else None
            answer = engine.answer(asked.id, key=key)
            check_bounds(asked, asked.lane(done, key), answer.value, answer.low, answer.high)


def check_bounds(asked, lane, value, low, high):
    """Check that the truth is within the bounds, but for the rounding of an average."""
    if not lane:
        assert value is None
        return
    true, _ = asked.true_value(lane)
    if true is None:
        return
    assert low is not None, asked
    slack = abs(true) / 2**50
    assert low == -float("inf") or Fraction(low) - slack <= true, asked
    assert high == float("inf") or true <= Fraction(high) + slack, asked
    assert value is None or low <= value <= high
