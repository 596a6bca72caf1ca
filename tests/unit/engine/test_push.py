"""One event at a time: everything is as with a batch of one."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest

import everquery as eq
from everquery.engine import query_log

STREAM = eq.Stream("s", key="k", time="t", attributes=["x", "y"], weight="w")
KEYS = ["a", "b", "c", "ä"]


def rows_of(table):
    return [{**row, "notice_id": row["notice_id"].hex()} for row in table.to_pylist()]


def pushed(engine, event):
    return [notice.as_dict() for notice in engine.push(event)]


def random_query(rng, name):
    low = float(rng.integers(0, 8))
    box = {str(rng.choice(["x", "y"])): (low, low + float(rng.integers(1, 6)))}
    if rng.random() < 0.3:
        box = {"x": (low, low + 4), "y": (low - 3, low + 3)}
    key = str(rng.choice(KEYS)) if rng.random() < 0.6 else None
    match rng.integers(0, 4):
        case 0:
            return eq.Range(name, box, key=key)
        case 1:
            return eq.Border(name, box, key=key)
        case 2:
            total, repeat = int(rng.integers(1, 30)), bool(rng.random() < 0.5)
            return eq.Threshold(name, box, total=total, key=key, repeat=repeat)
    return eq.Quantile(name, "x", phi=0.5, epsilon=0.05, key=key)


@pytest.mark.parametrize("seed", range(6))
def test_equals_batches_of_one(seed):
    rng = np.random.default_rng(seed)
    one, other = eq.Engine(STREAM), eq.Engine(STREAM)
    live, told = [], 0
    for number in range(600):
        if number % 40 == 0:
            for engine in (one, other):
                for name in live[: len(live) // 2]:
                    if name in engine.queries()["id"].to_pylist():
                        engine.deregister(name)
            live = [f"{number}-{i}" for i in range(12)]
            for name in live:
                query = random_query(rng, name)
                one.register(query)
                other.register(query)
        x, y = rng.integers(0, 12, 2).tolist()
        event = {"k": str(rng.choice(KEYS)), "t": number // 3, "x": float(x), "y": y, "w": x + 1}
        if rng.random() < 0.03:
            event["t"] -= 9
        if rng.random() < 0.05:
            event[str(rng.choice(["k", "t", "x", "w"]))] = None
        got = pushed(one, event)
        assert got == rows_of(other.process([event]))
        told += len(got)
        if number % 150 == 149:
            states = one.snapshot(), other.snapshot()
            other.restore(states[0])
            one.restore(states[1])
    assert told > 500
    assert one.dead_letters().equals(other.dead_letters())
    assert one.stats()["events"] == other.stats()["events"]
    assert one._pushes > 100


@pytest.mark.parametrize(
    "stream",
    [
        eq.Stream("s", attributes=["x"]),
        eq.Stream("s", key="k", attributes=["x"]),
        eq.Stream("s", key="k", time="t", attributes=["x"], grace=2),
        eq.Stream("s", key="k", time="t", attributes=["x"], expire_after=3),
        eq.Stream("s", time="t", attributes=["x"], max_ahead=5),
    ],
    ids=["bare", "keyed", "grace", "expiry", "guarded"],
)
def test_every_sort_of_stream(stream):
    one, other = eq.Engine(stream), eq.Engine(stream)
    for engine in (one, other):
        engine.register(eq.Border("b", {"x": (2, 5)}))
        engine.register(eq.Range("r", {}))
    for number in range(40):
        event = {"k": "ab"[number % 2], "t": number, "x": float(number * 7 % 9)}
        event = {name: event[name] for name in stream.columns()}
        assert pushed(one, event) == rows_of(other.process([event]))
    assert one.snapshot() == other.snapshot()


@pytest.mark.parametrize(
    "times",
    [
        [1, 2, 5],
        [1.5, 2, 2.25],
        [datetime(2026, 1, day) for day in (1, 2, 3)],
        [datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2, 3)],
        [np.datetime64(f"2026-01-0{day}") for day in (1, 2, 3)],
        [np.int64(3), np.int64(4), 9],
    ],
    ids=lambda times: type(times[0]).__name__,
)
def test_times(times):
    stream = eq.Stream("s", key="k", time="t", attributes=["x"])
    one, other = eq.Engine(stream), eq.Engine(stream)
    for engine in (one, other):
        engine.register(eq.Range("r", {}))
    for time in times:
        event = {"k": "a", "t": time, "x": 1}
        assert pushed(one, event) == rows_of(other.process([event]))


@pytest.mark.parametrize(
    "event",
    [
        {"k": 7, "t": 1, "x": 1.0},
        {"k": "a", "t": 1, "x": "one"},
        {"k": "a", "t": 1, "x": True},
        {"k": "a", "t": 1, "x": 2**60 + 1},
        {"k": "a", "t": 1, "x": float("nan")},
        {"k": "a", "t": 1},
        {"k": "a", "x": 1.0},
        {"k": "\ud800", "t": 1, "x": 1.0},
        {"k": "a", "t": "today", "x": 1.0},
        {"k": "a", "t": 2**70, "x": 1.0},
        {"k": "a", "t": 0, "x": 1.0},
        {"t": 1, "x": 1.0},
        {},
        {"k": "a", "t": 1, "x": np.float32(2.5), "further": print},
    ],
    ids=repr,
)
def test_what_is_unusual_is_as_in_a_batch(event):
    stream = eq.Stream("s", key="k", time="t", attributes=["x"])
    one, other = eq.Engine(stream), eq.Engine(stream)
    for engine in (one, other):
        engine.register(eq.Range("r", {"x": (0, 10)}))
        engine.push({"k": "a", "t": 1, "x": 1.0})
    assert pushed(one, event) == rows_of(other.process([event]))
    assert one.dead_letters().equals(other.dead_letters())
    assert one.snapshot() == other.snapshot()


class TestNotices:
    @pytest.fixture
    def engine(self):
        engine = eq.Engine(eq.Stream("s", key="k", attributes=["x"]))
        engine.register(eq.Border("band", {"x": (0, 10)}, labels={"team": "fx"}, owner="ann"))
        engine.push(k="a", x=50.0)
        return engine

    def test_have_columns_as_attributes(self, engine):
        (notice,) = engine.push(k="a", x=5.0)
        assert (notice.query_id, notice.event, notice.key, notice.seq) == ("band", "enter", "a", 1)
        assert notice["x"] == 5.0
        assert notice.reason is None
        assert len(bytes.fromhex(notice.notice_id)) == 16
        assert repr(notice).endswith(f"notice_id='{notice.notice_id}')")
        with pytest.raises(AttributeError, match="no column 'price'"):
            notice.price  # noqa: B018

    def test_ids_stay_when_the_query_is_gone(self, engine):
        (notice,) = engine.push(k="a", x=5.0)
        wanted = eq.Engine(engine.stream)
        wanted.register(eq.Border("band", {"x": (0, 10)}))
        rows = wanted.process([{"k": "a", "x": 50.0}, {"k": "a", "x": 5.0}])
        engine.deregister("band")
        assert notice.notice_id == rows["notice_id"][0].as_py().hex()

    def test_are_heard_by_callbacks(self, engine):
        heard = []
        engine.on("band", heard.append)
        (notice,) = engine.push(k="a", x=5.0)
        assert [each.as_dict() for each in heard] == [notice.as_dict()]

    def test_with_labels(self):
        engine = eq.Engine(eq.Stream("s", key="k", attributes=["x"]), labels=True)
        engine.register(eq.Range("r", {}, labels={"team": "fx"}, owner="ann"))
        engine.push(k="a", x=5.0)
        (notice,) = engine.push(k="a", x=5.0)
        assert (notice.owner, notice.labels) == ("ann", '{"team": "fx"}')


class TestArguments:
    @pytest.mark.parametrize("event", [7, "event", [{"k": "a"}], pa.table({"k": ["a"]})])
    def test_no_mapping(self, event):
        engine = eq.Engine(eq.Stream("s", key="k", attributes=["x"]))
        with pytest.raises(eq.InvalidBatchError, match="not one event"):
            engine.push(event)

    def test_both(self):
        engine = eq.Engine(eq.Stream("s", key="k", attributes=["x"]))
        with pytest.raises(eq.InvalidBatchError, match="not one event"):
            engine.push({"k": "a"}, x=1.0)

    def test_columns_called_like_parameters(self):
        engine = eq.Engine(eq.Stream("s", key="event", attributes=["self"]))
        engine.register(eq.Range("r", {"self": (0, 9)}))
        (notice,) = engine.push({"event": "a", "self": 3.0})
        assert notice["self"] == 3.0


def test_what_others_register_is_live_a_moment_later(tmp_path, monkeypatch):
    url = f"sqlite:///{tmp_path / 'queries.db'}"
    stream = eq.Stream("s", key="k", attributes=["x"])
    engine = eq.Engine(stream, registry=url, create=True)
    engine.register(eq.Range("mine", {}))
    engine.push(k="a", x=1.0)
    assert len(engine.push(k="a", x=1.0)) == 1
    eq.Engine(stream, registry=url).register(eq.Range("theirs", {}))
    monkeypatch.setattr(query_log, "MOMENT", 0.0)
    assert [notice.query_id for notice in engine.push(k="a", x=1.0)] == ["mine", "theirs"]


def test_a_once_threshold_ends_in_the_registry(tmp_path):
    url = f"sqlite:///{tmp_path / 'queries.db'}"
    stream = eq.Stream("s", key="k", attributes=["x"])
    engine = eq.Engine(stream, registry=url, create=True)
    engine.register(eq.Threshold("t", {"x": (0, 9)}, total=3))
    told = [len(engine.push(k="a", x=1.0)) for _ in range(4)]
    assert told == [0, 0, 1, 0]
    assert eq.Engine(stream, registry=url).queries().num_rows == 0


def test_upkeep_goes_on(monkeypatch):
    monkeypatch.setattr("everquery.engine.engine.UPKEEP", 8)
    monkeypatch.setattr("everquery.shard.upkeep.COMPACT", 50)
    engine = eq.Engine(eq.Stream("s", key="k", attributes=["x"]))
    engine.register(eq.Range("stays", {}))
    engine.push(k="a", x=1.0)
    for number in range(200):
        engine.register(eq.Range(f"r{number}", {}))
        engine.deregister(f"r{number}")
        assert len(engine.push(k="a", x=1.0)) == 1
    assert len(engine._shard.queries) < 150


def test_within_the_grace_order_does_not_matter():
    stream = eq.Stream("s", key="k", time="t", attributes=["x"], grace=timedelta(hours=1))
    engine = eq.Engine(stream)
    engine.register(eq.Range("r", {}))
    noon = datetime(2026, 1, 1, 12)
    assert engine.push(k="a", t=noon, x=1.0) == []
    assert engine.push(k="a", t=noon - timedelta(minutes=30), x=2.0) == []
    told = engine.push(k="a", t=noon + timedelta(hours=2), x=3.0)
    assert [notice.x for notice in told] == [2.0, 1.0]
