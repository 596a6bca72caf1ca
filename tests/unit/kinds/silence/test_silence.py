"""Keys that nothing is heard from: when that is told, and when they are back."""

from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest

import everquery as eq
from everquery.core.framing import DamagedError
from everquery.errors import InvalidBatchError, InvalidQueryError, InvalidTableError
from everquery.queries.sql import print_query, read_sql
from everquery.shard import upkeep
from everquery.shard.parts import parts_of
from everquery.testing import BruteForce, assert_same_notices, notices_of

STREAM = eq.Stream("rooms", key="room", time="t", attributes=["x"])
COLUMNS = ("query_id", "event", "key", "time", "seq", "reason")


def table(*events):
    rooms, times = zip(*events, strict=True) if events else ((), ())
    return pa.table(
        {
            "room": pa.array(rooms, pa.string()),
            "t": pa.array(times, pa.int64()),
            "x": pa.array([float(time) for time in times], pa.float64()),
        }
    )


def rows(notices, *columns):
    chosen = notices.select(list(columns or COLUMNS)).to_pylist()
    return [tuple(row.values()) for row in chosen]


@pytest.fixture
def engine():
    with eq.Engine(STREAM) as engine:
        yield engine


def feed(engine, *events):
    return rows(engine.process(table(*events)))


def test_a_key_is_silent_at_the_moment_and_back_at_its_next_event(engine):
    engine.register(eq.Silence("q", after=10))
    assert feed(engine, ("a", 0), ("b", 9)) == []
    assert feed(engine, ("b", 10)) == [("q", "silent", "a", 10, 0, None)]
    assert feed(engine, ("b", 15)) == []
    assert feed(engine, ("a", 16)) == [("q", "back", "a", 16, 1, None)]


def test_an_event_at_the_very_moment_comes_after_it(engine):
    engine.register(eq.Silence("q", after=10))
    told = [("q", "silent", "a", 10, 0, None), ("q", "back", "a", 10, 1, None)]
    assert feed(engine, ("a", 0), ("a", 10)) == told


def test_the_notice_has_the_values_of_the_last_event(engine):
    engine.register(eq.Silence("q", after=10))
    notices = engine.process(table(("a", 3), ("a", 4), ("b", 20)))
    assert rows(notices, "event", "time", "seq", "x") == [("silent", 14, 1, 4.0)]


def test_several_spans_are_told_in_order_of_time(engine):
    engine.register([eq.Silence("long", after=10), eq.Silence("short", after=4)])
    told = feed(engine, ("a", 0), ("a", 20))
    assert [each[:2] + each[3:4] for each in told] == [
        ("short", "silent", 4),
        ("long", "silent", 10),
        ("long", "back", 20),
        ("short", "back", 20),
    ]


def test_time_passes_without_events(engine):
    engine.register(eq.Silence("q", after=10))
    feed(engine, ("a", 0))
    assert rows(engine.advance(9)) == []
    assert rows(engine.advance(30)) == [("q", "silent", "a", 10, 0, None)]
    assert rows(engine.advance(90)) == []


def test_named_keys_are_told_of_before_anything_was_heard(engine):
    engine.register(eq.Silence("q", after=10, keys=["a", "b"]))
    told = engine.process(table(("c", 5), ("a", 7), ("c", 15)))
    assert rows(told) == [("q[b]", "silent", "b", 15, -1, "unheard")]
    assert told["x"].to_pylist() == [None]
    assert feed(engine, ("b", 16)) == [("q[b]", "back", "b", 16, 0, None)]
    assert feed(engine, ("c", 17)) == [("q[a]", "silent", "a", 17, 0, None)]


def test_a_named_key_may_come_too_late_within_the_first_batch(engine):
    engine.register(eq.Silence("q", after=10, key="b"))
    assert feed(engine, ("a", 0), ("b", 30)) == [
        ("q", "silent", "b", 10, -1, "unheard"),
        ("q", "back", "b", 30, 0, None),
    ]


def test_a_stream_without_key_is_one_series():
    stream = eq.Stream("s", time="t", attributes=["x"])
    with eq.Engine(stream) as engine:
        engine.register(eq.Silence("q", after=10))
        batch = table(("a", 0), ("a", 30)).drop_columns(["room"])
        assert rows(engine.process(batch)) == [
            ("q", "silent", None, 10, 0, None),
            ("q", "back", None, 30, 1, None),
        ]


def test_keys_that_are_silent_already_are_told_of_at_registration(engine):
    feed(engine, ("a", 0), ("b", 95), ("c", 100))
    engine.register([eq.Silence("q", after=10), eq.Silence("n", after=10, key="b")])
    assert feed(engine) == [("q", "silent", "a", 10, 0, "registered")]
    assert feed(engine, ("a", 101)) == [("q", "back", "a", 101, 1, None)]


def test_expired_keys_are_not_told_of_at_registration_unless_they_are_named():
    stream = eq.Stream("s", key="room", time="t", attributes=["x"], expire_after=20)
    with eq.Engine(stream) as engine:
        feed(engine, ("gone", 0), ("here", 95), ("c", 110))
        engine.register([eq.Silence("q", after=10), eq.Silence("n", after=10, key="gone")])
        assert feed(engine) == [
            ("n", "silent", "gone", 10, 0, "registered"),
            ("q", "silent", "here", 105, 0, "registered"),
        ]
        # It had been silent, told or not.
        assert feed(engine, ("gone", 111)) == [
            ("q", "back", "gone", 111, 1, None),
            ("n", "back", "gone", 111, 1, None),
        ]


def test_an_expired_key_still_becomes_silent():
    stream = eq.Stream("s", key="room", time="t", attributes=["x"], expire_after=5)
    with eq.Engine(stream) as engine:
        engine.register([eq.Silence("q", after=10), eq.Border("in", {"x": (0, 1)})])
        assert feed(engine, ("a", 0), ("b", 20), ("a", 21)) == [
            ("in", "enter", "a", 0, 0, None),
            ("in", "leave", "a", 5, 0, "expired"),
            ("q", "silent", "a", 10, 0, None),
            ("q", "back", "a", 21, 1, None),
        ]


def test_a_paused_query_tells_nothing_and_what_is_silent_when_it_is_resumed(engine):
    engine.register(eq.Silence("q", after=10))
    feed(engine, ("a", 0), ("b", 0))
    engine.pause("q")
    assert feed(engine, ("b", 15)) == []
    engine.resume("q")
    assert feed(engine) == [("q", "silent", "a", 10, 0, "resumed")]
    assert feed(engine, ("b", 16)) == []


def test_an_older_event_of_a_silent_key_brings_it_back(engine):
    engine.register(eq.Silence("q", after=10))
    assert feed(engine, ("a", 0), ("b", 100)) == [("q", "silent", "a", 10, 0, None)]
    assert feed(engine, ("a", 5)) == [
        ("q", "back", "a", 5, 1, None),
        ("q", "silent", "a", 15, 1, None),
    ]


def test_grace_and_flush():
    stream = eq.Stream("s", key="room", time="t", attributes=["x"], grace=10)
    with eq.Engine(stream) as engine:
        engine.register(eq.Silence("q", after=5))
        assert feed(engine, ("a", 0), ("b", 10)) == []
        assert feed(engine, ("a", 4), ("b", 16)) == []
        assert feed(engine, ("b", 19)) == [("q", "silent", "a", 9, 1, None)]
        assert rows(engine.flush()) == [
            ("q", "silent", "b", 15, 0, None),
            ("q", "back", "b", 16, 1, None),
        ]
        assert feed(engine, ("b", 18)) == []


def test_throttle_holds_silences_back(engine):
    engine.register(eq.Silence("q", after=2, throttle=10))
    assert feed(engine, ("a", 0), ("a", 5), ("a", 9), ("a", 20)) == [
        ("q", "silent", "a", 2, 0, None),
        ("q", "silent", "a", 12, 2, "throttled"),
    ]
    assert feed(engine, ("a", 21), ("a", 22)) == [("q", "back", "a", 22, 3, "throttled")]


def test_ttl_ends_it(engine):
    engine.register(eq.Silence("q", after=10, ttl=15))
    assert feed(engine, ("a", 0), ("b", 6), ("b", 16)) == [
        ("q", "silent", "a", 10, 0, None),
        ("q", "end", None, 15, -1, "ttl"),
    ]


def test_a_snapshot_knows_what_was_told(engine):
    engine.register([eq.Silence("q", after=10), eq.Silence("n", after=30, key="never")])
    feed(engine, ("a", 0), ("b", 12))
    with eq.Engine(STREAM) as other:
        other.restore(engine.snapshot())
        assert other.queries().equals(engine.queries())
        assert feed(other, ("b", 21)) == []
        assert feed(other, ("b", 30)) == [("n", "silent", "never", 30, -1, "unheard")]
        assert feed(other, ("a", 31)) == [("q", "back", "a", 31, 1, None)]


def test_dropped_slots_and_keys_are_given_up(engine, monkeypatch):
    monkeypatch.setattr(upkeep, "COMPACT", 4)
    engine.register(eq.Silence("keys", after=10, keys=[f"k{i}" for i in range(50)]))
    engine.register([eq.Silence("q", after=10), eq.Silence("n", after=20, key="never")])
    feed(engine, ("a", 0))
    engine.deregister("keys")
    assert feed(engine, ("b", 10)) == [("q", "silent", "a", 10, 0, None)]
    assert engine.stats()["keys"] == 3
    assert feed(engine, ("b", 20)) == [
        ("q", "silent", "b", 20, 0, None),
        ("q", "back", "b", 20, 1, None),
        ("n", "silent", "never", 20, -1, "unheard"),
    ]


def test_steps_without_a_deadline_look_at_no_key(engine):
    engine.register(eq.Silence("q", after=1_000))
    feed(engine, *((f"k{i}", i) for i in range(100)))
    (segment,) = engine._shard.contents.indexes["silence"].layers
    assert segment.soonest == 1_000
    feed(engine, ("k0", 500))
    assert segment.soonest == 1_000  # a bound: nobody has looked again
    assert len(feed(engine, ("k0", 1_010))) == 10
    assert segment.soonest == 1_011


def test_times_of_all_types():
    begin = datetime(2026, 1, 1)
    for kind, times, after in [
        (pa.timestamp("us"), [begin, begin + timedelta(minutes=10)], timedelta(minutes=10)),
        (pa.float64(), [0.1, 0.1 + 0.2], 0.2),
        (pa.int64(), [-(2**63) + 2, 2**63 - 1], 2**60),
    ]:
        with eq.Engine(STREAM) as engine:
            engine.register(eq.Silence("q", after=after))
            batch = pa.table({"room": ["a", "a"], "t": pa.array(times, kind), "x": [1.0, 2.0]})
            told = rows(engine.process(batch), "event", "time")
            assert [event for event, _ in told] == ["silent", "back"]
            assert told[1][1] == times[1]


def test_a_deadline_beyond_all_times_never_comes(engine):
    engine.register(eq.Silence("q", after=2**60))
    assert feed(engine, ("a", 2**63 - 9), ("b", 2**63 - 1)) == []


class TestSpec:
    def test_one_key_of_keys_is_the_key(self):
        query = eq.Silence("q", after=1, keys=["a"])
        assert (query.key, query.keys, query.parts()) == ("a", None, (query,))

    def test_parts(self):
        parts = eq.Silence("q", after=1, keys=np.array([3, 4]), owner="ann").parts()
        assert [(part.id, part.key, part.owner) for part in parts] == [
            ("q[3]", 3, "ann"),
            ("q[4]", 4, "ann"),
        ]

    @pytest.mark.parametrize(
        ("given", "reason"),
        [
            ({"after": None}, "after is None; a silence query needs one"),
            ({"after": 0}, "after is 0; it must be positive"),
            ({"after": True}, "after is True; write it as"),
            ({"after": 1, "keys": []}, r"keys is \[\]; give a list of keys"),
            ({"after": 1, "keys": "ab"}, "keys is 'ab'; give a list of keys"),
            ({"after": 1, "keys": ["a", "a"]}, "keys has 'a' twice"),
            ({"after": 1, "keys": ["a", 1]}, "keys has strings and integers"),
            ({"after": 1, "keys": [1.5, 2]}, "key is 1.5; a key is a string or an integer"),
            ({"after": 1, "keys": ["a"], "key": "b"}, "it has a key, 'b', and keys"),
            ({"after": 1, "keys": ["a" * 1_100, "b"]}, "it is that of a part: one for each key"),
        ],
    )
    def test_what_can_not_be(self, given, reason):
        with pytest.raises(InvalidQueryError, match=reason):
            eq.Silence("q", **given)

    def test_it_needs_time_and_keys_need_a_key(self):
        untimed = eq.Stream("s", key="k", attributes=["x"])
        with pytest.raises(InvalidQueryError, match="after needs a stream with a time column"):
            eq.Engine(untimed).register(eq.Silence("q", after=1))
        keyless = eq.Stream("s", time="t", attributes=["x"])
        with pytest.raises(InvalidQueryError, match="has no key"):
            eq.Engine(keyless).register(eq.Silence("q", after=1, keys=["a", "b"]))

    def test_a_span_that_times_can_not_tell_refuses_the_batch(self, engine):
        engine.register(eq.Silence("q", after=timedelta(minutes=1)))
        with pytest.raises(InvalidBatchError, match="query 'q': after is 0:01:00"):
            feed(engine, ("a", 0))
        engine.deregister("q")
        assert feed(engine, ("a", 0)) == []


class TestTables:
    def test_a_table(self, engine):
        asked = pa.table({"id": ["p", "q"], "after": [10, 20], "key": [None, "never"]})
        assert engine.register_table(asked, kind="silence").registered == 2
        assert sorted(feed(engine, ("a", 0), ("b", 20))) == [
            ("p", "silent", "a", 10, 0, None),
            ("q", "silent", "never", 20, -1, "unheard"),
        ]

    @pytest.mark.parametrize(
        ("columns", "reason"),
        [
            ({}, "the table has no column 'after'"),
            ({"after": [1, None]}, "after is null"),
            ({"after": [1, -1]}, "after must be positive"),
            ({"after": [1, 1], "x_lo": [1.0, 1.0]}, "has no column 'x_lo'"),
            ({"after": [1, 1], "attribute": ["x", "x"]}, "has no column 'attribute'"),
        ],
    )
    def test_what_can_not_be(self, engine, columns, reason):
        asked = pa.table({"id": ["p", "q"], **columns})
        with pytest.raises(InvalidTableError, match=reason):
            engine.register_table(asked, kind="silence")


class TestSql:
    @pytest.mark.parametrize(
        "query",
        [
            eq.Silence("q", after=10),
            eq.Silence("q", after=timedelta(minutes=10), key="a", throttle=5),
            eq.Silence("q", after=2.5, keys=["it's", "b"], owner="ann"),
            eq.Silence("q", after=1, keys=[1, -2]),
        ],
    )
    def test_printed_queries_read_back_equal(self, query):
        (read,) = read_sql(print_query(query, STREAM), stream_of=lambda name: STREAM)
        assert read.query == query

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("WHERE x > 1 EMIT SILENT AFTER 5", "about all events of a key, so x can't be"),
            ("EMIT SILENT", "expected AFTER"),
            ("EMIT SILENT AFTER", "expected a span of time"),
            ("EMIT SILENT AFTER 5 WITH (keys = ())", "expected a key"),
            ("EMIT SILENT AFTER 5 WITH (keys = ('a' 'b'))", r"expected , or \)"),
            ("EMIT SILENT AFTER 5 WITH (after = 6)", "an option of silence queries"),
            ("EMIT SILENT AFTER -5", "expected a span of time"),
        ],
    )
    def test_what_can_not_be(self, text, reason):
        with pytest.raises(eq.InvalidSqlError, match=reason):
            read_sql(
                f"CREATE STANDING QUERY q AS SELECT * FROM rooms {text}",
                stream_of=lambda name: STREAM,
            )

    def test_a_stream_without_time(self):
        untimed = eq.Stream("s", key="k", attributes=["x"])
        with pytest.raises(eq.InvalidSqlError, match="has no time"):
            read_sql(
                "CREATE STANDING QUERY q AS SELECT * FROM s EMIT SILENT AFTER 5",
                stream_of=lambda name: untimed,
            )


def test_damaged_state_is_refused(engine):
    engine.register(eq.Silence("q", after=10))
    feed(engine, ("a", 0))
    part = next(part for part in parts_of(engine._shard) if part.name == "rules")
    for harm, reason in [
        (lambda saved: saved.arrays.pop("since"), "since when"),
        (lambda saved: saved.arrays["after.unit"].fill(0), "lacks after"),
        (lambda saved: saved.arrays["after.amount"].fill(-1), "no span"),
        (lambda saved: saved.values.update(active=False), "lacks a span|no meaning"),
    ]:
        saved = part.whole()
        saved.arrays = {name: array.copy() for name, array in saved.arrays.items()}
        harm(saved)
        with pytest.raises(DamagedError, match=reason):
            part.load(saved)


def test_a_flush_before_the_first_batch_changes_nothing():
    """What times are is not known then."""
    engine = eq.Engine(eq.Stream("s", time="t", attributes=["x"]))
    engine.register(eq.Silence("q", after=1))
    assert engine.flush().num_rows == 0
    notices = engine.process(pa.table({"t": [0, 5], "x": [1.0, None]}))
    told = [(row["event"], row["time"]) for row in notices.to_pylist()]
    assert told == [("silent", 1), ("back", 5)]


@pytest.mark.parametrize("late", ["register", "resume", "replace"])
def test_what_is_to_be_announced_is_told_after_time_was_set_back(engine, late):
    """In the twin as in the engine."""
    query = eq.Silence("gone", after=5)
    twin = BruteForce(STREAM)
    for each in (engine, twin):
        if late != "register":
            each.register(query if late == "resume" else eq.Silence("gone", after=7))
        if late == "resume":
            each.pause("gone")
    events = [("attic", 0), ("cellar", 20)]
    engine.process(table(*events))
    twin.process([{"room": room, "t": time, "x": float(time)} for room, time in events])
    for each in (engine, twin):
        if late == "resume":
            each.resume("gone")
        elif late == "replace" and each is engine:
            each.register(query, replace=True)
        else:
            getattr(each, late)(query)
        each.reset_time(18)
    told = engine.process(table())
    reason = {"register": "registered", "resume": "resumed", "replace": "replaced"}[late]
    assert rows(told) == [("gone", "silent", "attic", 5, 0, reason)]
    assert_same_notices(notices_of(told, STREAM), twin.process([]))
