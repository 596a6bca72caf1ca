"""Every kind of query can begin in the past: it is as if it had been registered there."""

import os
import random
from collections import Counter, defaultdict
from dataclasses import replace
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import everquery as eq
from everquery.errors import EverqueryError, InvalidBatchError
from everquery.history import history as keeping
from everquery.kinds import KINDS
from everquery.testing.strategies import KEYS, as_batch, events, queries, streams

UNEQUAL = ("reason",)  # it tells what lies in the past


@st.composite
def pasts(draw, kinds):
    """Return a stream, its steps, queries, where they begin and are registered, and a restart."""
    bare = all(_needs_no_attribute(kind) for kind in kinds)
    timed = all(kind.spec.required_spans for kind in kinds)
    stream = replace(draw(streams(bare=bare, timed=timed)), max_ahead=None, keep="all")
    if stream.time is None:
        kinds = [kind for kind in kinds if not kind.spec.required_spans]
    if not stream.attributes:
        kinds = [kind for kind in kinds if _needs_no_attribute(kind)]
    rows = draw(events(stream, in_order=draw(st.booleans())))
    steps = []
    while rows:
        size = draw(st.integers(1, 6))
        steps.append(("process", as_batch(rows[:size], stream)))
        rows = rows[size:]
    for _ in range(draw(st.integers(0, 3))):
        steps.insert(draw(st.integers(0, len(steps))), draw(_others(stream)))
    asked = [
        draw(queries(draw(st.sampled_from(kinds)).spec, name, stream))
        for name in "pqrs"[: draw(st.integers(1, 4))]
    ]
    registered = draw(st.integers(0, len(steps)))
    begin = draw(st.integers(0, registered))
    return stream, steps, asked, begin, registered, draw(st.integers(0, len(steps)))


def _needs_no_attribute(kind):
    return kind.spec.limited and not kind.spec.about_attribute


def _others(stream):
    expire = st.tuples(st.just("expire"), st.sampled_from(KEYS))
    if stream.time is None:
        return expire
    advance = st.tuples(st.just("advance"), st.integers(0, 40))
    reset = st.tuples(st.just("reset_time"), st.integers(0, 20))
    return st.one_of(expire, advance, reset, st.just(("flush", None)))


def take(engine, step):
    what, argument = step
    try:
        told = getattr(engine, what)(*(() if argument is None else (argument,)))
    except InvalidBatchError:
        return pa.table({})  # time can't be set on
    return pa.table({}) if told is None else told


def played(stream, steps, asked, *, at, begin=None, restart=None, folder=None):
    """Return all notices, what queries answer in the end, and where they were registered."""
    engine = eq.Engine(stream, all_columns=True, history=folder)
    told, place = [], None
    for number, step in enumerate([*steps, None]):
        if number == restart:
            snapshot = engine.snapshot()
            engine.close()
            engine = eq.Engine(stream, all_columns=True, history=folder, snapshot=snapshot)
        if number == at:
            place = engine.place
            engine.register(asked, **({} if begin is None else {"begin": begin}))
        if step is not None:
            told += take(engine, step).to_pylist()
    told += engine.expire([]).to_pylist()  # what is still to be told of changes
    answers = {query.id: answer_of(engine, query.id) for query in asked}
    engine.close()
    return told, answers, place


def answer_of(engine, query_id):
    found = []
    for question in (engine.progress, engine.answer):
        try:
            found.append(repr(question(query_id)))
        except EverqueryError as error:
            found.append(type(error).__name__)
    return found


def as_rows(told):
    """Return notices by key, in order, without what differs on purpose."""
    by_key = defaultdict(list)
    for notice in told:
        row = [repr(value) for name, value in notice.items() if name not in UNEQUAL]
        by_key[notice["key"]].append(tuple(row))
    return by_key


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    monkeypatch.setattr(keeping, "ROWS", 5)


def check(past, *, restarted):
    stream, steps, asked, begin, registered, restart = past
    expected, answers, place = played(stream, steps, asked, at=begin)
    with TemporaryDirectory() as folder:
        options = {"restart": restart, "folder": folder} if restarted else {}
        found, after, _ = played(stream, steps, asked, at=registered, begin=place, **options)
    assert Counter(map(repr, as_rows(expected))) == Counter(map(repr, as_rows(found)))
    for key, rows in as_rows(expected).items():
        assert Counter(as_rows(found)[key]) == Counter(rows)
    assert after == answers


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("restarted", [False, True], ids=["live", "restarted"])
def test_a_query_that_begins_in_the_past_is_as_if_it_had_been_there(kind, restarted):
    @given(pasts([KINDS[kind]]))
    def run(past):
        check(past, restarted=restarted)

    run()


@given(pasts(list(KINDS.values())))
def test_queries_of_all_kinds_begin_in_the_past_together(past):
    check(past, restarted=False)


def dance(rng, engine, others):
    """Change other queries: they come, go, pause, resume and are replaced."""
    name = rng.choice(others)
    live = engine.is_live(name)
    what = rng.choice(["add", "drop", "pause", "resume", "replace"])
    if what == "add" and not live:
        engine.register(eq.Border(name, {"x": (0, rng.randint(1, 4))}))
    elif what == "replace" and live:
        engine.register(eq.Border(name, {"x": (0, rng.randint(5, 9))}), replace=True)
    elif live and what in ("drop", "pause", "resume"):
        {"drop": engine.deregister, "pause": engine.pause, "resume": engine.resume}[what](name)


def make_query(rng, name):
    """Return a query of some kind on key, time, x and y."""
    low = rng.randint(0, 3)
    box = {"x": (low, low + rng.randint(1, 4))}
    by_key = rng.random() < 0.5
    kinds = [
        lambda: eq.Range(name, box, throttle=rng.choice([None, 5])),
        lambda: eq.Border(name, box, dwell=rng.choice([None, 2]), ttl=rng.choice([None, 30])),
        lambda: eq.Threshold(name, box, total=rng.randint(1, 9), repeat=by_key, by_key=by_key),
        lambda: eq.Quantile(name, "x", phi=0.5, epsilon=0.2, by_key=by_key),
        lambda: eq.Silence(name, after=rng.randint(1, 9)),
        lambda: eq.Correlated(name, "count", where="x", compared="<=", to="avg", epsilon=0,
                              last=rng.choice([None, 4]), by_key=by_key),
        lambda: eq.Window(name, rng.choice(["sum", "max"]), "y", box=box, epsilon=0, by_key=by_key,
                          **rng.choice([{"last": 4}, {"span": 6}])),
        lambda: eq.Select(name, "SELECT k, x WHERE x > y BEGIN NOW - 5 END NOW", tell="matches"),
        lambda: eq.Select(name, "SELECT k, SUM(x) GROUP BY k BEGIN NOW - 4 ROWS END NOW",
                          tell="changes"),
    ]  # fmt: skip
    return rng.choice(kinds)()


def make_steps(rng):
    """Return calls of the engine, with ties, unknown values and late events."""
    steps, t = [], 0
    for _ in range(rng.randint(4, 14)):
        kind = rng.choice(["process"] * 6 + ["advance", "flush", "expire"])
        if kind == "process":
            rows = []
            for _ in range(rng.randint(0, 5)):
                t += rng.choice([0, 0, 1, 1, 3, 8])
                late = rng.choice([0] * 9 + [4])
                x, y = (rng.choice([None, *range(6)]) for _ in "xy")
                rows.append({"k": rng.choice("abc"), "t": t - late, "x": x, "y": y})
            steps.append((kind, rows))
        else:
            t += 2 if kind == "advance" else 0
            argument = {"advance": t, "flush": None, "expire": rng.choice("abc")}[kind]
            steps.append((kind, argument))
    return steps


@pytest.mark.parametrize("world", range(int(os.environ.get("EVERQUERY_BEGIN_WORLDS", "40"))))
def test_a_query_begins_in_the_past_while_others_come_and_go_and_the_past_goes_too(world):
    rng = random.Random(f"begin {world}")
    grace = rng.choice([None, None, 3])
    stream = eq.Stream("s", key="k", time="t", attributes=["x", "y"], grace=grace,
                       keep=rng.choice(["all", 4, 12]))  # fmt: skip
    steps = make_steps(rng)
    query = make_query(rng, "q")
    if isinstance(query, eq.Select):  # it looks back, so another past would be another answer
        stream = replace(stream, keep="all")
    first = rng.randint(0, len(steps) - 1)
    late = rng.randint(first, len(steps))
    there = eq.Engine(stream, all_columns=True)
    come = eq.Engine(stream, all_columns=True)
    expected, found, tried, place, gone = [], [], None, None, False
    for number, step in enumerate([*steps, ("expire", [])]):
        if number == first:
            place = there.place
            there.register(query)
        if number == late:
            before = come.history()
            gone = bool(before) and before["oldest"] > place
            if gone:
                with pytest.raises(eq.HistoryError):
                    come.register(query, begin=place)
                return
            tried = come.dry_run(query, begin=place).to_pylist()
            come.register(query, begin=place)
        expected += [n for n in take(there, step).to_pylist() if n["query_id"] == "q"]
        found += [n for n in take(come, step).to_pylist() if n["query_id"] == "q"]
        if number == late - 1:
            told_before = list(expected)
        dance(rng, come, ["p", "r"])
    for key, rows in as_rows(expected).items():
        assert Counter(as_rows(found)[key]) == Counter(rows)
    assert len(found) == len(expected)
    past = [notice for notice in found if notice["reason"] == "backfill"]
    told_before = told_before if late > first else []
    ids = Counter(notice["notice_id"] for notice in past)
    assert ids == Counter(notice["notice_id"] for notice in told_before)
    assert Counter(notice["notice_id"] for notice in tried) == ids
    if there.is_live("q"):
        assert answer_of(come, "q") == answer_of(there, "q")
