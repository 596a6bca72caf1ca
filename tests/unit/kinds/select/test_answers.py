"""Answers equal those of plain Python: whatever the batches, restarts and changes of queries."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import everquery as eq
from tests.unit.kinds.select.drawn import R, S, batches, joins, selects
from tests.unit.kinds.select.plain import PlainStream, answer, assert_same


@given(data=st.data())
def test_a_query_that_was_there_before_all_events(data):
    queries = [data.draw(selects(f"q{i}")) for i in range(3)]
    engine, plain = eq.Engine(R), PlainStream(R)
    engine.register(queries)
    for batch in data.draw(batches(R, ordered=data.draw(st.booleans()))):
        engine.process(batch)
        plain.process(batch)
        if data.draw(st.booleans()):
            for query in queries:
                assert_same(engine.invoke(query.id), answer(query, [plain]))
        if data.draw(st.integers(0, 3)) == 0:
            fresh = eq.Engine(R)
            fresh.restore(engine.snapshot())
            engine = fresh
    for query in queries:
        assert_same(engine.invoke(query.id), answer(query, [plain]))


@given(data=st.data())
def test_a_query_that_comes_late_sees_what_is_kept(data):
    stream = eq.Stream("r", key="k", time="t", attributes=["x", "y"], weight="w", keep="all")
    engine, plain = eq.Engine(stream), PlainStream(stream)
    live = {}
    for number, batch in enumerate(data.draw(batches(stream, ordered=data.draw(st.booleans())))):
        engine.process(batch)
        plain.process(batch)
        if data.draw(st.booleans()):
            query = data.draw(selects(f"q{number}"))
            engine.register(query)
            live[query.id] = query
        if live and data.draw(st.integers(0, 3)) == 0:
            engine.deregister(live.popitem()[0])
        for query in live.values():
            assert_same(engine.invoke(query.id), answer(query, [plain]))


@given(data=st.data())
def test_joins(data):
    queries = [data.draw(joins(f"j{i}")) for i in range(2)]
    engine = eq.Engine([R, S])
    plain = {"r": PlainStream(R), "s": PlainStream(S)}
    engine.register(queries)
    both = [("r", each) for each in data.draw(batches(R, ordered=data.draw(st.booleans())))]
    both += [("s", each) for each in data.draw(batches(S, ordered=data.draw(st.booleans())))]
    for name, batch in data.draw(st.permutations(both)):
        engine.process(batch, stream=name)
        plain[name].process(batch)
        if data.draw(st.booleans()):
            for query in queries:
                assert_same(engine.invoke(query.id), answer(query, [plain["r"], plain["s"]]))


@given(data=st.data())
def test_changes_since_a_place_lead_from_one_answer_to_the_next(data):
    query = data.draw(selects())
    stream = eq.Stream("r", key="k", time="t", attributes=["x", "y"], weight="w", keep="all")
    engine = eq.Engine(stream)
    engine.register(query)
    names = [query.parsed.name_of(item) for item in query.parsed.items if item.function is None]
    before, place = [], None
    for batch in data.draw(batches(stream, ordered=True)):
        engine.process(batch)
        whole = engine.invoke("q")
        if place is not None:
            rows = list(before)
            for change in engine.invoke("q", since=place).to_pylist():
                what = change.pop("change")
                if what == "delete":
                    rows.remove(change)
                elif what == "insert":
                    rows.append(change)
                else:
                    (old,) = [each for each in rows if all(each[n] == change[n] for n in names)]
                    rows[rows.index(old)] = change
            assert sorted(map(repr, rows)) == sorted(map(repr, whole.to_pylist()))
        before, place = whole.to_pylist(), eq.place_of(whole)


@given(data=st.data())
def test_pages_are_the_whole_answer(data):
    query = data.draw(selects())
    engine = eq.Engine(R)
    engine.register(query)
    for batch in data.draw(batches(R, ordered=True)):
        engine.process(batch)
    whole, limit = engine.invoke("q").to_pylist(), data.draw(st.integers(1, 4))
    page = engine.invoke("q", limit=limit)
    found = page.to_pylist()
    while page.num_rows:
        engine.process([{"k": "a", "t": 1_000, "x": 1.0, "y": 0.0, "w": 1}])  # later than the page
        try:
            page = engine.invoke("q", limit=limit, after=eq.place_of(page))
        except eq.RowsGoneError:
            return
        found += page.to_pylist()
    assert found == whole


def test_the_kept_past_survives_a_restart(tmp_path):
    stream = eq.Stream("r", key="k", time="t", attributes=["x"], keep="all")
    with eq.Engine(stream, history=tmp_path / "past") as engine:
        engine.process({"k": ["a", "b"], "t": [1, 2], "x": [1.0, 5.0]})
    with eq.Engine(stream, history=tmp_path / "past") as engine:
        engine.register(eq.Select("q", "SELECT k, x WHERE x > 2 BEGIN OLDEST END NOW"))
        assert engine.invoke("q").to_pylist() == [{"k": "b", "x": 5.0}]
        engine.process({"k": ["c"], "t": [3], "x": [6.0]})
        assert engine.invoke("q")["k"].to_pylist() == ["b", "c"]


def test_without_keep_rows_count_from_the_registration_on():
    engine = eq.Engine(eq.Stream("r", attributes=["x"]))
    engine.process({"x": [1.0]})
    engine.register(eq.Select("q", "SELECT x BEGIN NOW - 10 ROWS END NOW"))
    engine.process({"x": [2.0, 3.0]})
    assert engine.invoke("q")["x"].to_pylist() == [2.0, 3.0]


def test_rows_that_no_window_needs_are_forgotten_and_told(monkeypatch):
    monkeypatch.setattr("everquery.kinds.select.matching.SLACK", 16)
    engine = eq.Engine(eq.Stream("r", attributes=["x"]))
    engine.register(eq.Select("q", "SELECT COUNT(*) BEGIN NOW - 10 ROWS END NOW"))
    for number in range(100):
        engine.process({"x": [float(number)] * 5})
    index = engine._shard.asked("invoke").index
    assert len(index.store) < 200
    assert engine.invoke("q")["count"].to_pylist() == [10]
    engine.register(eq.Select("old", "SELECT COUNT(*) BEGIN 0 ROWS END NOW"))
    with pytest.raises(eq.RowsGoneError, match="only what follows"):
        engine.invoke("old")
    assert engine.invoke("old", partial=True)["count"].to_pylist()[0] >= 10


def test_bad_arguments():
    engine = eq.Engine(eq.Stream("r", attributes=["x"]))
    engine.register([eq.Select("q", "SELECT x BEGIN OLDEST END NOW"), eq.Range("r", {"x": (0, 1)})])
    with pytest.raises(eq.InvalidQueryError, match="only select queries are read on demand"):
        engine.invoke("r")
    with pytest.raises(eq.InvalidQueryError, match="limit is 0"):
        engine.invoke("q", limit=0)
    with pytest.raises(eq.InvalidQueryError, match="no place of this query"):
        engine.invoke("q", since="yesterday")
    with pytest.raises(eq.InvalidQueryError, match="ask for one"):
        engine.invoke("q", since="x", limit=1)
    assert engine.invoke("q").num_rows == 0
    engine.deregister("q")
    with pytest.raises(eq.UnknownQueryError):
        engine.invoke("q")


def test_an_answer_that_is_too_large_is_read_by_pages(monkeypatch):
    monkeypatch.setattr("everquery.kinds.select.answers.MOST_ROWS", 3)
    engine = eq.Engine(eq.Stream("r", attributes=["x"]))
    engine.register(eq.Select("q", "SELECT x BEGIN OLDEST END NOW"))
    engine.process({"x": [1.0, 2.0, 3.0, 4.0]})
    with pytest.raises(eq.AnswerTooLargeError, match="page by page"):
        engine.invoke("q")
    assert engine.invoke("q", limit=2)["x"].to_pylist() == [1.0, 2.0]


def test_clocks_that_go_back():
    engine = eq.Engine(eq.Stream("r", key="k", time="t", attributes=["x"]))
    engine.register(eq.Select("q", "SELECT x BEGIN NOW - 10 END NOW"))
    engine.process({"k": ["a", "a"], "t": [5, 1_000], "x": [1.0, 2.0]})
    assert engine.invoke("q")["x"].to_pylist() == [2.0]
    engine.reset_time(6)
    assert engine.invoke("q")["x"].to_pylist() == [1.0]
    engine.process({"k": ["b"], "t": [8], "x": [3.0]})
    assert engine.invoke("q")["x"].to_pylist() == [1.0, 3.0]
