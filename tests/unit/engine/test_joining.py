"""Joins that tell: pairs as they are completed, and how answers change."""

from datetime import datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import everquery as eq
from everquery.queries.changes import Register, RegisterBlocks
from everquery.sharding.routing import joins

R = eq.Stream("r", key="k", time="t", attributes=["x"])
S = eq.Stream("s", key="k", time="t", attributes=["z"])
WHERE = "SELECT r.x, s.z FROM r, s WHERE r.k = s.k"
JOIN = f"{WHERE} BEGIN NOW - 5 END NOW"
EVENTS = {"r": "x", "s": "z"}


def row(stream, key, time, value):
    return {"k": key, "t": time, EVENTS[stream]: value}


def engine_of(plan=JOIN, tell="matches", streams=(R, S), **said):
    engine = eq.Engine(list(streams))
    engine.register(eq.Select("j", plan, tell=tell, **said))
    return engine


def pairs(notices, called):
    """Return events and the pairs that they are about, those of `r` first."""
    other = "s" if called == "r" else "r"
    found = []
    for each in notices.to_pylist():
        mine, theirs = ((each[f"{of}key"], each[f"{of}seq"]) for of in ("", f"{other}."))
        found.append((each["event"], *((mine, theirs) if called == "r" else (theirs, mine))))
    return found


def test_a_pair_is_told_once_at_the_event_that_completes_it():
    engine = engine_of()
    assert engine.process([row("r", "a", 1, 5.0), row("r", "b", 2, 6.0)], stream="r").num_rows == 0
    (told,) = engine.process([row("s", "a", 3, 4.0)], stream="s").to_pylist()
    assert told.pop("notice_id")
    assert told == {
        "query_id": "j", "kind": "select", "event": "match", "reason": None, "held_back": None,
        "key": "a", "time": 3, "seq": 0, "z": 4.0, "value": None,
        "r.key": "a", "r.time": 1, "r.seq": 0, "r.x": 5.0,
    }  # fmt: skip
    again = engine.process([row("s", "c", 4, 4.0)], stream="s")
    assert again.num_rows == 0
    assert again.column_names[-5:] == ["r.key", "r.time", "r.seq", "r.x", "notice_id"]
    told = engine.process([row("r", "a", 4, 7.0), row("r", "a", 9, 8.0)], stream="r")
    assert pairs(told, "r") == [("match", ("a", 1), ("a", 0))]  # at 9 the window begins at 4
    assert told.column_names[-5:] == ["s.key", "s.time", "s.seq", "s.z", "notice_id"]


def test_the_id_of_a_pair_is_the_same_whichever_event_comes_last():
    events = {"r": [row("r", "a", 1, 5.0)], "s": [row("s", "a", 1, 4.0)]}
    ids = []
    for order in (("r", "s"), ("s", "r")):
        engine = engine_of()
        ids += [
            engine.process(events[name], stream=name)["notice_id"].to_pylist() for name in order
        ]
    assert ids[0] == ids[2] == []
    assert ids[1] == ids[3] != []


@given(data=st.data())
def test_batches_are_invisible(data):
    window = data.draw(st.sampled_from(["NOW - 5", "NOW - 0", "NOW - 3 ROWS", "NOW - 1 ROWS"]))
    where = data.draw(st.sampled_from(["r.k = s.k", "r.x > s.z", "r.k = s.k AND r.x >= s.z - 1"]))
    plan = f"SELECT r.x FROM r, s WHERE {where} BEGIN {window} END NOW"
    calls, time = [], 0
    for _ in range(data.draw(st.integers(1, 5))):
        stream, rows = data.draw(st.sampled_from(["r", "s"])), []
        for _ in range(data.draw(st.integers(0, 5))):
            time += data.draw(st.integers(0, 3))
            value = data.draw(st.sampled_from([None, 0.0, 1.0, 2.0]))
            rows.append(row(stream, data.draw(st.sampled_from("ab")), time, value))
        calls.append((stream, rows))
    told = []
    for split in (False, True):
        engine = engine_of(plan)
        engine.register(eq.Range("own", {"x": (1, 3)}), stream="r")
        engine.register(eq.Border("owns", {"z": (1, 3)}), stream="s")
        found = []
        for stream, rows in calls:
            for part in [[each] for each in rows] if split else [rows]:
                found += engine.process(part, stream=stream).to_pylist()
                if split and data.draw(st.integers(0, 5)) == 0:
                    snapshot = engine.snapshot()
                    engine = eq.Engine([R, S])
                    engine.restore(snapshot)
        told.append(found)
    assert told[0] == told[1]
    ids = [each["notice_id"] for each in told[0]]
    assert len(set(ids)) == len(ids)


def test_changes_tell_pairs_that_come_and_go():
    engine = engine_of(tell="changes")
    engine.process([row("r", "a", 1, 5.0)], stream="r")
    told = engine.process([row("s", "a", 2, 4.0)], stream="s")
    assert pairs(told, "s") == [("insert", ("a", 0), ("a", 0))]
    restored = eq.Engine([R, S])
    restored.restore(engine.snapshot())
    for each in (engine, restored):
        told = each.advance(7, stream="s")
        assert pairs(told, "s") == [("delete", ("a", 0), ("a", 0))]
        assert each.advance(8, stream="s").num_rows == 0


def test_changes_of_an_aggregate_are_told_with_either_stream():
    plan = "SELECT r.k, SUM(s.z) FROM r, s WHERE r.k = s.k GROUP BY r.k BEGIN NOW - 5 END NOW"
    engine = engine_of(plan, "changes")
    moved = []
    for stream, key, time, value in [
        ("r", "a", 1, 1.0), ("s", "a", 2, 4.0), ("r", "a", 3, 1.0), ("s", "b", 3, 9.0),
        ("r", "b", 7, 2.0), ("s", "c", 20, 1.0),
    ]:  # fmt: skip
        told = engine.process([row(stream, key, time, value)], stream=stream).to_pylist()
        moved.append([(each["event"], each["key"], each["value"]) for each in told])
    assert moved == [
        [],
        [("insert", "a", 4.0)],
        [("update", "a", 8.0)],
        [],
        [("update", "a", 4.0), ("insert", "b", 9.0)],
        [("delete", "a", 4.0), ("delete", "b", 9.0)],
    ]


def test_the_first_changes_are_the_whole_answer_and_a_paused_join_catches_up():
    streams = [
        eq.Stream(s.name, key="k", time="t", attributes=s.attributes, keep="all") for s in (R, S)
    ]
    engine = eq.Engine(streams)
    engine.process([row("r", "a", 1, 5.0)], stream="r")
    engine.process([row("s", "a", 2, 4.0)], stream="s")
    engine.register(eq.Select("j", JOIN, tell="changes"))
    engine.register(eq.Select("m", JOIN, tell="matches"))
    told = engine.process([row("r", "b", 3, 5.0)], stream="r")
    assert pairs(told, "r") == [("insert", ("a", 0), ("a", 0))]
    engine.pause(["j", "m"])
    assert engine.process([row("s", "b", 3, 5.0)], stream="s").num_rows == 0
    engine.resume(["j", "m"])
    told = engine.process([row("s", "c", 4, 5.0)], stream="s")
    assert pairs(told, "s") == [("insert", ("b", 0), ("b", 0))]
    assert engine.push(row("s", "b", 4, 5.0), stream="s")[0]["r.key"] == "b"


def test_joins_in_a_registry_tell_in_engines_of_both_streams(tmp_path, caplog):
    url = f"sqlite:///{tmp_path}/queries.db"
    with (
        eq.Engine([R, S], registry=url, create=True, labels=True) as engine,
        eq.Engine([R, S], registry=url) as other,
    ):
        other.register(eq.Select("j", JOIN, tell="matches", owner="ann"))
        engine.process([row("r", "a", 1, 5.0)], stream="r")
        told = engine.process([row("s", "a", 1, 5.0)], stream="s")
        assert told["owner"].to_pylist() == ["ann"]
        engine.deregister("j")
        assert engine.process([row("s", "a", 1, 5.0)], stream="s").num_rows == 0
        engine.register(eq.Select("j", JOIN, tell="matches"))
    with eq.Engine("r", registry=url) as alone, caplog.at_level("WARNING", "everquery.select"):
        assert alone.process([row("r", "a", 1, 5.0)]).num_rows == 0
    assert "query 'j' tells nothing here: it joins 'r' and 's'; open an Engine" in caplog.text


def test_streams_without_keys_and_times():
    streams = [eq.Stream("r", attributes=["x"]), eq.Stream("s", attributes=["z"])]
    plan = "SELECT r.x FROM r, s WHERE r.x = s.z BEGIN NOW - 2 ROWS END NOW"
    engine = engine_of(plan, streams=streams)
    engine.process({"x": [1.0, 2.0, 2.0]}, stream="r")
    told = engine.process({"z": [1.0, 2.0]}, stream="s").to_pylist()
    assert [(each["seq"], each["r.seq"]) for each in told] == [(1, 1), (1, 2)]
    assert len({each["notice_id"] for each in told}) == 2


def test_a_stream_may_have_a_column_called_value():
    streams = [R, eq.Stream("s", key="k", time="t", attributes=["value"])]
    plan = "SELECT SUM(s.value) FROM r, s WHERE r.k = s.k BEGIN NOW - 5 END NOW"
    engine = engine_of(plan, "changes", streams=streams)
    engine.process([row("r", "a", 1, 5.0)], stream="r")
    told = engine.process([{"k": "a", "t": 1, "value": 7.0}], stream="s").to_pylist()
    assert [(each["value"], each["select_value"], each["r.x"]) for each in told] == [
        (7.0, 7.0, 5.0)
    ]
    told = engine.process([row("r", "a", 1, 5.0)], stream="r").to_pylist()
    assert [(each["value"], each["s.value"]) for each in told] == [(14.0, 7.0)]


@pytest.mark.parametrize(
    ("plan", "tell", "said", "why"),
    [
        (JOIN, "matches", {"throttle": 5}, "no throttle"),
        (JOIN, "changes", {"throttle": 5}, "no throttle"),
        (JOIN, "matches", {"ttl": 5}, "no ttl"),
        (f"{WHERE} BEGIN NOW - 5 END NOW - 1", "matches", {}, "END NOW"),
        (f"{WHERE} BEGIN 5 END NOW", "matches", {}, "let the window BEGIN NOW"),
        (JOIN.replace("r.x", "DISTINCT r.x"), "changes", {}, "DISTINCT"),
        ("SELECT a.x FROM r AS a, r AS b WHERE a.x = b.x BEGIN NOW - 5 END NOW", "matches", {},
         "with itself"),
        ("SELECT COUNT(*) FROM r, s WHERE r.k = s.k BEGIN NOW - 5 END NOW", "matches", {},
         "EMIT CHANGES"),
    ],
)  # fmt: skip
def test_what_joins_can_not_tell(plan, tell, said, why):
    with pytest.raises(eq.InvalidQueryError, match=why):
        eq.Select("j", plan, tell=tell, **said)


@pytest.mark.parametrize("by", ["r.x", "s.k, r.x", "s.k"])
def test_groups_of_joins_are_keys_that_they_are_joined_by(by):
    plan = f"SELECT COUNT(*) FROM r, s WHERE r.x = s.z GROUP BY {by} BEGIN NOW - 5 END NOW"
    with pytest.raises(eq.InvalidQueryError, match="join the streams by their keys"):
        engine_of(plan, "changes")
    plan = "SELECT COUNT(*) FROM r, s WHERE r.k = s.k GROUP BY s.k BEGIN NOW - 5 END NOW"
    engine_of(plan, "changes")


def test_what_can_not_be_registered():
    engine = eq.Engine([R, S])
    for begin in ("oldest", 3):
        with pytest.raises(eq.InvalidQueryError, match="leave out begin"):
            engine.register(eq.Select("j", JOIN, tell="matches"), begin=begin)
    with pytest.raises(eq.InvalidQueryError, match="tells of two streams"):
        engine.dry_run(eq.Select("j", JOIN, tell="matches"), stream="r")
    keyed = eq.Select("j", "SELECT r.x FROM r, s WHERE r.k = s.z BEGIN NOW - 5 END NOW")
    with pytest.raises(eq.InvalidQueryError, match="by = alone"):
        engine.register(keyed)
    table = pa.table({"id": ["j"], "plan": [JOIN], "tell": ["matches"], "ttl": ["5s"]})
    with pytest.raises(eq.InvalidQueryError, match="no ttl"):
        engine.register_table(table, kind="select", stream="r")
    assert engine.queries().num_rows == 0
    named = eq.Stream("s", key="k", time="t", attributes=["z", "r.x"])
    with pytest.raises(eq.InvalidQueryError, match="rename it"):
        engine_of(streams=[R, named])


def test_times_of_the_other_stream_are_looked_at_too():
    engine = eq.Engine([R, S])
    engine.process([row("s", "a", 1, 5.0)], stream="s")
    plan = f"{WHERE} BEGIN NOW - INTERVAL '5' SECOND END NOW"
    with pytest.raises(eq.InvalidQueryError, match="no unit to measure it by"):
        engine.register(eq.Select("j", plan))
    with pytest.raises(eq.InvalidQueryError, match="no unit to measure it by"):
        engine.sql(f"CREATE STANDING QUERY j AS {plan}")


@pytest.mark.parametrize(
    ("window", "theirs", "why"),
    [
        ("NOW - 5", {"k": 7, "t": 1}, "none of them are equal"),
        ("NOW", {"k": "a", "t": datetime(2026, 1, 1)}, "no unit in common"),
    ],
)
def test_streams_that_can_not_be_joined_are_reported_and_events_go_on(window, theirs, why, caplog):
    engine = engine_of(f"{WHERE} BEGIN {window} END NOW")
    engine.register(eq.Range("own", {}), stream="s")
    engine.process([row("r", "a", 1, 5.0)], stream="r")
    with caplog.at_level("WARNING", "everquery.select"):
        for _ in range(2):
            told = engine.process([{**theirs, "z": 1.0}], stream="s")
            assert told["query_id"].to_pylist() == ["own"]
    assert len(caplog.records) == 1
    assert "query 'j' tells nothing" in caplog.text
    assert why in caplog.text
    with pytest.raises(eq.InvalidQueryError, match=why):
        engine.invoke("j")


def test_a_stream_that_is_not_there_is_reported(tmp_path, caplog):
    url = f"sqlite:///{tmp_path}/queries.db"
    third = eq.Stream("u", attributes=["x"])
    with eq.Engine([R, S, third], registry=url, create=True) as engine:
        engine.register(eq.Select("j", JOIN, tell="matches"))
    with eq.Engine(["r", "u"], registry=url) as engine:
        engine.process([row("r", "a", 1, 5.0)], stream="r")
    assert "this engine lacks stream 's'" in caplog.text


def test_jobs_of_one_stream_run_without_joins_that_tell():
    told, read = eq.Select("j", JOIN, tell="matches"), eq.Select("i", JOIN)
    assert list(joins(Register((told, read)))) == [("select", "j")]
    engine = eq.Engine([R, S])
    engine.register([told, read])
    blocks = [block for block, _ in engine._engines["r"]._shard.queries.blocks()]
    assert list(joins(RegisterBlocks(tuple(blocks)))) == [("select", "j")]
