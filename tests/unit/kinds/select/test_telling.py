"""What select queries tell: matches as they come, and how answers change."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import everquery as eq
from tests.unit.kinds.select.drawn import R, batches, windows
from tests.unit.kinds.select.plain import PlainStream, answer

KEYED = ["k", "seq"]


def told(notices):
    return notices.select(["event", "key", "seq", "value"]).to_pylist()


@given(data=st.data())
def test_changes_of_rows_lead_from_answer_to_answer(data):
    where = data.draw(st.sampled_from(["", " WHERE x > 0", " WHERE x > y - 1", " WHERE k = 'a'"]))
    window = data.draw(windows().filter(lambda text: text.endswith("END NOW")))
    query = eq.Select("q", f"SELECT *{where} {window}", tell="changes")
    engine, plain = eq.Engine(R), PlainStream(R)
    engine.register(query)
    seqs, rows = {}, set()
    for batch in data.draw(batches(R, ordered=data.draw(st.booleans()))):
        before = len(plain.rows)
        plain.process(batch)
        for row in plain.rows[before:]:
            row["seq"] = seqs[row["k"]] = seqs.get(row["k"], -1) + 1
        for change in told(engine.process([dict(each) for each in batch])):
            name = change["key"], change["seq"]
            if change["event"] == "insert":
                assert name not in rows
                rows.add(name)
            else:
                assert change["event"] == "delete"
                rows.remove(name)
        keyed = eq.Select("q", f"SELECT k, seq{where} {window}")
        assert rows == set(answer(keyed, [plain]))
        if data.draw(st.integers(0, 3)) == 0:
            fresh = eq.Engine(R)
            fresh.restore(engine.snapshot())
            engine = fresh


@given(data=st.data())
def test_changes_of_aggregates_lead_from_answer_to_answer(data):
    function = data.draw(
        st.sampled_from(
            ["COUNT(*)", "SUM(x)", "AVG(y)", "MIN(x)", "MAX(w)", "VAR_POP(x)", "COUNT(DISTINCT y)"]
        )
    )
    window = data.draw(windows().filter(lambda text: text.endswith("END NOW")))
    query = eq.Select("q", f"SELECT k, {function} AS v GROUP BY k {window}", tell="changes")
    engine, plain = eq.Engine(R), PlainStream(R)
    engine.register(query)
    values, ids = {}, []
    for batch in data.draw(batches(R, ordered=data.draw(st.booleans()))):
        plain.process(batch)
        notices = engine.process(batch)
        ids += notices["notice_id"].to_pylist()
        for change in told(notices):
            if change["event"] == "delete":
                del values[change["key"]]
            else:
                assert (change["event"] == "update") == (change["key"] in values)
                value = change["value"]
                values[change["key"]] = None if value != value else value
        assert values == dict(answer(query, [plain]))
    assert len(set(ids)) == len(ids)


def test_time_that_passes_without_events_is_told_too():
    engine = eq.Engine(eq.Stream("r", key="k", time="t", attributes=["x"]))
    engine.sql("CREATE STANDING QUERY q AS SELECT * FROM r BEGIN NOW - 5 END NOW EMIT CHANGES")
    assert [each["event"] for each in told(engine.process([{"k": "a", "t": 1, "x": 1.0}]))] == [
        "insert"
    ]
    assert [each["event"] for each in told(engine.advance(7))] == ["delete"]
    assert engine.invoke("q").num_rows == 0


def test_a_paused_query_tells_the_rest_when_it_is_resumed():
    engine = eq.Engine(eq.Stream("r", key="k", attributes=["x"]))
    engine.sql("CREATE STANDING QUERY q AS SELECT * FROM r BEGIN NOW - 2 ROWS END NOW EMIT CHANGES")
    engine.process([{"k": "a", "x": 1.0}])
    engine.pause("q")
    assert engine.process([{"k": "b", "x": 1.0}, {"k": "c", "x": 1.0}]).num_rows == 0
    engine.resume("q")
    events = [(each["event"], each["key"]) for each in told(engine.process([{"k": "d", "x": 1.0}]))]
    assert events == [("delete", "a"), ("insert", "c"), ("insert", "d")]


@pytest.mark.parametrize(
    ("plan", "tell", "why"),
    [
        ("SELECT COUNT(*) BEGIN NOW - 5 ROWS END NOW", "matches", "EMIT CHANGES tells"),
        ("SELECT * BEGIN 3 ROWS END NOW", "matches", "BEGIN NOW - ... or OLDEST"),
        ("SELECT * BEGIN NOW - 5 ROWS END NOW - 1 ROWS", "changes", "END NOW"),
        ("SELECT DISTINCT k BEGIN NOW - 5 ROWS END NOW", "changes", "DISTINCT"),
        ("SELECT COUNT(*), SUM(x) BEGIN NOW - 5 ROWS END NOW", "changes", "one value"),
    ],
)
def test_what_can_not_be_told(plan, tell, why):
    with pytest.raises(eq.InvalidQueryError, match=why):
        eq.Select("q", plan, tell=tell)


def test_changes_of_groups_are_those_of_keys():
    engine = eq.Engine(R)
    query = eq.Select("q", "SELECT x, COUNT(*) GROUP BY x BEGIN OLDEST END NOW", tell="changes")
    with pytest.raises(eq.InvalidQueryError, match="group by the key"):
        engine.register(query)
