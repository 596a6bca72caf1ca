"""Every kind of query can begin in the past: it is as if it had been registered there."""

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
