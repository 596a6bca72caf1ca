"""Totals by key, by period and with refunds: what they promise, and what they refuse."""

from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest

import everquery as eq
from everquery.core.framing import DamagedError
from everquery.core.parts import Saved
from everquery.errors import InvalidQueryError, InvalidTableError
from everquery.index.flags import LIVE, option_flags
from everquery.index.rows import Grouped, Rows, Shape, Step
from everquery.index.sort_keys import PLACE_SHIFT
from everquery.kinds.threshold.index import ThresholdIndex
from everquery.queries.sql import InvalidSqlError, print_query, read_sql

STREAM = eq.Stream("s", key="k", time="t", attributes=["x"], weight="w")
DAY = timedelta(days=1)
OPTIONS = option_flags(eq.Threshold.options)
LARGEST = 2**63 - 1
NUMBERS = pa.int64()


def feed(engine, *events, times=NUMBERS):
    keys, at, weights = zip(*events, strict=True)
    zeros = pa.array([0.0] * len(keys))
    table = pa.table({"k": keys, "t": pa.array(at, times), "x": zeros, "w": weights})
    names = ["query_id", "key", "seq", "total", "rounds"]
    return [tuple(row.values()) for row in engine.process(table).select(names).to_pylist()]


def engine_of(*queries, stream=STREAM):
    engine = eq.Engine(stream)
    engine.register(queries)
    return engine


class TestByKey:
    def test_each_key_fires_once_and_new_keys_begin_from_zero(self):
        engine = engine_of(eq.Threshold("q", {}, total=10, by_key=True))
        assert feed(engine, ("a", 1, 6), ("b", 2, 9), ("a", 3, 4)) == [("q", "a", 1, 10, 1)]
        assert feed(engine, ("a", 4, 99), ("c", 5, 10), ("b", 6, 3)) == [
            ("q", "c", 0, 10, 1),
            ("q", "b", 1, 12, 1),
        ]
        assert feed(engine, ("c", 7, 99), ("b", 8, 99)) == []
        assert engine.queries().num_rows == 1

    def test_it_repeats_for_each_key_from_zero(self):
        engine = engine_of(eq.Threshold("q", {}, total=10, by_key=True, repeat=True))
        fired = feed(engine, ("a", 1, 35), ("b", 2, 9), ("a", 3, 9), ("b", 4, 1), ("a", 5, 1))
        assert fired == [("q", "a", 0, 35, 3), ("q", "b", 1, 10, 1), ("q", "a", 2, 10, 1)]

    def test_progress_is_that_of_a_key(self):
        engine = engine_of(
            eq.Threshold("q", {}, total=10, by_key=True), eq.Threshold("all", {}, total=100)
        )
        feed(engine, ("a", 1, 6), ("b", 2, 3))
        assert [engine.progress("q", key=key) for key in "abc"] == [6, 3, 0]
        assert engine.progress("all") == 9
        with pytest.raises(InvalidQueryError, match="has a total for each key; say of which"):
            engine.progress("q")
        with pytest.raises(InvalidQueryError, match="has one total; ask for it without key"):
            engine.progress("all", key="a")
        with pytest.raises(InvalidQueryError, match="a key is a string or an integer"):
            engine.progress("q", key=1.5)

    def test_a_key_that_expires_keeps_its_total(self):
        stream = eq.Stream("s", key="k", time="t", attributes=["x"], weight="w", expire_after=5)
        engine = engine_of(eq.Threshold("q", {}, total=10, by_key=True), stream=stream)
        feed(engine, ("a", 1, 6))
        engine.advance(50)
        assert feed(engine, ("a", 60, 4)) == [("q", "a", 1, 10, 1)]

    def test_a_paused_query_counts_nothing(self):
        engine = engine_of(eq.Threshold("q", {}, total=10, by_key=True))
        feed(engine, ("a", 1, 6))
        engine.pause("q")
        assert feed(engine, ("a", 2, 50)) == []
        engine.resume("q")
        assert feed(engine, ("a", 3, 3), ("a", 4, 1)) == [("q", "a", 3, 10, 1)]

    def test_a_query_that_is_registered_again_begins_from_zero(self):
        query = eq.Threshold("q", {}, total=10, by_key=True)
        engine = engine_of(query)
        feed(engine, ("a", 1, 6))
        engine.deregister("q")
        engine.register(query)
        assert feed(engine, ("a", 2, 6)) == []
        assert engine.progress("q", key="a") == 6

    def test_many_pairs_and_dropped_ones(self):
        """The table grows, and gives up what dropped queries held."""
        engine = engine_of(*(eq.Threshold(f"q{i}", {}, total=10, by_key=True) for i in range(10)))
        keys = [f"k{i}" for i in range(100)]
        feed(engine, *((key, 1, 4) for key in keys))
        engine.deregister([f"q{i}" for i in range(9)])
        engine.register(eq.Threshold("new", {}, total=7, by_key=True))
        assert feed(engine, *((key, 2, 4) for key in keys)) == []
        tally = engine._shard.contents.indexes["threshold"].tally
        assert len(tally) <= 1_200
        fired = feed(engine, *((key, 3, 4) for key in keys))
        assert sorted(fired) == sorted(
            (name, key, 2, total, 1) for key in keys for name, total in (("q9", 12), ("new", 8))
        )

    def test_slots_and_totals_move_together(self, monkeypatch):
        monkeypatch.setattr("everquery.shard.upkeep.COMPACT", 4)
        engine = engine_of(*(eq.Threshold(f"q{i}", {}, total=10, by_key=True) for i in range(8)))
        feed(engine, ("a", 1, 4), ("b", 1, 5))
        engine.deregister([f"q{i}" for i in range(7)])
        engine._shard.upkeep.compact(keys=True)
        assert (engine.progress("q7", key="a"), engine.progress("q7", key="b")) == (4, 5)
        assert feed(engine, ("a", 2, 6), ("b", 2, 5)) == [
            ("q7", "a", 1, 10, 1),
            ("q7", "b", 1, 10, 1),
        ]

    def test_keys_that_are_forgotten_move_no_total(self, monkeypatch):
        """Keys that only dropped queries named are given up; the others get new numbers."""
        monkeypatch.setattr("everquery.shard.upkeep.COMPACT", 40)
        engine = engine_of(*(eq.Range(f"r{i}", {}, key=f"key {i}") for i in range(60)))
        engine.register(eq.Threshold("q", {}, total=10, by_key=True))
        engine.register(eq.Threshold("p", {}, total=30, every=10))
        feed(engine, ("a", 1, 4), ("b", 1, 5))
        engine.deregister([f"r{i}" for i in range(60)])
        engine._shard.upkeep.compact(keys=True)
        assert len(engine._shard.contents.keys) == 2
        assert [engine.progress("q", key=key) for key in "ab"] == [4, 5]
        assert feed(engine, ("b", 2, 5), ("a", 3, 5)) == [("q", "b", 1, 10, 1)]
        assert feed(engine, ("a", 4, 11), ("a", 11, 29)) == [
            ("q", "a", 2, 20, 2),
            ("p", "a", 2, 30, 1),
        ]

    def test_an_unchanged_query_keeps_its_totals_and_a_changed_one_begins_anew(self):
        query = eq.Threshold("q", {}, total=10, by_key=True, every=100)
        engine = engine_of(query)
        feed(engine, ("a", 1, 6))
        engine.register(query, replace=True)
        assert engine.progress("q", key="a") == 6
        engine.register(eq.Threshold("q", {}, total=10, by_key=True, every=50), replace=True)
        assert engine.progress("q", key="a") == 0


class TestPeriods:
    def test_one_fire_a_period_and_the_query_goes_on(self):
        engine = engine_of(eq.Threshold("q", {}, total=10, every=10))
        events = [("a", 1, 6), ("b", 9, 5), ("a", 9, 90), ("a", 10, 9), ("b", 19, 1), ("a", 30, 9)]
        assert feed(engine, *events) == [("q", "b", 0, 11, 1), ("q", "b", 1, 10, 1)]
        assert engine.progress("q") == 9

    def test_several_fires_a_period_with_repeat(self):
        engine = engine_of(eq.Threshold("q", {}, total=10, every=10, by_key=True, repeat=True))
        events = [("a", 1, 10), ("a", 2, 9), ("a", 3, 1), ("a", 4, 9), ("a", 10, 1), ("a", 11, 9)]
        assert [fire[2] for fire in feed(engine, *events)] == [0, 2, 5]

    def test_what_comes_later_of_an_earlier_period_counts_in_none(self):
        engine = engine_of(eq.Threshold("q", {}, total=10, every=10))
        feed(engine, ("a", 11, 6))
        assert feed(engine, ("b", 9, 8), ("b", 12, 3)) == []
        assert engine.progress("q") == 9

    def test_each_key_has_its_own_time(self):
        engine = engine_of(eq.Threshold("q", {}, total=10, every=10, by_key=True))
        feed(engine, ("b", 8, 5), ("a", 11, 6))
        assert feed(engine, ("b", 9, 5), ("b", 10, 9)) == [("q", "b", 1, 10, 1)]

    def test_times_below_zero_and_fractions(self):
        stream = eq.Stream("s", key="k", time="t", attributes=["x"], weight="w")
        engine = engine_of(eq.Threshold("q", {}, total=2, every=0.5), stream=stream)
        at = [-0.6, -0.5, -0.1, 0.0, 0.49, 0.5, float("inf"), float("inf")]
        fired = feed(engine, *(("a", time, 1) for time in at), times=pa.float64())
        assert [fire[2] for fire in fired] == [2, 4, 7]

    def test_without_a_time_column_it_is_refused(self):
        stream = eq.Stream("s", key="k", attributes=["x"])
        with pytest.raises(InvalidQueryError, match="every needs a stream with a time column"):
            eq.Engine(stream).register(eq.Threshold("q", {}, total=1, every=5))

    def test_a_span_that_times_can_not_tell_is_refused(self):
        engine = engine_of(eq.Threshold("q", {}, total=5, every=DAY))
        with pytest.raises(eq.InvalidBatchError, match=r"every is 1 day.*Deregister"):
            feed(engine, ("a", 1, 6))
        engine.deregister("q")
        feed(engine, ("a", 1, 6))
        with pytest.raises(InvalidQueryError, match="have no unit to measure it by"):
            engine.register(eq.Threshold("q", {}, total=5, every=DAY))

    def test_a_period_is_no_rule_of_alerts(self):
        engine = engine_of(eq.Threshold("q", {}, total=1, every=5))
        feed(engine, ("a", 1, 6))
        assert not engine._shard.contents.hygiene.active
        engine.deregister("q")
        assert engine._shard.contents.hygiene.rules.spanned == 0

    @pytest.mark.parametrize(
        ("every", "first", "begins"),
        [
            (DAY, "2026-03-01T00:00", "2026-03-02T00:00"),
            (timedelta(hours=5), "1970-01-01T05:00", "1970-01-01T10:00"),
            (7 * DAY, "2026-03-02T00:00", "2026-03-09T00:00"),  # Mondays
            (14 * DAY, "1970-01-05T00:00", "1970-01-19T00:00"),
        ],
    )
    @pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
    def test_in_utc(self, every, first, begins, unit):
        engine = engine_of(eq.Threshold("q", {}, total=2, every=every))
        starts, ends = (datetime.fromisoformat(text) for text in (first, begins))
        second = timedelta(seconds=1)
        at = [starts - second, starts, ends - second, ends, ends + second]
        fired = feed(engine, *(("a", time, 1) for time in at), times=pa.timestamp(unit))
        assert [fire[2] for fire in fired] == [2, 4]

    def test_dates(self):
        engine = engine_of(
            eq.Threshold("day", {}, total=2, every=DAY, zone="America/New_York"),
            eq.Threshold("week", {}, total=3, every=7 * DAY),
        )
        at = [datetime(2026, 3, day).date() for day in (1, 1, 2, 8, 8, 9)]
        fired = feed(engine, *(("a", day, 1) for day in at), times=pa.date32())
        assert [(fire[0], fire[2]) for fire in fired] == [("day", 1), ("day", 4), ("week", 4)]


class TestRefunds:
    def test_a_day_with_refunds(self):
        engine = engine_of(
            eq.Threshold("net", {}, total=10, by_key=True, every=100, negative="subtract"),
            eq.Threshold("gross", {}, total=10, by_key=True, every=100),
        )
        assert feed(engine, ("a", 1, 6), ("a", 2, -5), ("a", 3, 8), ("a", 4, 1)) == [
            ("gross", "a", 2, 14, 1),
            ("net", "a", 3, 10, 1),
        ]
        feed(engine, ("a", 100, -3))
        assert engine.progress("net", key="a") == -3
        assert engine.progress("gross", key="a") == 0

    def count(self, *weights, **fields):
        index = ThresholdIndex()
        query = eq.Threshold("q", {}, **fields)
        slots = np.zeros(1, np.int32)
        options = sum(flag for name, flag in OPTIONS.items() if getattr(query, name))
        flags = np.array([LIVE | options], np.uint16)
        index.describe(slots, {"total": np.array([query.total])})
        ends = np.full((1, 1), -np.inf), np.full((1, 1), np.nan)
        index.add(Rows(Shape((0,), False), slots, np.full(1, -1, np.int32), *ends), flags)
        n = len(weights)
        position = 2 * np.arange(n) + 1
        grouped = Grouped(np.zeros(1, np.int32), np.array([0, n]), position, np.zeros((1, n)))
        step = Step(
            grouped,
            np.zeros(n, np.uint8),
            np.zeros(1, np.uint8),
            np.zeros((1, 1)),
            flags,
            True,
            np.array(weights),
            np.zeros(n, np.int64),
        )
        found = [
            (int(each) >> PLACE_SHIFT + 1, int(total))
            for part in index.process(step)
            for each, total in zip(part.packed, part.figures["total"], strict=True)
        ]
        return found, index

    def test_they_lower_a_total(self):
        found, _ = self.count(6, -5, 5, 4, total=10, negative="subtract")
        assert found == [(3, 10)]

    def test_below_zero_too(self):
        found, index = self.count(-20, 25, 4, total=10, negative="subtract")
        assert found == []
        assert index.tally.progress(0) == 9

    def test_what_has_fired_is_not_taken_back(self):
        found, index = self.count(10, -5, 20, total=10, negative="subtract")
        assert found == [(0, 10)]
        assert index.done().tolist() == [0]
        found, _ = self.count(10, -5, 14, 1, total=10, negative="subtract", repeat=True)
        assert found == [(0, 10), (3, 10)]

    @pytest.mark.parametrize("fields", [{}, {"by_key": True}, {"repeat": True}])
    def test_they_are_not_seen_otherwise(self, fields):
        found, _ = self.count(6, -5, 0, 4, total=10, **fields)
        assert found == [(3, 10)]

    def test_events_are_counted_whatever_they_weigh(self):
        assert self.count(6, -5, 0, 4, total=4, count=True)[0] == [(3, 4)]

    def test_sums_stop_at_the_ends_of_64_bits(self):
        most = 2**62
        fields = {"total": LARGEST, "negative": "subtract", "repeat": True}
        found, index = self.count(most, most, -most, -most, -most, **fields)
        assert found == [(1, LARGEST)]
        assert index.tally.progress(0) == -LARGEST
        found, _ = self.count(most, most - 2, 1, total=LARGEST, negative="subtract")
        assert found == [(2, LARGEST)]


class TestSpecs:
    @pytest.mark.parametrize(
        ("fields", "reason"),
        [
            ({"by_key": True, "key": "a"}, "by_key asks for every key's total"),
            ({"negative": "substract"}, "negative is 'substract'; it takes 'ignore' or 'subtract'"),
            ({"negative": None}, "negative is None"),
            ({"negative": "subtract", "count": True}, "count counts events"),
            ({"zone": "Europe/Berlin"}, "give every too"),
            ({"zone": "Europe/Berlin", "every": 5}, "numbers know no zones"),
            ({"zone": "Europe/Berlin", "every": timedelta(hours=5)}, "divides a day evenly"),
            ({"zone": "Europe/Berlin", "every": timedelta(hours=36)}, "divides a day evenly"),
            ({"zone": "Berlin", "every": DAY}, "no such time zone; give an IANA name"),
            ({"zone": "../../etc/passwd", "every": DAY}, "no such time zone"),
            ({"zone": "", "every": DAY}, "no such time zone"),
            ({"zone": "Europe", "every": DAY}, "no such time zone"),
            ({"zone": 7, "every": DAY}, "no such time zone"),
            ({"every": 0}, "every is 0"),
            ({"every": -DAY}, "must be positive"),
            ({"by_key": 1}, "by_key is 1; it is true or false"),
        ],
    )
    def test_refused(self, fields, reason):
        with pytest.raises(InvalidQueryError, match=reason):
            eq.Threshold("q", {}, total=1, **fields)

    def test_what_a_stream_lacks(self):
        engine = eq.Engine(eq.Stream("s", time="t", attributes=["x"]))
        with pytest.raises(InvalidQueryError, match="by_key needs a stream with a key"):
            engine.register(eq.Threshold("q", {}, total=1, by_key=True))
        with pytest.raises(InvalidQueryError, match="negative needs a stream with a weight"):
            engine.register(eq.Threshold("q", {}, total=1, negative="subtract"))

    def test_spans_as_people_write_them(self):
        query = eq.Threshold("q", {}, total=1, every="1d", zone="Europe/Berlin")
        assert query.every == DAY
        with pytest.raises(InvalidQueryError, match="every is '1x'"):
            eq.Threshold("q", {}, total=1, every="1x")

    def test_which_look_across_keys(self):
        assert eq.Threshold("q", {}, total=1, every=5).looks_across_keys
        assert not eq.Threshold("q", {}, total=1, every=5, by_key=True).looks_across_keys


QUERIES = [
    eq.Threshold("a", {"x": (0, 1)}, total=10, by_key=True),
    eq.Threshold("b", {}, total=10, every=DAY, zone="Europe/Berlin", key="k"),
    eq.Threshold("c", {}, total=10, every=timedelta(hours=1), repeat=True, negative="subtract"),
    eq.Threshold("d", {}, total=10, by_key=True, count=True, every=7 * DAY, owner="me"),
    eq.Threshold("e", {}, total=10, every=20),
]


class TestWritten:
    @pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.id)
    def test_sql_reads_back(self, query):
        [created] = read_sql(print_query(query, STREAM), stream_of={"s": STREAM}.__getitem__)
        assert created.query == query

    def test_sql(self):
        text = (
            "CREATE STANDING QUERY q AS SELECT * FROM s WHERE x > 1 GROUP BY k EMIT ONCE"
            " WHEN SUM(w) >= 5 EVERY INTERVAL '1' DAY AT TIME ZONE 'Europe/Berlin'"
            " WITH (negative = SUBTRACT)"
        )
        [created] = read_sql(text, stream_of={"s": STREAM}.__getitem__)
        assert created.query == eq.Threshold(
            "q", {"x": eq.Interval(1, None, "neither")}, total=5, by_key=True, every=DAY,
            zone="Europe/Berlin", negative="subtract",
        )  # fmt: skip

    @pytest.mark.parametrize(
        ("rest", "reason"),
        [
            ("GROUP BY k EMIT MATCHES", "EMIT MATCHES takes no GROUP BY; only EMIT ONCE, EACH"),
            ("GROUP BY x EMIT ONCE", "totals are grouped by the stream's key, 'k'"),
            ("WHERE k = 'a' GROUP BY k EMIT ONCE", "has a key already, 'a'"),
            ("EMIT ONCE WHEN SUM(w) >= 5 EVERY", "expected a span of time"),
            ("EMIT ONCE WHEN SUM(w) >= 5 EVERY 5 AT", "expected TIME"),
            (
                "EMIT ONCE WHEN SUM(w) >= 5 EVERY INTERVAL '1' DAY AT TIME ZONE 'Berlin'",
                "no such time zone",
            ),
            ("EMIT ONCE WHEN SUM(w) >= 5 EVERY 5 AT TIME ZONE 'UTC'", "numbers know no zones"),
            ("EMIT ONCE WHEN SUM(w) >= 5 WITH (negative = 'add')", "expected ignore or subtract"),
        ],
    )
    def test_refused_sql(self, rest, reason):
        text = f"CREATE STANDING QUERY q AS SELECT * FROM s {rest}"
        with pytest.raises(InvalidSqlError, match=reason):
            read_sql(text, stream_of={"s": STREAM}.__getitem__)

    def table(self, **columns):
        n = max(map(len, columns.values()))
        return pa.table({"id": [f"q{i}" for i in range(n)], "total": [10] * n, **columns})

    def test_tables(self):
        hours = pa.array([timedelta(hours=1), DAY, None, None], pa.duration("us"))
        engine = eq.Engine(STREAM)
        engine.register_table(
            self.table(
                by_key=[True, False, True, None],
                every=hours,
                zone=[None, "Europe/Berlin", None, None],
                negative=[None, "subtract", "ignore", None],
            ),
            kind="threshold",
        )
        listed = engine.queries().select(["by_key", "every", "zone", "negative"]).to_pylist()
        assert [tuple(row.values()) for row in listed] == [
            (True, "INTERVAL '1' HOUR", None, "ignore"),
            (False, "INTERVAL '1' DAY", "Europe/Berlin", "subtract"),
            (True, None, None, "ignore"),
            (False, None, None, "ignore"),
        ]

    @pytest.mark.parametrize(
        ("columns", "reason"),
        [
            ({"by_key": [True], "key": ["a"]}, "by_key is true, and it has a key already"),
            ({"negative": ["add"]}, "negative must be ignore or subtract, or null for ignore"),
            ({"negative": ["subtract"], "count": [True]}, "count counts events"),
            ({"zone": ["UTC"]}, "give every too"),
            ({"zone": ["UTC"], "every": [5]}, "numbers know no zones"),
            ({"zone": ["Berlin"], "every": [DAY]}, "zone: there is no such time zone"),
            ({"zone": ["UTC"], "every": [timedelta(hours=5)]}, "divides a day evenly"),
        ],
    )
    def test_bad_rows(self, columns, reason):
        with pytest.raises(InvalidTableError, match=reason):
            eq.Engine(STREAM).register_table(self.table(**columns), kind="threshold")

    def test_registries_hold_them(self, tmp_path):
        url = f"sqlite:///{tmp_path}/queries.db"
        engine = eq.Engine(STREAM, registry=url, create=True)
        engine.register(QUERIES)
        zones = ["Asia/Tokyo", None, "UTC"]
        table = self.table(every=[DAY, DAY, DAY], zone=zones, by_key=[True, False, True])
        engine.register_table(table, kind="threshold")
        assert eq.Engine(STREAM, registry=url).queries().equals(engine.queries())


class TestState:
    def fed(self):
        engine = engine_of(
            eq.Threshold("each", {}, total=10, by_key=True),
            eq.Threshold("day", {}, total=10, every=DAY, zone="Europe/Berlin"),
            eq.Threshold("plain", {}, total=100),
        )
        feed(engine, ("a", 1, 6), ("b", 2, 30), times=pa.timestamp("s"))
        return engine

    def part(self, engine):
        index = engine._shard.contents.indexes["threshold"]
        slots = np.arange(3, dtype=np.int32)
        return index.parts(lambda: slots, lambda: 2)[1]

    def test_a_snapshot_goes_on(self):
        engine = self.fed()
        restored = eq.Engine(STREAM)
        restored.restore(engine.snapshot())
        assert restored.progress("each", key="a") == 6
        more = [("a", 3, 4), ("b", 4, 50), ("a", 90_000, 10)]
        fired = feed(restored, *more, times=pa.timestamp("s"))
        assert fired == feed(engine, *more, times=pa.timestamp("s"))
        assert [fire[0] for fire in fired] == ["each", "day", "plain"]

    def test_time_is_set_back_before_the_first_event_after_a_snapshot(self):
        engine = engine_of(eq.Threshold("q", {}, total=10, every=10))
        feed(engine, ("a", 25, 6))
        restored = eq.Engine(STREAM)
        restored.restore(engine.snapshot())
        restored.reset_time(21)
        assert restored.progress("q") == 6
        restored.reset_time(5)
        assert restored.progress("q") == 0

    def test_only_what_changed_is_written(self):
        engine = self.fed()
        part = self.part(engine)
        part.mark_committed()
        assert part.changes() is None
        feed(engine, *((f"k{i}", 3, 1) for i in range(9)), times=pa.timestamp("s"))
        part.mark_committed()
        feed(engine, ("a", 4, 1), times=pa.timestamp("s"))
        saved = part.changes()
        assert not saved.whole
        assert {name: array.tolist() for name, array in saved.arrays.items()} == {
            "query": [0], "key": [0], "seen": [7], "period": [0], "fired": [0],
        }  # fmt: skip
        other = self.part(self.fed())
        other.load(saved)
        assert other._index.tally.progress(0, 0) == 7

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            ({"query": [2]}, "without such a total"),
            ({"query": [3]}, "not below 3"),
            ({"query": [-1]}, "less than 0"),
            ({"key": [-1]}, "a key, or none, where not"),
            ({"query": [1]}, "a key, or none, where not"),
            ({"key": [2]}, "not below 2"),
            ({"seen": [10]}, "as much as the query waits for"),
            ({"seen": [-1]}, "less than 0"),
            ({"fired": [2]}, "not below 2"),
            ({"fired": [1]}, "beyond a fire"),
            ({"seen": [1, 2]}, "shape"),
            ({"more": [1]}, "has no meaning"),
        ],
    )
    def test_hostile_totals(self, change, reason):
        arrays = {"query": [0], "key": [0], "seen": [3], "period": [0], "fired": [0], **change}
        types = {"query": np.int32, "key": np.int32, "fired": np.uint8}
        typed = {name: np.array(each, types.get(name, np.int64)) for name, each in arrays.items()}
        with pytest.raises(DamagedError, match=reason):
            self.part(self.fed()).load(Saved(arrays=typed))

    def test_a_pair_twice(self):
        columns = {"query": np.int32, "key": np.int32, "seen": np.int64, "period": np.int64}
        arrays = {name: np.zeros(2, kind) for name, kind in columns.items()}
        with pytest.raises(DamagedError, match="twice"):
            self.part(self.fed()).load(Saved(arrays={**arrays, "fired": np.zeros(2, np.uint8)}))

    def test_keys_move(self):
        part = self.part(self.fed())
        saved = part.whole()
        part.move_keys(saved, np.array([5, 4], np.int32))
        assert sorted(saved.arrays["key"].tolist()) == [-1, 4, 5]


def test_how_it_is_counted_is_explained():
    engine = engine_of(eq.Threshold("q", {"x": (0, 1)}, total=5, by_key=True))
    assert "then a tally" in str(engine.explain("q"))
