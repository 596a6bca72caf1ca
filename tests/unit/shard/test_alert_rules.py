"""Dwell, throttle and ttl, rule by rule, with expectations written by hand."""

import json
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pytest

import everquery as eq
from everquery.queries.sql import print_query, read_statement
from everquery.shard import upkeep

STREAM = eq.Stream("s", key="k", time="t", attributes=["x"])
BOX = {"x": (0, 10)}
IN, OUT = 5.0, 20.0


def feed(engine, *events, time_type=None):
    """Process events, each a key, a time and a value; return time, event, key, seq and so on."""
    schema = [("k", pa.string()), ("t", time_type or pa.int64()), ("x", pa.float64())]
    rows = [dict(zip("ktx", event, strict=True)) for event in events]
    return engine.process(pa.Table.from_pylist(rows, pa.schema(schema)))


def told(notices, *names):
    names = names or ("query_id", "event", "key", "time", "seq", "reason", "held_back")
    return [tuple(row[name] for name in names) for row in notices.to_pylist()]


def new_engine(*queries, stream=STREAM, **options):
    engine = eq.Engine(stream, **options)
    engine.register(queries)
    return engine


class TestDwell:
    def test_a_crossing_counts_after_the_span_with_its_own_event(self):
        engine = new_engine(eq.Border("q", BOX, dwell=3))
        assert told(feed(engine, ("a", 0, IN), ("a", 2, 6.0))) == []
        notices = feed(engine, ("a", 3, 7.0))
        assert told(notices) == [("q", "enter", "a", 3, 0, None, None)]
        assert told(notices, "x") == [(IN,)]

    @pytest.mark.parametrize(("back", "expected"), [(2, []), (3, ["enter"])])
    def test_the_opposite_within_the_span_cancels_both(self, back, expected):
        engine = new_engine(eq.Border("q", BOX, dwell=3))
        assert told(feed(engine, ("a", 0, IN), ("a", back, OUT)), "event") == [
            (event,) for event in expected
        ]
        assert told(engine.advance(20), "event", "time") == [("leave", 6)] * len(expected)

    def test_leaves_dwell_too(self):
        engine = new_engine(eq.Border("q", BOX, dwell=3))
        feed(engine, ("a", 0, IN), ("a", 10, IN))
        assert told(feed(engine, ("a", 11, OUT), ("a", 13, IN), ("a", 20, IN))) == []
        assert engine.stats()["undone"] == 2

    def test_another_key_lets_time_pass(self):
        engine = new_engine(eq.Border("q", BOX, dwell=3))
        assert told(feed(engine, ("a", 0, IN), ("b", 3, OUT))) == [
            ("q", "enter", "a", 3, 0, None, None)
        ]

    def test_an_untold_leave_cancels_a_pending_enter(self):
        engine = new_engine(eq.Border("q", BOX, dwell=3, emit="enter"))
        assert told(feed(engine, ("a", 0, IN), ("a", 1, OUT), ("a", 9, OUT))) == []
        assert told(feed(engine, ("a", 10, IN), ("a", 20, OUT), ("a", 30, OUT)), "event") == [
            ("enter",)
        ]

    def test_registered_and_expired_crossings_dwell_with_their_reasons(self):
        stream = eq.Stream("s", key="k", time="t", attributes=["x"], expire_after=10)
        engine = eq.Engine(stream)
        feed(engine, ("a", 0, IN))
        engine.register(eq.Border("q", BOX, dwell=3))
        assert told(feed(engine, ("b", 2, OUT))) == []
        assert told(feed(engine, ("b", 4, OUT))) == [("q", "enter", "a", 3, 0, "registered", None)]
        assert told(feed(engine, ("b", 12, OUT))) == []
        assert told(feed(engine, ("b", 13, OUT))) == [("q", "leave", "a", 13, 0, "expired", None)]

    def test_deadlines_at_or_before_an_expiry_come_first(self):
        stream = eq.Stream("s", key="k", time="t", attributes=["x"], expire_after=3)
        engine = new_engine(eq.Border("p", BOX), eq.Border("q", BOX, dwell=3), stream=stream)
        feed(engine, ("a", 0, IN))
        assert told(feed(engine, ("a", 9, OUT)), "query_id", "event", "time", "reason") == [
            ("q", "enter", 3, None),
            ("p", "leave", 3, "expired"),
            ("q", "leave", 6, "expired"),
        ]

    def test_pausing_forgets_what_is_pending(self):
        engine = new_engine(eq.Border("q", BOX, dwell=3, silent=True))
        feed(engine, ("a", 0, IN))
        engine.pause("q")
        engine.resume("q")
        assert told(engine.advance(9)) == []
        assert engine.stats()["waiting"] == 0

    def test_times_of_any_type(self):
        engine = new_engine(eq.Border("q", BOX, dwell=timedelta(seconds=2)))
        assert told(feed(engine, ("a", 0, IN), time_type=pa.timestamp("ms"))) == []
        notices = feed(engine, ("a", 2_000, IN), time_type=pa.timestamp("ms"))
        assert notices["time"].cast(pa.int64()).to_pylist() == [2_000]
        engine = new_engine(eq.Border("q", BOX, dwell=0.5))
        notices = feed(engine, ("a", 0.25, IN), ("a", 0.75, IN), time_type=pa.float64())
        assert notices["time"].to_pylist() == [0.75]

    def test_a_deadline_beyond_64_bits_is_never_reached(self):
        engine = new_engine(eq.Border("q", BOX, dwell=2**60, throttle=2**60, ttl=2**60))
        late = 2**63 - 10
        assert told(feed(engine, ("a", late, IN), ("a", late + 5, IN))) == []


class TestThrottle:
    def test_what_is_held_back_is_summed_up(self):
        engine = new_engine(eq.Range("q", BOX, throttle=5))
        assert told(feed(engine, ("a", 0, 1.0), ("a", 2, 2.0), ("a", 4, 3.0))) == [
            ("q", "match", "a", 0, 0, None, None)
        ]
        notices = feed(engine, ("a", 6, 4.0))
        assert told(notices) == [("q", "match", "a", 5, 2, "throttled", 2)]
        assert told(notices, "x") == [(3.0,)]
        assert engine.stats()["throttled"] == 3
        # The summary has opened the next window, which holds back the event at 6.
        assert told(engine.advance(9)) == []
        assert told(engine.advance(10)) == [("q", "match", "a", 10, 3, "throttled", 1)]
        assert told(engine.advance(99)) == []
        assert engine.stats()["waiting"] == 0

    def test_a_notice_at_the_end_of_a_window_is_in_the_next(self):
        engine = new_engine(eq.Range("q", BOX, throttle=5))
        notices = feed(engine, ("a", 0, 1.0), ("a", 1, 2.0), ("a", 5, 3.0))
        assert told(notices, "time", "held_back") == [(0, None), (5, 1)]
        assert told(engine.advance(10), "time", "seq", "held_back") == [(10, 2, 1)]

    def test_a_window_without_held_notices_is_forgotten(self):
        engine = new_engine(eq.Range("q", BOX, throttle=5))
        notices = feed(engine, ("a", 0, 1.0), ("a", 5, 2.0), ("a", 11, 3.0))
        assert told(notices, "time", "reason") == [(0, None), (5, None), (11, None)]

    def test_keys_and_queries_have_windows_of_their_own(self):
        engine = new_engine(eq.Range("p", BOX, throttle=5), eq.Range("q", BOX, throttle=9))
        feed(engine, ("a", 0, IN), ("b", 0, IN), ("a", 1, IN), ("b", 2, IN))
        assert told(engine.advance(20), "key", "query_id", "time", "held_back") == [
            ("a", "p", 5, 1),
            ("a", "q", 9, 1),
            ("b", "p", 5, 1),
            ("b", "q", 9, 1),
        ]

    def test_borders_tell_the_last_event(self):
        engine = new_engine(eq.Border("q", BOX, throttle=5))
        feed(engine, ("a", 0, IN), ("a", 1, OUT), ("a", 2, IN), ("a", 3, OUT))
        assert told(engine.advance(5)) == [("q", "leave", "a", 5, 3, "throttled", 3)]

    def test_after_dwell(self):
        engine = new_engine(eq.Border("q", BOX, dwell=2, throttle=5))
        events = [(0, IN), (4, OUT), (5, IN), (8, OUT), (11, OUT)]
        notices = feed(engine, *(("a", time, x) for time, x in events))
        # Enter counts at 2; leave at 4 is undone at 5; leave at 8 counts at 10, outside [2, 7).
        assert told(notices, "event", "time", "reason") == [
            ("enter", 2, None),
            ("leave", 10, None),
        ]

    def test_pausing_forgets_what_is_held_back_and_keeps_the_window(self):
        engine = new_engine(eq.Border("q", BOX, throttle=5))
        feed(engine, ("a", 0, IN), ("a", 1, OUT))
        engine.pause("q")
        feed(engine, ("a", 2, IN))
        engine.resume("q")
        assert told(feed(engine, ("a", 3, IN))) == []
        assert told(engine.advance(5)) == [("q", "enter", "a", 5, 2, "throttled", 1)]


class TestTtl:
    def test_a_query_ends_by_itself_and_says_so(self):
        engine = new_engine(eq.Border("q", BOX, key="a", ttl=5))
        assert told(feed(engine, ("a", 10, IN), ("a", 14, OUT)), "event") == [
            ("enter",),
            ("leave",),
        ]
        notices = feed(engine, ("a", 15, IN))
        assert told(notices) == [("q", "end", "a", 15, -1, "ttl", None)]
        assert told(notices, "x", "kind") == [(None, "border")]
        assert engine.queries().num_rows == 0
        engine.register(eq.Border("q", BOX))
        assert told(feed(engine, ("a", 16, IN)), "event", "reason") == [("enter", "registered")]

    def test_of_all_keys(self):
        engine = new_engine(eq.Range("q", BOX, ttl=5))
        notices = feed(engine, ("a", 0, IN), ("b", 4, IN), ("b", 5, IN))
        assert told(notices, "event", "key") == [("match", "a"), ("match", "b"), ("end", None)]
        with pytest.raises(eq.UnknownQueryError):
            engine.deregister("q")

    def test_lives_begin_where_time_is(self):
        engine = new_engine(stream=eq.Stream("s", key="k", time="t", attributes=["x"], grace=4))
        feed(engine, ("a", 10, IN))
        engine.register(eq.Range("q", BOX, ttl=5))  # begins at 10, and sees what is held back
        assert told(engine.advance(14), "event") == [("match",)]
        assert told(engine.advance(18), "event") == []
        assert told(engine.advance(19), "event", "time") == [("end", 15)]

    def test_deadlines_before_the_end_are_told_and_later_ones_are_not(self):
        engine = new_engine(eq.Border("q", BOX, key="a", ttl=6, dwell=3, throttle=50))
        assert told(feed(engine, ("a", 0, IN), ("a", 4, OUT))) == [
            ("q", "enter", "a", 3, 0, None, None)
        ]
        assert told(engine.advance(99)) == [("q", "end", "a", 6, -1, "ttl", None)]
        assert engine.stats()["waiting"] == 0

    def test_a_paused_query_ends_too(self):
        engine = new_engine(eq.Border("q", BOX, ttl=6))
        feed(engine, ("a", 0, OUT))
        engine.pause("q")
        assert told(engine.advance(6), "event") == [("end",)]
        assert engine.stats()["paused"] == 0

    def test_order_among_a_keys_notices(self):
        lives = {"p": 7, "q": 5, "r": 7}
        queries = [eq.Border(name, BOX, key="a", ttl=ttl) for name, ttl in lives.items()]
        engine = new_engine(*queries, eq.Border("d", BOX, dwell=6))
        feed(engine, ("a", 0, IN))
        assert told(feed(engine, ("a", 9, OUT)), "query_id", "event", "time") == [
            ("q", "end", 5),
            ("d", "enter", 6),
            ("p", "end", 7),
            ("r", "end", 7),
        ]

    def test_many_ends_at_once(self):
        engine = eq.Engine(STREAM)
        n = 5_000
        table = pa.table({"id": [f"q{i}" for i in range(n)], "ttl": np.arange(1, n + 1)})
        engine.register_table(table, kind="range")
        feed(engine, ("a", 0, IN))
        assert engine.advance(2_000).num_rows == 2_000
        assert engine.queries().num_rows == n - 2_000


class TestSnapshots:
    def test_what_waits_is_kept(self):
        engine = new_engine(
            eq.Border("d", BOX, dwell=5), eq.Range("t", BOX, throttle=5), eq.Range("e", BOX, ttl=8)
        )
        feed(engine, ("a", 0, IN), ("a", 2, IN))
        other = eq.Engine(STREAM)
        other.restore(engine.snapshot())
        assert other.queries().equals(engine.queries())
        expected = engine.advance(9)
        assert other.advance(9).equals(expected)
        assert told(expected, "query_id", "time") == [("d", 5), ("t", 5), ("e", 8)]

    def test_before_the_first_event(self):
        engine = new_engine(eq.Border("d", BOX, dwell=0.5, ttl=2.5))
        other = eq.Engine(STREAM)
        other.restore(engine.snapshot())
        notices = feed(other, ("a", 0.0, IN), ("a", 3.0, IN), time_type=pa.float64())
        assert told(notices, "event", "time") == [("enter", 0.5), ("end", 2.5)]

    def test_compaction_keeps_rules_and_state(self, monkeypatch):
        monkeypatch.setattr(upkeep, "COMPACT", 10)
        engine = new_engine(*(eq.Range(f"x{i}", BOX, ttl=500) for i in range(30)))
        engine.register([eq.Border("d", BOX, dwell=5), eq.Range("t", BOX, throttle=5, ttl=8)])
        feed(engine, ("a", 0, IN), ("a", 1, IN))
        engine.deregister([f"x{i}" for i in range(30)])
        feed(engine, ("b", 1, OUT))
        assert len(engine._shard.contents.catalog) == 3
        assert told(engine.advance(9), "query_id", "event", "time") == [
            ("d", "enter", 5),
            ("t", "match", 5),
            ("t", "end", 8),
        ]


class TestIds:
    def test_the_moment_is_part_of_the_id(self):
        ids = set()
        for dwell in (2, 3):
            engine = new_engine(eq.Border("q", BOX, dwell=dwell))
            ids.update(feed(engine, ("a", 0, IN), ("a", 9, IN))["notice_id"].to_pylist())
        assert len(ids) == 2

    def test_what_a_throttle_lets_through_has_the_id_it_would_have_without(self):
        plain = feed(new_engine(eq.Range("q", BOX)), ("a", 0, IN))["notice_id"]
        assert feed(new_engine(eq.Range("q", BOX, throttle=3)), ("a", 0, IN))["notice_id"] == plain


class TestBadInput:
    @pytest.mark.parametrize("name", ["ttl", "dwell", "throttle"])
    @pytest.mark.parametrize(
        ("span", "reason"),
        [
            (-1, "positive"),
            (0, "positive"),
            (float("nan"), "positive"),
            (timedelta(0), "positive"),
            (True, 'write it as "90s"'),
            ("5x", "'x' is no unit of time"),
            ("", "it is empty"),
            ("-2m", "positive"),
            ("1h30", "'30' has no unit"),
            ("P1M", "no fixed length"),
            (2**61, "longer than times are"),
            (float("inf"), "longer than times are"),
            (timedelta.max, "longer than times are"),
        ],
    )
    def test_spans(self, name, span, reason):
        with pytest.raises(eq.InvalidQueryError, match=f"query 'q': {name} is .*{reason}"):
            eq.Border("q", BOX, **{name: span})

    def test_numpy_numbers_are_numbers(self):
        assert eq.Border("q", BOX, ttl=np.int32(5), dwell=np.float32(0.5)).ttl == 5

    def test_ranges_have_no_dwell(self):
        with pytest.raises(TypeError):
            eq.Range("q", BOX, dwell=5)

    def test_spans_need_time(self):
        engine = eq.Engine(eq.Stream("s", attributes=["x"]))
        with pytest.raises(
            eq.InvalidQueryError, match="throttle needs a stream with a time column"
        ):
            engine.register(eq.Range("q", BOX, throttle=5))
        with pytest.raises(eq.InvalidTableError, match="'ttl'; it needs a stream with a time"):
            engine.register_table(pa.table({"id": ["q"], "ttl": [1]}), kind="range")

    @pytest.mark.parametrize(
        ("span", "kind", "reason"),
        [
            (0.5, pa.int64(), "no whole number of the units of int64"),
            (timedelta(seconds=1), pa.int64(), "have no unit to measure it by"),
            (timedelta(milliseconds=1), pa.timestamp("s"), "no whole number"),
            (timedelta(hours=1), pa.date32(), "no whole number"),
            ("36h", pa.date32(), "no whole number"),
            ("48h", pa.date32(), None),
            ("2m", pa.timestamp("s", "UTC"), None),
            (5, pa.timestamp("us"), 'give a span with a unit, such as "5s", or a timedelta'),
            (2.5, pa.timestamp("us"), 'such as "2.5s"'),
            (5, pa.date32(), "give a span with a unit"),
            (timedelta(days=20_000), pa.timestamp("ns"), None),
            (timedelta(days=50_000_000 // 2), pa.timestamp("ns"), "longer than"),
        ],
    )
    def test_spans_that_do_not_fit_the_times(self, span, kind, reason):
        engine = eq.Engine(STREAM)
        engine.register(eq.Border("q", BOX, dwell=span))
        if reason is None:
            feed(engine, time_type=kind)
            return
        with pytest.raises(eq.InvalidBatchError, match=f"query 'q': dwell is .*{reason}"):
            feed(engine, time_type=kind)
        engine.deregister("q")
        feed(engine, time_type=kind)
        with pytest.raises(eq.InvalidQueryError, match=f"query 'q': dwell is .*{reason}"):
            engine.register(eq.Border("q", BOX, dwell=span))
        table = pa.table({"id": ["q"], "ttl": pa.array([span])})
        done = engine.register_table(table, kind="range", on_error="skip")
        assert done.registered == 0
        assert reason in done.errors["reason"][0].as_py()


class TestTables:
    def test_columns(self):
        engine = eq.Engine(STREAM)
        table = pa.table(
            {
                "id": ["a", "b", "c", "d", "e", "f"],
                "ttl": pa.array([5, 0, None, 2**62, 7, 1]),
                "dwell": pa.array([1.0, 1.0, 2.5, 1.0, float("nan"), None]),
                "throttle": pa.array([timedelta(seconds=3)] * 6, pa.duration("ms")),
            }
        )
        done = engine.register_table(table, kind="border", on_error="skip")
        assert {row["id"]: row["reason"] for row in done.errors.to_pylist()} == {
            "b": "ttl must be positive",
            "d": "ttl is longer than times are",
            "e": "dwell must be positive",
        }
        listed = engine.queries().select(["id", "ttl", "dwell", "throttle"]).to_pylist()
        assert [tuple(row.values()) for row in listed] == [
            ("a", "5", "1", "INTERVAL '3' SECOND"),
            ("c", None, "2.5", "INTERVAL '3' SECOND"),
            ("f", "1", None, "INTERVAL '3' SECOND"),
        ]

    def test_columns_of_a_wrong_type(self):
        engine = eq.Engine(STREAM)
        with pytest.raises(eq.InvalidTableError, match="column 'ttl' has type bool"):
            engine.register_table(pa.table({"id": ["a"], "ttl": [True]}), kind="range")
        with pytest.raises(eq.InvalidTableError, match="no column 'dwell'"):
            engine.register_table(pa.table({"id": ["a"], "dwell": [5]}), kind="range")

    def test_texts_are_spans(self):
        engine = eq.Engine(STREAM)
        spans = ["1h30m", None, "PT90S", "20"]
        table = pa.table({"id": ["a", "b", "c", "d"], "dwell": spans})
        engine.register_table(table, kind="border")
        assert engine.queries()["dwell"].to_pylist() == [
            *("INTERVAL '90' MINUTE", None, "INTERVAL '90' SECOND", "20"),
        ]

    def test_texts_that_are_no_spans_are_bad_rows(self):
        engine = eq.Engine(STREAM)
        table = pa.table({"id": list("abcd"), "ttl": ["5x", "5s", "", None]})
        done = engine.register_table(table, kind="range", on_error="skip")
        assert done.errors["id"].to_pylist() == ["a", "c"]
        assert "ttl is '5x'; 'x' is no unit" in done.errors["reason"][0].as_py()
        assert done.registered == 2

    def test_many_bad_texts_are_all_refused(self):
        engine = eq.Engine(STREAM)
        texts = [f"{i}x" for i in range(500)]
        table = pa.table({"id": texts, "ttl": texts})
        done = engine.register_table(table, kind="range", on_error="skip")
        assert (done.registered, done.errors.num_rows) == (0, 500)

    @pytest.mark.parametrize("spans", [[5], [5.0], ["5"], [2.5]])
    def test_numbers_are_refused_where_times_are_timestamps(self, spans):
        engine = eq.Engine(STREAM)
        feed(engine, ("a", 0, IN), time_type=pa.timestamp("us"))
        with pytest.raises(eq.InvalidTableError, match="give a span with a unit"):
            engine.register_table(pa.table({"id": ["a"], "ttl": spans}), kind="range")

    def test_nanoseconds(self):
        engine = eq.Engine(STREAM)
        throttle = pa.array([1_500], pa.duration("ns"))
        engine.register_table(pa.table({"id": ["a"], "throttle": throttle}), kind="range")
        rows = [("a", 0, IN), ("a", 1_499, IN), ("a", 1_500, IN)]
        notices = feed(engine, *rows, time_type=pa.timestamp("ns"))
        assert notices["held_back"].to_pylist() == [None, 1]
        assert notices["time"].cast(pa.int64()).to_pylist() == [0, 1_500]


class TestSql:
    @pytest.mark.parametrize(
        "query",
        [
            eq.Border("q", BOX, ttl=timedelta(hours=8), dwell=2.5, throttle=60),
            eq.Range("q", BOX, ttl=1, throttle=timedelta(microseconds=1)),
        ],
    )
    def test_round_trip(self, query):
        text = print_query(query, STREAM)
        assert read_statement(text, stream_of={"s": STREAM}.__getitem__).query == query

    def test_create(self):
        engine = eq.Engine(STREAM)
        engine.sql(
            "CREATE STANDING QUERY q AS SELECT * FROM s EMIT ENTER, LEAVE"
            " WITH (dwell = 5, throttle = :t, ttl = INTERVAL '1' DAY)",
            {"t": 7},
        )
        shown = engine.sql("SHOW STANDING QUERIES").to_pylist()[0]
        assert (shown["dwell"], shown["throttle"], shown["ttl"]) == ("5", "7", "INTERVAL '1' DAY")

    def test_ranges_take_no_dwell(self):
        engine = eq.Engine(STREAM)
        with pytest.raises(eq.InvalidSqlError, match="an option of range queries"):
            engine.sql("CREATE STANDING QUERY q AS SELECT * FROM s EMIT MATCHES WITH (dwell = 5)")


class TestLabels:
    def test_notices_tell_owner_and_labels_on_request(self):
        queries = (
            eq.Range("p", BOX, owner="ann", labels={"team": "fx"}),
            eq.Range("q", BOX, ttl=5),
        )
        engine = new_engine(*queries, labels=True)
        notices = feed(engine, ("a", 0, IN), ("a", 5, OUT))
        assert notices.column_names[-3:] == ["owner", "labels", "notice_id"]
        assert pa.types.is_dictionary(notices["owner"].type)
        assert told(notices, "query_id", "event", "owner", "labels") == [
            ("p", "match", "ann", json.dumps({"team": "fx"})),
            ("q", "match", None, None),
            ("q", "end", None, None),
        ]
        assert "owner" not in feed(new_engine(*queries), ("a", 0, IN)).column_names

    def test_attributes_of_these_names(self):
        stream = eq.Stream("s", attributes=["owner"])
        eq.Engine(stream)
        with pytest.raises(eq.InvalidStreamError, match="attribute 'owner'"):
            eq.Engine(stream, labels=True)

    def test_filters(self):
        engine = new_engine(
            eq.Range("p1", BOX, owner="ann", labels={"team": "fx", "desk": "tokyo"}),
            eq.Range("p2", BOX, owner="bob", labels={"team": "fx"}),
            eq.Border("q1", BOX, owner="ann"),
        )
        for text, expected in (
            ("WHERE OWNER = 'ann'", ["p1", "q1"]),
            ("LIKE 'p%' WHERE owner = 'ann' AND LABEL team = 'fx'", ["p1"]),
            ("WHERE LABEL team = 'fx' AND LABEL \"desk\" = 'tokyo'", ["p1"]),
            ("WHERE LABEL team = 'fx'", ["p1", "p2"]),
            ("WHERE KIND = 'border' AND OWNER = 'ann'", ["q1"]),
            ("WHERE OWNER = 'eve'", []),
        ):
            shown = engine.sql(f"SHOW STANDING QUERIES {text}")
            assert shown["id"].to_pylist() == expected
        assert engine.queries(labels={"desk": "tokyo"})["id"].to_pylist() == ["p1"]
        for text, reason in (
            ("WHERE", "expected OWNER, KIND or LABEL"),
            ("WHERE OWNER = 'a' OR", "expected AND or ;"),
            ("WHERE OWNER = 'a' AND OWNER = 'b'", "given twice"),
            ("WHER", "did you mean WHERE"),
        ):
            with pytest.raises(eq.InvalidSqlError, match=reason):
                engine.sql(f"SHOW STANDING QUERIES {text}")
