"""Events that are ahead of their time: with a clock, without one, and after it has happened."""

from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pytest

import everquery as eq
from everquery.errors import InvalidBatchError, InvalidStreamError, SnapshotError
from everquery.state import clock_guard
from everquery.testing import BruteForce
from tests.attack.forging import joined, parts_of

BOX = {"x": (0, 10)}
SCHEMA = pa.schema([("k", pa.string()), ("t", pa.int64()), ("x", pa.float64())])
AHEAD = {"ahead": 1}
TEN = datetime(2024, 5, 1, 10, tzinfo=UTC)


def stream(**spans):
    return eq.Stream("s", key="k", time="t", attributes=["x"], **{"max_ahead": 10, **spans})


def batch(*events, schema=SCHEMA):
    return pa.Table.from_pylist([{"k": k, "t": t, "x": 5.0} for k, t in events], schema)


def new_engine(given=None, *queries):
    engine = eq.Engine(given or stream())
    engine.register(list(queries) or [eq.Range("q", BOX)])
    return engine


def told(notices):
    return [(row["key"], row["time"], row["seq"]) for row in notices.to_pylist()]


def letters(engine):
    return engine.stats()["dead_letters_by_reason"]


class TestWithAClock:
    def test_an_event_further_ahead_than_allowed_is_refused_and_changes_nothing(self):
        engine = new_engine(stream(expire_after=50), eq.Border("q", BOX))
        notices = engine.process(batch(("a", 100), ("b", 111), ("a", 110), ("c", 10**12)), now=100)
        assert told(notices) == [("a", 100, 0)]
        assert letters(engine) == {"ahead": 2}
        [row, other] = engine.dead_letters().to_pylist()
        assert (row["key"], row["time"], row["position"]) == ("b", 111, 1)
        assert row["reason"] == "ahead"
        assert "max_ahead" in row["detail"]
        assert other["time"] == 10**12
        assert engine.refused_examples()["ahead"][0].value == "111"
        # Neither time nor the numbers of events have moved.
        assert told(engine.process(batch(("b", 105)), now=105)) == [("b", 105, 0)]

    def test_no_deadline_passes(self):
        engine = new_engine(stream(), eq.Border("q", BOX, dwell=5, ttl=1_000))
        engine.process(batch(("a", 0), ("b", 5_000)), now=0)
        assert told(engine.process(batch(("a", 4)), now=4)) == []
        assert told(engine.process(batch(("a", 5)), now=5)) == [("a", 5, 0)]
        assert engine.queries().num_rows == 1

    @pytest.mark.parametrize(
        ("kind", "now", "late"),
        [
            (pa.timestamp("us", tz="UTC"), TEN, TEN + timedelta(seconds=11)),
            (pa.timestamp("ms"), TEN.replace(tzinfo=None), datetime(2024, 5, 1, 10, 0, 11)),
            (pa.timestamp("s"), TEN.replace(tzinfo=None), datetime(2099, 5, 1)),
        ],
    )
    def test_timestamps(self, kind, now, late):
        engine = new_engine(stream(max_ahead=timedelta(seconds=10)))
        schema = SCHEMA.set(1, pa.field("t", kind))
        events = batch(("a", now), ("a", now + timedelta(seconds=10)), ("a", late), schema=schema)
        assert engine.process(events, now=now).num_rows == 2
        assert letters(engine) == AHEAD

    def test_dates(self):
        engine = new_engine(stream(max_ahead=timedelta(days=1)))
        schema = SCHEMA.set(1, pa.field("t", pa.date32()))
        days = [date(2024, 5, 1), date(2024, 5, 2), date(2024, 5, 3)]
        events = batch(*(("a", day) for day in days), schema=schema)
        assert engine.process(events, now=date(2024, 5, 1)).num_rows == 2

    def test_infinity_and_the_largest_times(self):
        engine = new_engine()
        floats = SCHEMA.set(1, pa.field("t", pa.float64()))
        rows = [("a", 1.0), ("a", float("inf")), ("a", float("-inf"))]
        assert engine.process(batch(*rows, schema=floats), now=1.0).num_rows == 2
        assert letters(engine) == AHEAD
        engine = new_engine()
        most = 2**63 - 1
        assert engine.process(batch(("a", most), ("b", -most)), now=2**62 - 1).num_rows == 1
        assert letters(engine) == AHEAD

    def test_a_clock_that_goes_back_judges_its_own_batch_alone(self):
        engine = new_engine()
        assert engine.process(batch(("a", 100)), now=100).num_rows == 1
        assert engine.process(batch(("a", 101)), now=50).num_rows == 0
        assert letters(engine) == AHEAD
        assert engine.process(batch(("a", 102)), now=100).num_rows == 1

    def test_a_clock_in_one_call_and_none_in_the_next(self):
        engine = new_engine()
        engine.process(batch(("a", 100)), now=100)
        assert engine.process(batch(("b", 10**9))).num_rows == 0
        assert engine.stats()["ahead"] == 1
        assert letters(engine) == {}
        # The clock decides what waits.
        assert told(engine.process(batch(("a", 101)), now=101)) == [("a", 101, 1)]
        assert letters(engine) == AHEAD
        assert engine.stats()["ahead"] == 0
        engine.process(batch(("b", 10**9)))
        notices = engine.process(batch(), now=10**9)
        assert told(notices) == [("b", 10**9, 0)]

    @pytest.mark.parametrize("now", ["noon", [1], float("nan"), 1.5, 2**70])
    def test_what_is_no_time_of_the_stream(self, now):
        engine = new_engine()
        with pytest.raises(InvalidBatchError, match="is no time of type int64"):
            engine.process(batch(("a", 1)), now=now)
        assert engine.stats()["events"] == 0
        assert told(engine.process(batch(("a", 1)), now=1)) == [("a", 1, 0)]

    def test_a_moment_on_a_stream_of_numbers(self):
        engine = new_engine()
        with pytest.raises(InvalidBatchError, match="is no time of type int64"):
            engine.process(batch(("a", 1)), now=datetime(2024, 5, 1, tzinfo=UTC))

    def test_a_clock_that_nothing_is_compared_with(self):
        engine = new_engine(stream(max_ahead=None))
        with pytest.raises(InvalidBatchError, match="no max_ahead"):
            engine.process(batch(("a", 1)), now=1)
        assert engine.stats()["events"] == 0
        engine = eq.Engine(eq.Stream("s", attributes=["x"]))
        with pytest.raises(InvalidBatchError, match="no max_ahead"):
            engine.process(pa.table({"x": [1.0]}), now=1)


@pytest.mark.parametrize("span", [0, -1, "x", True, timedelta(0)])
def test_bad_spans(span):
    with pytest.raises(InvalidStreamError, match="max_ahead"):
        stream(max_ahead=span)


def test_it_needs_a_time_column():
    with pytest.raises(InvalidStreamError, match="max_ahead needs a time column"):
        eq.Stream("s", attributes=["x"], max_ahead=1)


def test_a_span_that_does_not_fit_the_times():
    engine = new_engine(stream(max_ahead=timedelta(seconds=1)))
    with pytest.raises(InvalidBatchError, match="no unit for a span"):
        engine.process(batch(("a", 1)))


class TestWithoutAClock:
    """Events wait until a second key confirms their time."""

    def begun(self, *queries, **spans):
        engine = new_engine(stream(**spans), *queries)
        engine.process(batch(("a", 100), ("b", 100)))
        return engine

    def test_one_key_alone_waits_whatever_it_sends(self):
        engine = self.begun()
        assert told(engine.process(batch(("a", 10**9), ("a", 10**9 + 1), ("a", 10**9 + 2)))) == []
        assert engine.stats()["ahead"] == 3
        assert told(engine.process(batch(("b", 101)))) == [("b", 101, 1)]

    def test_a_second_key_lets_all_in_by_time(self):
        engine = self.begun()
        assert told(engine.process(batch(("a", 500), ("a", 505)))) == []
        assert told(engine.process(batch(("b", 495)))) == [
            ("b", 495, 1),
            ("a", 500, 1),
            ("a", 505, 2),
        ]
        assert engine.stats()["ahead"] == 0

    def test_two_wrong_clocks_that_differ_confirm_nothing(self):
        engine = self.begun()
        assert told(engine.process(batch(("a", 500), ("b", 511)))) == []

    def test_an_earlier_one_comes_along(self):
        engine = self.begun()
        engine.process(batch(("a", 300)))
        assert told(engine.process(batch(("a", 500), ("b", 501)))) == [
            ("a", 300, 1),
            ("a", 500, 2),
            ("b", 501, 1),
        ]

    def test_time_that_comes_near_lets_in(self):
        engine = self.begun()
        engine.process(batch(("a", 120)))
        assert told(engine.process(batch(("b", 109)))) == [("b", 109, 1)]
        assert told(engine.process(batch(("b", 110)))) == [("b", 110, 2), ("a", 120, 1)]
        engine.process(batch(("a", 500)))
        assert told(engine.advance(490)) == [("a", 500, 2)]

    def test_the_first_event_has_to_be_confirmed_too(self):
        engine = new_engine()
        assert told(engine.process(batch(("a", 10**9)))) == []
        assert told(engine.process(batch(("b", 100)))) == []
        assert told(engine.process(batch(("a", 101)))) == [("b", 100, 0), ("a", 101, 0)]
        assert engine.stats()["ahead"] == 1

    def test_one_bad_event_in_the_first_batch(self):
        engine = new_engine()
        assert len(told(engine.process(batch(("a", 10**9), ("b", 1), ("c", 2))))) == 2

    def test_a_stream_of_one_key_does_not_stall(self):
        engine = new_engine()
        assert told(engine.process(batch(("a", 1)))) == []
        assert told(engine.process(batch(("a", 2)))) == [("a", 1, 0), ("a", 2, 1)]
        assert told(engine.process(batch(("a", 500)))) == []
        assert told(engine.process(batch(("a", 501)))) == [("a", 500, 2), ("a", 501, 3)]

    def test_nor_does_a_stream_without_key(self):
        plain = eq.Stream("s", time="t", attributes=["x"], max_ahead=10)
        engine = new_engine(plain)
        for time, count in [(1, 0), (2, 2), (500, 0), (3, 1), (509, 2), (600, 0)]:
            notices = engine.process(pa.table({"t": [time], "x": [5.0]}))
            assert notices.num_rows == count
        assert letters(engine) == {}

    def test_the_end_of_the_stream_refuses_what_waits(self):
        engine = self.begun()
        engine.process(batch(("a", 500)))
        assert told(engine.flush()) == []
        assert letters(engine) == AHEAD
        assert engine.stats()["ahead"] == 0

    def test_the_grace_holds_back_what_was_let_in(self):
        engine = self.begun(grace=5)
        assert told(engine.process(batch(("a", 500)))) == []
        assert told(engine.process(batch(("b", 500)))) == [("a", 100, 0), ("b", 100, 0)]
        assert engine.stats()["held"] == 2

    def test_a_snapshot_has_what_waits(self):
        engine = self.begun()
        engine.process(batch(("new", 500)))
        again = eq.Engine(stream(), snapshot=engine.snapshot())
        assert again.stats()["ahead"] == 1
        assert told(again.process(batch(("b", 501)))) == [("new", 500, 0), ("b", 501, 1)]

    @pytest.mark.parametrize(
        ("name", "value", "said"),
        [
            ("key", 99, "'ahead.key'"),
            ("arrived", 10**9, "'ahead.arrived'"),
            ("weight", 2**62 + 1, "weight"),
        ],
    )
    def test_a_forged_snapshot_is_refused(self, name, value, said):
        engine = self.begun()
        engine.process(batch(("new", 500)))
        header, arrays = parts_of(engine.snapshot())
        arrays[f"keys.ahead.{name}"][0] = value
        with pytest.raises(SnapshotError, match=said):
            engine.restore(joined(header, arrays))
        for forged in (arrays.pop(f"keys.ahead.{name}")[:0], None):
            if forged is not None:
                arrays[f"keys.ahead.{name}"] = forged
            with pytest.raises(SnapshotError):
                engine.restore(joined(header, arrays))
            arrays.pop(f"keys.ahead.{name}", None)
        assert engine.stats()["ahead"] == 1

    def test_a_clock_that_stays_wrong_does_not_fill_the_memory(self, monkeypatch):
        monkeypatch.setattr(clock_guard, "MOST_WAITING", 3)
        engine = self.begun()
        for time in range(1_000, 1_005):
            engine.process(batch(("a", time)))
        assert engine.stats()["ahead"] == 3
        assert letters(engine) == {"ahead": 2}
        assert engine.dead_letters()["time"].to_pylist() == [1_000, 1_001]

    def test_steps_beyond_64_bits(self):
        engine = new_engine()
        most = 2**63 - 1
        rows = [("a", -most), ("b", -most), ("a", most), ("b", most)]
        assert engine.process(batch(*rows)).num_rows == 4
        floats = SCHEMA.set(1, pa.field("t", pa.float64()))
        rows = [("a", 1.0), ("b", 1.0), ("a", float("inf"))]
        assert new_engine().process(batch(*rows, schema=floats)).num_rows == 2


class TestResetTime:
    def jumped(self, *queries, **spans):
        engine = new_engine(stream(max_ahead=None, **spans), *queries)
        engine.process(batch(("a", 100), ("b", 100)))
        engine.process(batch(("a", 10**9)))
        return engine

    def test_keys_go_on(self):
        engine = self.jumped()
        assert told(engine.process(batch(("a", 101)))) == []
        engine.reset_time(110)
        notices = engine.process(batch(("a", 109), ("a", 110), ("b", 105)))
        assert told(notices) == [("b", 105, 1), ("a", 110, 2)]
        assert letters(engine) == {"late": 2}

    def test_nothing_waits_longer_than_its_span(self):
        engine = self.jumped(eq.Range("q", BOX, throttle=60))
        engine.reset_time(110)
        assert told(engine.process(batch(("a", 169)))) == []
        assert told(engine.process(batch(("a", 170)))) == [("a", 170, 2)]

    def test_a_query_lives_as_long_as_it_should(self):
        engine = self.jumped()
        engine.register(eq.Range("later", BOX, ttl=50))
        engine.reset_time(110)
        events = engine.process(batch(("b", 160)))
        assert [(row["query_id"], row["event"]) for row in events.to_pylist()] == [
            ("q", "match"),
            ("later", "end"),
        ]

    def test_totals_of_later_periods_begin_anew(self):
        engine = self.jumped(eq.Threshold("sum", {}, total=2, every=50, repeat=True))
        engine.process(batch(("a", 120)))
        assert engine.progress("sum") == 1  # of the period that the wrong clock began
        engine.reset_time(120)
        assert engine.progress("sum") == 0
        notices = engine.process(batch(("a", 121), ("b", 149), ("b", 150)))
        assert [(row["event"], row["time"]) for row in notices.to_pylist()] == [("fire", 149)]

    def test_what_is_held_back_beyond_it_is_refused(self):
        engine = self.jumped(grace=5)
        engine.reset_time(110)
        assert letters(engine) == AHEAD
        assert engine.stats()["held"] == 0
        assert told(engine.process(batch(("a", 120), ("b", 125)))) == [("a", 120, 1)]

    def test_it_tells_nothing_and_keys_expire_later(self):
        engine = self.jumped(eq.Border("q", BOX), expire_after=50)
        engine.reset_time(110)
        assert engine.process(batch(("b", 120)))["event"].to_pylist() == ["enter"]
        assert engine.advance(159).num_rows == 0
        assert engine.advance(160)["key"].to_pylist() == ["a"]

    def test_only_back(self):
        engine = new_engine(stream(max_ahead=None))
        engine.reset_time(5)  # no event yet
        engine.process(batch(("a", 100)))
        with pytest.raises(InvalidBatchError, match="advance"):
            engine.reset_time(101)
        with pytest.raises(InvalidBatchError, match="no time of type"):
            engine.reset_time("noon")
        engine.reset_time(100)
        assert told(engine.process(batch(("a", 100)))) == [("a", 100, 1)]

    def test_the_twin_too(self):
        twin = BruteForce(stream(max_ahead=None))
        twin.reset_time(5)
        twin.process([{"k": "a", "t": 3, "x": 1.0}])
        with pytest.raises(InvalidBatchError):
            twin.reset_time(5)
