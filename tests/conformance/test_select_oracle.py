"""Select queries beside an oracle that was written from the docs alone.

`select_oracle` computes answers anew in plain Python, and `select_worlds` lets it live beside an
engine: random streams, batches, queries that come, go, pause and are replaced, pages, places,
restarts and a past that is partly gone. ``EVERQUERY_SELECT_WORLDS`` says how many worlds there are.
"""

import os

import pytest

import everquery as eq
from everquery.history import history as keeping
from everquery.kinds.select import matching as selecting
from tests.conformance.select_worlds import run_world

FIRST = int(os.environ.get("EVERQUERY_FIRST_WORLD", "0"))
WORLDS = range(FIRST, FIRST + int(os.environ.get("EVERQUERY_SELECT_WORLDS", "24")))


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    monkeypatch.setattr(keeping, "ROWS", 5)


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("slack", [3, selecting.SLACK], ids=["trimmed", "as it is"])
def test_answers_and_notices_are_those_of_the_oracle(world, slack, monkeypatch):
    monkeypatch.setattr(selecting, "SLACK", slack)
    run_world(f"{world} {slack}", steps=40)


def _rows(engine, query="q"):
    return engine.invoke(query)["t"].to_pylist()


def _stream(**said):
    return eq.Stream("r", key="k", time="t", attributes=["x"], **said)


def _batch(*times):
    return {"k": ["a"] * len(times), "t": list(times), "x": [1.0] * len(times)}


def test_a_snapshot_before_the_first_event_of_a_query_holds_the_rows_that_it_sees():
    engine = eq.Engine(_stream(keep="all"))
    engine.process(_batch(1, 2, 3))
    engine.register(eq.Select("q", "SELECT t BEGIN NOW - 2 ROWS END NOW"))
    restored = eq.Engine(_stream(keep="all"), snapshot=engine.snapshot())
    assert _rows(restored) == _rows(engine) == [2, 3]


@pytest.mark.parametrize("registered", ["before", "after"])
def test_now_is_what_time_was_set_back_to_where_no_event_came_since(registered):
    engine = eq.Engine(_stream(keep="all"))
    engine.process(_batch(1, 20, 29, 31))
    query = eq.Select("q", "SELECT t BEGIN NOW - 9 END NOW")
    if registered == "before":
        engine.register(query)
    engine.reset_time(29)
    if registered == "after":
        engine.register(query)
    assert _rows(engine) == [20, 29]


@pytest.mark.parametrize("tell", ["nothing", "changes"])
def test_oldest_is_all_that_is_kept_also_where_other_queries_need_less(tell, monkeypatch):
    monkeypatch.setattr(selecting, "SLACK", 2)
    engine = eq.Engine(_stream(keep="all"))
    engine.register(eq.Select("last", "SELECT t BEGIN NOW - 1 ROWS END NOW"))
    for first in range(0, 12, 3):
        engine.process(_batch(first, first + 1, first + 2))
    engine.register(eq.Select("q", "SELECT t BEGIN OLDEST END NOW", tell=tell))
    told = engine.process(_batch(12))["time"].to_pylist()
    assert told == ([] if tell == "nothing" else list(range(13)))
    assert _rows(engine) == list(range(13))


def test_a_flush_tells_the_answer_that_is_read():
    engine = eq.Engine(_stream(grace=3))
    engine.register(eq.Select("q", "SELECT t BEGIN NOW - 1 END NOW", tell="changes"))
    engine.process(_batch(131, 132))
    assert engine.advance(136)["event"].to_pylist() == ["insert"]
    assert engine.flush().num_rows == 0  # nothing is let out, so time has come no further
    assert _rows(engine) == [132]
    assert engine.advance(137)["event"].to_pylist() == ["delete"]
    assert _rows(engine) == []


def test_nothing_is_lost_of_a_stream_that_has_had_no_event():
    engine = eq.Engine(_stream(keep="all"))
    engine.process({"k": [], "t": [], "x": []})
    engine.register(eq.Select("q", "SELECT t BEGIN NOW - 20 END NOW"))
    engine = eq.Engine(_stream(keep="all"), snapshot=engine.snapshot())
    engine.process(_batch(6))
    assert _rows(engine) == [6]
