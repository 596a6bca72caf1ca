"""The events of a batch are taken in time order across keys, whatever order they come in."""

import itertools

import pyarrow as pa
import pytest

import everquery as eq

STREAM = eq.Stream("s", key="k", time="t", attributes=["x"])
BOX = {"x": (0, 10)}
IN, OUT = 5.0, 20.0
SCHEMA = pa.schema([("k", pa.string()), ("t", pa.int64()), ("x", pa.float64())])


def batch(*events):
    return pa.Table.from_pylist([dict(zip("ktx", event, strict=True)) for event in events], SCHEMA)


def told(notices, *names):
    names = names or ("query_id", "event", "key", "time", "seq")
    return [tuple(row[name] for name in names) for row in notices.to_pylist()]


def new_engine(*queries, stream=STREAM):
    engine = eq.Engine(stream)
    engine.register(queries)
    return engine


KEY_BY_KEY = [("a", 0, OUT), ("a", 100, OUT), ("b", 0, IN), ("b", 2, OUT), ("b", 50, OUT)]


def test_no_deadline_passes_before_an_event_of_the_batch_that_lies_before_it_12():
    engine = new_engine(eq.Border("q", BOX, dwell=5))
    assert told(engine.process(batch(*KEY_BY_KEY))) == []


def test_throttle_holds_back_whatever_key_comes_first_12():
    engine = new_engine(eq.Border("q", BOX, throttle=60))
    notices = engine.process(batch(*KEY_BY_KEY))
    assert told(notices, "event", "key", "time", "held_back") == [
        ("enter", "b", 0, None),
        ("leave", "b", 60, 1),
    ]


def test_no_key_expires_before_an_event_of_the_batch_that_keeps_it_12():
    stream = eq.Stream("s", key="k", time="t", attributes=["x"], expire_after=60)
    engine = new_engine(eq.Border("q", BOX), stream=stream)
    notices = engine.process(batch(("a", 100, OUT), ("b", 0, IN), ("b", 50, IN)))
    assert told(notices, "event", "key", "time") == [("enter", "b", 0)]


def test_the_order_of_rows_in_a_batch_changes_nothing_12():
    queries = [
        eq.Border("dwell", BOX, dwell=5),
        eq.Border("throttle", BOX, throttle=60),
        eq.Range("ttl", {}, ttl=40),
        eq.Range("keyed", {}, ttl=40, key="b"),
        eq.Threshold("sum", {}, total=3, ttl=40),
    ]

    def play(rows):  # sorted: the two events at 0 are told in the order in which they came
        notices = new_engine(*queries).process(batch(*rows))
        return sorted(told(notices, "notice_id", "query_id", "event", "key", "time"))

    in_order = play(sorted(KEY_BY_KEY, key=lambda row: row[1]))
    assert {row[1] for row in in_order} == {"throttle", "ttl", "keyed", "sum"}
    for rows in itertools.permutations(KEY_BY_KEY):
        assert play(rows) == in_order


class TestTtl:
    """A query lives from the first event on, in time order; or from the time it is registered."""

    EVENTS = (("a", 0, IN), ("a", 6, IN), ("b", 30, IN), ("a", 5, IN))

    @pytest.mark.parametrize("key", [None, "a"])
    def test_with_and_without_a_key_it_sees_the_same_12(self, key):
        engine = new_engine(eq.Range("q", {}, ttl=20, key=key))
        matches = told(engine.process(batch(*self.EVENTS)), "event", "key", "time")
        assert matches == [
            ("match", "a", 0),
            ("match", "a", 5),
            ("match", "a", 6),
            ("end", key, 20),
        ]

    @pytest.mark.parametrize("key", [None, "a"])
    def test_an_older_event_in_a_later_batch_finds_it_ended_12(self, key):
        engine = new_engine(eq.Range("q", {}, ttl=20, key=key))
        first = told(engine.process(batch(*self.EVENTS[:3])), "event", "time")
        assert first == [("match", 0), ("match", 6), ("end", 20)]
        assert told(engine.process(batch(("a", 7, IN)))) == []

    @pytest.mark.parametrize("key", [None, "a"])
    @pytest.mark.parametrize("ends", [[4], [1, 4], [1, 2, 3, 4]])
    def test_under_a_grace_the_first_event_is_the_oldest_that_comes_in_time_12(self, key, ends):
        stream = eq.Stream("s", key="k", time="t", attributes=["x"], grace=10)
        engine = new_engine(eq.Range("q", {}, ttl=5, key=key), stream=stream)
        events = [("a", 103, IN), ("a", 100, IN), ("a", 104, IN), ("a", 105, IN)]
        rows = []
        for begin, end in itertools.pairwise([0, *ends]):
            rows += told(engine.process(batch(*events[begin:end])), "event", "time")
        rows += told(engine.process(batch(("b", 200, IN))), "event", "time")
        assert rows == [("match", 100), ("match", 103), ("match", 104), ("end", 105)]

    @pytest.mark.parametrize("key", [None, "a"])
    def test_one_within_the_grace_sees_what_is_held_back_and_what_comes_12(self, key):
        stream = eq.Stream("s", key="k", time="t", attributes=["x"], grace=10)
        engine = new_engine(stream=stream)
        engine.process(batch(("a", 100, IN)))
        engine.register(eq.Range("q", {}, ttl=3, key=key))
        events = [("a", 99, IN), ("a", 102, IN), ("a", 103, IN), ("b", 130, IN)]
        notices = engine.process(batch(*events))
        assert told(notices, "event", "time") == [
            ("match", 99),
            ("match", 100),
            ("match", 102),
            ("end", 103),
        ]

    def test_before_the_first_event_time_may_begin_by_itself_12(self):
        engine = new_engine(eq.Range("q", {}, ttl=20))
        engine.process(batch())
        assert told(engine.advance(100)) == []
        assert told(engine.advance(120), "event", "time") == [("end", 120)]
