"""`Engine.on`: functions that hear the notices of some queries."""

import logging
import threading

import numpy as np
import pyarrow as pa
import pytest

import everquery as eq
from everquery.engine import callbacks

STREAM = eq.Stream("s", key="k", time="t", attributes=["x"], expire_after=100)
BOX = {"x": (0, 10)}


@pytest.fixture
def engine():
    engine = eq.Engine(STREAM)
    engine.register(
        [
            eq.Border("band", BOX, labels={"team": "fx", "desk": "1"}),
            eq.Range("all", {}, labels={"team": "fx"}),
            eq.Range("other", {}),
        ]
    )
    return engine


def events(*rows):
    return [{"k": key, "t": time, "x": x} for key, time, x in rows]


def heard(calls):
    return [(notice.query_id, notice.event, notice.key, notice.time) for notice in calls]


class TestWhoIsCalled:
    def test_by_id(self, engine):
        calls = []
        engine.on("band", calls.append)
        notices = engine.process(events(("a", 1, 5), ("b", 2, 50), ("a", 3, 50)))
        assert heard(calls) == [("band", "enter", "a", 1), ("band", "leave", "a", 3)]
        assert notices.num_rows == 2 + 6

    def test_by_labels(self, engine):
        calls, both, none = [], [], []
        engine.on({"team": "fx"}, calls.append)
        engine.on({"team": "fx", "desk": "1"}, both.append)
        engine.on({"team": "fx", "desk": "2"}, none.append)
        engine.process(events(("a", 1, 5)))
        assert [notice.query_id for notice in calls] == ["band", "all"]
        assert [notice.query_id for notice in both] == ["band"]
        assert none == []

    def test_no_label_is_every_query(self, engine):
        calls = []
        engine.on({}, calls.append)
        notices = engine.process(events(("a", 1, 5), ("b", 2, 5)))
        assert [notice.as_dict() for notice in calls] == eq.readable(notices).to_pylist()

    def test_the_parts_of_a_composite(self):
        engine = eq.Engine(eq.Stream("s", attributes=["x"]))
        engine.register(eq.Quantile("q", "x", phi=[0.5, 0.9], epsilon=0.01))
        calls = []
        engine.on("q", calls.append)
        engine.process({"x": [1.0, 2.0, 3.0]})
        assert {notice.query_id for notice in calls} == {"q[0.5]", "q[0.9]"}

    def test_a_query_that_comes_later_and_one_that_ends(self, engine):
        calls = []
        engine.on("later", lambda notice: calls.append(notice.event))
        engine.process(events(("a", 1, 5)))
        engine.register(eq.Threshold("later", {}, total=1, labels={"team": "fx"}))
        engine.on({"team": "fx"}, lambda notice: calls.append(notice.query_id))
        engine.process(events(("a", 2, 5)))
        assert calls.count("fire") == 1
        assert calls.count("later") == 1
        engine.process(events(("a", 3, 5)))
        assert calls.count("later") == 1

    def test_in_order_of_notices_then_of_callbacks(self, engine):
        calls = []
        for name in ("first", "second"):
            engine.on({"team": "fx"}, lambda notice, name=name: calls.append((notice, name)))
        engine.process(events(("a", 1, 5), ("b", 2, 5)))
        assert [(n.key, n.query_id, name) for n, name in calls] == [
            (key, query, name)
            for key in ("a", "b")
            for query in ("band", "all")
            for name in ("first", "second")
        ]

    def test_off(self, engine):
        calls = []
        callback = engine.on("all", calls.append)
        engine.process(events(("a", 1, 5)))
        callback.off()
        callback.off()
        engine.process(events(("a", 2, 5)))
        assert len(calls) == 1

    def test_off_within_a_call(self, engine):
        calls = []

        def once(notice):
            calls.append(notice)
            callback.off()

        callback = engine.on("all", once)
        engine.process(events(("a", 1, 5), ("a", 2, 5)))
        assert len(calls) == 1

    def test_many_notices_with_one_listener_make_few_objects(self, engine, monkeypatch):
        made = []
        objects = callbacks.notices_of
        monkeypatch.setattr(
            callbacks, "notices_of", lambda rows: made.extend(rows.to_pylist()) or objects(rows)
        )
        calls = []
        engine.on("band", calls.append)
        n = 5_000
        inside = np.where(np.arange(n) % 2, 50.0, 5.0)
        batch = pa.table({"k": ["a"] * n, "t": np.arange(n), "x": inside})
        engine.process(batch)
        assert len(calls) == len(made) == n
        made.clear()
        engine.process(pa.table({"k": ["a"] * n, "t": np.arange(n, 2 * n), "x": [50.0] * n}))
        assert made == []


class TestWhen:
    def test_of_expiry_advance_and_flush(self):
        engine = eq.Engine(eq.Stream("s", key="k", time="t", attributes=["x"], grace=5))
        engine.register(eq.Border("band", BOX))
        calls = []
        engine.on("band", calls.append)
        engine.process(events(("a", 1, 5), ("b", 2, 5), ("c", 3, 5)))
        assert heard(calls) == []
        engine.advance(6)
        assert heard(calls) == [("band", "enter", "a", 1)]
        engine.flush()
        assert [key for _, _, key, _ in heard(calls)] == ["a", "b", "c"]
        engine.expire("b")
        assert heard(calls)[-1][:3] == ("band", "leave", "b")

    def test_a_callback_may_call_the_engine(self, engine):
        calls = []

        def more(notice):
            calls.append((notice.query_id, notice.key))
            assert engine.stats()["events"] > 0
            if notice.key == "a":
                engine.register(eq.Range(f"of {notice.time}", {}, key="b"))
                engine.process(events(("b", notice.time + 10, 5)))

        engine.on("all", more)
        engine.process(events(("a", 1, 5), ("a", 2, 5)))
        assert calls == [("all", "a"), ("all", "a"), ("all", "b"), ("all", "b")]

    def test_another_thread_is_not_blocked_by_a_call(self, engine):
        done = threading.Event()

        def wait(notice):
            thread = threading.Thread(target=lambda: (engine.stats(), done.set()))
            thread.start()
            thread.join(30)

        engine.on("band", wait)
        engine.process(events(("a", 1, 5)))
        assert done.is_set()

    def test_snapshots_do_not_know_them(self, engine):
        calls = []
        before = engine.snapshot()
        engine.on("all", calls.append)
        assert engine.snapshot() == before
        eq.Engine(STREAM, snapshot=engine.snapshot()).process(events(("a", 1, 5)))
        assert calls == []
        engine.restore(before)
        engine.process(events(("a", 1, 5)))
        assert len(calls) == 1


class TestFailures:
    def test_a_callback_that_raises_is_counted_and_told(self, engine, caplog):
        calls = []

        def bad(notice):
            raise RuntimeError(f"no {notice.key}")

        engine.on("all", bad)
        engine.on("all", calls.append)
        with caplog.at_level(logging.WARNING, logger="everquery.engine"):
            rows = [("a", time, 5) for time in range(20)]
            notices = engine.process(events(*rows))
        assert notices.num_rows == 41
        assert len(calls) == 20
        stats = engine.stats()
        assert stats["failed_callbacks"] == 20
        assert stats["last_failed_callback"] == "RuntimeError: no a"
        assert len(caplog.records) == 2  # the first and the tenth
        engine.process(events(("a", 30, 5)))
        assert len(calls) == 21

    def test_ctrl_c_goes_through_and_the_rest_is_called_later(self, engine):
        calls = []

        def stop(notice):
            calls.append(notice.time)
            if notice.time == 2:
                raise KeyboardInterrupt

        engine.on("all", stop)
        with pytest.raises(KeyboardInterrupt):
            engine.process(events(("a", 1, 5), ("a", 2, 5), ("a", 3, 5)))
        assert calls == [1, 2]
        assert engine.stats()["failed_callbacks"] == 0
        engine.process(events(("a", 4, 5)))
        assert calls == [1, 2, 3, 4]

    @pytest.mark.parametrize("selector", ["", None, 5, ["band"], {"team": 5}, {5: "fx"}])
    def test_what_names_no_queries(self, engine, selector):
        with pytest.raises(eq.InvalidQueryError, match="names no queries"):
            engine.on(selector, print)

    def test_what_is_no_function(self, engine):
        with pytest.raises(eq.InvalidQueryError, match="is no function"):
            engine.on("band", 5)

        async def later(notice):
            pass

        with pytest.raises(eq.InvalidQueryError, match="coroutine"):
            engine.on("band", later)


def test_a_notice_says_what_it_has(engine):
    calls = []
    engine.on("band", calls.append)
    engine.process(events(("a", 1, 5)))
    (notice,) = calls
    assert notice.x == notice["x"] == 5.0
    assert len(notice.notice_id) == 32
    assert repr(notice).startswith("Notice(query_id='band', kind='border', event='enter'")
    with pytest.raises(AttributeError, match="no column 'price'; it has query_id"):
        _ = notice.price
