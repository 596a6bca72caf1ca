"""The border rules of the design, one by one."""

import math

import pyarrow as pa
import pytest

import everquery as eq


def engine_of(*queries, **stream):
    engine = eq.Engine(eq.Stream("s", **{"key": "k", "attributes": ["x"], **stream}))
    engine.register(queries)
    return engine


def told(table, *columns):
    return [tuple(row[name] for name in columns) for row in table.to_pylist()]


def feed(engine, *events):
    names = [engine.stream.key, engine.stream.time, *engine.stream.attributes]
    names = [name for name in names if name is not None]
    columns = list(zip(*events, strict=True)) or [[] for _ in names]
    table = pa.table({name: pa.array(c) for name, c in zip(names, columns, strict=True)})
    return engine.process(table)


BOX = eq.Border("q", {"x": (40, 50)})


def test_first_sight_inside_is_an_enter():
    assert told(feed(engine_of(BOX), ("a", 45.0)), "event", "key") == [("enter", "a")]


def test_first_sight_outside_is_nothing():
    assert feed(engine_of(BOX), ("a", 55.0)).num_rows == 0


def test_half_open_ends():
    engine = engine_of(BOX)
    below = math.nextafter(50.0, 0)
    notices = feed(engine, ("a", 40.0), ("a", below), ("a", 50.0), ("a", below), ("a", 39.0))
    assert told(notices, "event", "seq") == [("enter", 0), ("leave", 2), ("enter", 3), ("leave", 4)]


def test_one_event_that_jumps_over_a_box_emits_nothing():
    engine = engine_of(BOX)
    assert feed(engine, ("a", 39.0), ("a", 51.0), ("a", 10.0), ("a", 90.0)).num_rows == 0


def test_ties_of_borders_are_crossed_together():
    engine = engine_of(eq.Border("left", {"x": (0, 1)}), eq.Border("right", {"x": (1, 2)}))
    notices = feed(engine, ("a", 0.5), ("a", 1.0), ("a", 0.5))
    assert told(notices, "query_id", "event", "seq") == [
        ("left", "enter", 0),
        ("left", "leave", 1),
        ("right", "enter", 1),
        ("left", "enter", 2),
        ("right", "leave", 2),
    ]


def test_keys_inside_at_registration_are_reported_with_the_next_batch():
    engine = engine_of()
    feed(engine, ("a", 45.0), ("b", 55.0), ("a", 46.0))
    engine.register(BOX)
    notices = feed(engine, ("a", 47.0))
    assert told(notices, "event", "reason", "key", "seq", "x") == [
        ("enter", "registered", "a", 1, 46.0)
    ]
    assert told(feed(engine, ("a", 51.0)), "event", "reason") == [("leave", None)]


def test_silent_queries_do_not_report_keys_inside():
    engine = engine_of()
    feed(engine, ("a", 45.0))
    engine.register(eq.Border("q", {"x": (40, 50)}, silent=True))
    assert told(feed(engine, ("a", 51.0)), "event", "seq") == [("leave", 1)]


@pytest.mark.parametrize(
    ("emit", "expected"),
    [("enter", [("enter", 0), ("enter", 2)]), (("leave",), [("leave", 1)])],
)
def test_only_the_events_that_are_asked_for(emit, expected):
    engine = engine_of(eq.Border("q", {"x": (40, 50)}, emit=emit), eq.Border("z", {"x": (0, 1)}))
    notices = feed(engine, ("a", 45.0), ("a", 55.0), ("a", 41.0))
    assert told(notices, "event", "seq") == expected


def test_deregistration_emits_nothing():
    engine = engine_of(BOX)
    feed(engine, ("a", 45.0))
    engine.deregister("q")
    assert feed(engine, ("a", 55.0)).num_rows == 0


def test_a_query_registered_again_reports_keys_inside_again():
    engine = engine_of(BOX)
    feed(engine, ("a", 45.0))
    engine.deregister("q")
    engine.register(eq.Border("q", {"x": (0, 100)}))
    notices = feed(engine, ("a", 55.0))
    assert told(notices, "event", "reason", "x") == [("enter", "registered", 45.0)]


def test_paused_queries_are_silent_and_report_on_resume():
    engine = engine_of(BOX)
    feed(engine, ("a", 45.0))
    engine.pause("q")
    assert feed(engine, ("a", 55.0), ("b", 41.0)).num_rows == 0
    assert engine.queries()["state"].to_pylist() == ["paused"]
    engine.resume("q")
    assert told(feed(engine, ("a", 56.0)), "event", "reason", "key") == [("enter", "resumed", "b")]


def test_pausing_and_resuming_twice_counts_once():
    engine = engine_of(BOX, eq.Border("z", {"x": (0, 1)}))
    engine.pause(["q", "q", "z"])
    engine.pause("q")
    assert engine.stats()["paused"] == 2
    engine.resume(["q", "q"])
    engine.resume("q")
    assert engine.stats()["paused"] == 1
    engine.deregister("z")
    assert engine.stats()["paused"] == 0


def test_without_a_key_the_stream_is_one_series():
    engine = eq.Engine(eq.Stream("s", attributes=["x"]))
    engine.register(BOX)
    notices = engine.process(pa.table({"x": [45.0, 55.0]}))
    assert told(notices, "event", "key", "seq") == [("enter", None, 0), ("leave", None, 1)]


def test_integer_keys():
    engine = engine_of(eq.Border("q", {"x": (40, 50)}, key=-7), BOX.__class__("w", {"x": (0, 1)}))
    notices = feed(engine, (-7, 45.0), (2**62, 45.0), (2**62, 0.5))
    assert told(notices, "query_id", "key") == [("q", -7), ("w", 2**62)]
    assert engine.queries()["key"].to_pylist() == [-7, None]


def test_a_box_without_ranges_tells_of_presence():
    engine = engine_of(eq.Border("q", {}), time="t", expire_after=10)
    notices = feed(engine, ("a", 1, math.inf), ("b", 20, 1.0))
    assert told(notices, "event", "reason", "key", "time") == [
        ("enter", None, "a", 1),
        ("enter", None, "b", 20),
        ("leave", "expired", "a", 11),
    ]


class TestExpiry:
    def test_only_boxes_that_it_was_in(self):
        engine = engine_of(BOX, eq.Border("other", {"x": (0, 1)}), time="t", expire_after=10)
        feed(engine, ("a", 0, 45.0))
        notices = feed(engine, ("b", 10, 99.0))
        assert told(notices, "query_id", "event", "reason", "key", "seq", "time") == [
            ("q", "leave", "expired", "a", 0, 10)
        ]

    def test_a_key_that_comes_back_is_a_first_sight(self):
        engine = engine_of(BOX, time="t", expire_after=10)
        notices = feed(engine, ("a", 0, 45.0), ("a", 10, 46.0))
        assert told(notices, "event", "reason", "seq", "time", "x") == [
            ("enter", None, 0, 0, 45.0),
            ("leave", "expired", 0, 10, 45.0),
            ("enter", None, 1, 10, 46.0),
        ]

    def test_expiry_does_not_depend_on_where_a_batch_ends(self):
        events = [("a", 0, 45.0), ("a", 30, 46.0), ("b", 100, 1.0), ("a", 110, 46.0)]
        together = engine_of(BOX, time="t", expire_after=50)
        one = told(feed(together, *events), "event", "reason", "key", "seq", "time")
        apart = engine_of(BOX, time="t", expire_after=50)
        many = [
            row
            for event in events
            for row in told(feed(apart, event), "event", "reason", "key", "seq", "time")
        ]
        assert one == many
        assert ("leave", "expired", "a", 1, 80) in one

    def test_advance_expires_without_an_event(self):
        engine = engine_of(BOX, time="t", expire_after=10)
        feed(engine, ("a", 0, 45.0))
        assert engine.advance(9).num_rows == 0
        assert told(engine.advance(10), "event", "reason") == [("leave", "expired")]
        assert engine.advance(99).num_rows == 0

    def test_expire_by_hand(self):
        engine = engine_of(BOX)
        feed(engine, ("a", 45.0), ("b", 45.0))
        assert told(engine.expire("a"), "event", "reason", "key") == [("leave", "expired", "a")]
        assert engine.expire(["a", "nobody"]).num_rows == 0
        assert told(feed(engine, ("a", 45.0)), "event", "seq") == [("enter", 1)]


class TestTime:
    def test_events_of_a_batch_are_taken_in_time_order_ties_by_position(self):
        engine = engine_of(eq.Range("r", {}), time="t")
        notices = feed(engine, ("a", 3, 1.0), ("a", 1, 2.0), ("a", 1, 3.0))
        assert told(notices, "seq", "time", "x") == [(0, 1, 2.0), (1, 1, 3.0), (2, 3, 1.0)]

    def test_an_event_older_than_the_last_of_its_key_is_late(self):
        engine = engine_of(BOX, time="t")
        feed(engine, ("a", 5, 45.0), ("b", 9, 45.0))
        assert told(feed(engine, ("a", 5, 46.0), ("a", 4, 55.0)), "event") == []
        letters = engine.dead_letters()
        assert told(letters, "reason", "key", "time", "x", "position") == [
            ("late", "a", 4, 55.0, 3)
        ]

    def test_a_batch_whose_times_are_all_null_teaches_no_type(self):
        engine = engine_of(eq.Range("r", {}), time="t")
        engine.process(pa.table({"k": ["a"], "t": pa.nulls(1), "x": [1.0]}))
        assert engine.dead_letters()["reason"].to_pylist() == ["null_time"]
        times = pa.array([5], pa.timestamp("us"))
        notices = engine.process(pa.table({"k": ["a"], "t": times, "x": [1.0]}))
        assert notices["time"].to_pylist() == times.to_pylist()
        assert engine.stats()["dead_letters"] == 1

    def test_grace_makes_disorder_cost_nothing(self):
        engine = engine_of(eq.Range("r", {}), time="t", grace=5)
        assert feed(engine, ("a", 10, 1.0), ("a", 8, 2.0)).num_rows == 0
        assert engine.stats()["held"] == 2
        notices = feed(engine, ("a", 14, 3.0), ("a", 9, 4.0))
        assert told(notices, "seq", "time", "x") == [(0, 8, 2.0), (1, 9, 4.0)]
        assert told(engine.flush(), "seq", "time", "x") == [(2, 10, 1.0), (3, 14, 3.0)]
        assert engine.stats()["dead_letters"] == 0
        assert engine.stats()["held"] == 0

    @pytest.mark.parametrize(
        ("kind", "span"),
        [
            (pa.timestamp("us"), "timedelta"),
            (pa.timestamp("ns", "UTC"), "timedelta"),
            (pa.timestamp("s"), "10s"),
            (pa.float64(), 10.0),
            (pa.date32(), "10d"),
        ],
    )
    def test_types_of_time(self, kind, span):
        from datetime import timedelta

        scale = {"timestamp[us]": 10**6, "timestamp[ns, tz=UTC]": 10**9}.get(str(kind), 1)
        expiry = timedelta(seconds=10) if span == "timedelta" else span
        engine = engine_of(BOX, time="t", expire_after=expiry)
        raw = pa.int32() if kind == pa.date32() else pa.int64()
        times = pa.array([0, 10 * scale], raw).cast(kind)
        notices = engine.process(pa.table({"k": ["a", "b"], "t": times, "x": [45.0, 45.0]}))
        assert notices.schema.field("time").type == kind
        assert told(notices, "event", "key") == [("enter", "a"), ("enter", "b"), ("leave", "a")]
        assert notices["time"][2] == times[1]
