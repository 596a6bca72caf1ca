"""A registry that is away: events and time go on, changes are refused whole, ends come later."""

from datetime import timedelta

import pyarrow as pa
import pytest

import everquery as eq
from everquery.errors import RegistryLostError

STREAM = eq.Stream("trades", key="symbol", time="t", attributes=["price"], expire_after=100)
BAND = eq.Border("band", {"price": (40, 50)})


def batch(*rows):
    symbol, t, price = zip(*rows, strict=True)
    return pa.table({"symbol": list(symbol), "t": list(t), "price": list(price)})


class File:
    """The file of a registry, which goes away and comes back."""

    def __init__(self, folder):
        self.path = folder / "queries.db"
        self.away = folder / "away"
        self.away.mkdir()
        self.url = f"sqlite:///{self.path}"

    def leave(self):
        for file in self.path.parent.glob("queries.db*"):
            file.rename(self.away / file.name)

    def come_back(self):
        for file in self.away.glob("queries.db*"):
            file.rename(self.path.parent / file.name)


@pytest.fixture
def file(tmp_path):
    return File(tmp_path)


def ids(engine):
    return sorted(engine.queries()["id"].to_pylist())


def told(notices):
    rows = notices.select(["query_id", "event", "reason"]).to_pylist()
    return [tuple(row.values()) for row in rows]


def test_time_goes_on_and_what_ends_meanwhile_is_reported_once_14(file, caplog):
    engine = eq.Engine(STREAM, registry=file.url, create=True)
    engine.register([BAND, eq.Border("brief", {"price": (0, 9)}, ttl=10)])
    engine.register(eq.Threshold("sum", {}, total=2))
    assert told(engine.process(batch(("IBM", 1, 45.0)))) == [("band", "enter", None)]
    file.leave()
    assert told(engine.advance(20)) == [("brief", "end", "ttl")]
    assert "its file is gone" in engine.stats()["registry"]["trouble"]
    assert "stay as they are until their registry is back" in caplog.text
    assert told(engine.process(batch(("IBM", 21, 46.0)))) == [("sum", "fire", None)]
    assert told(engine.flush()) == []
    assert told(engine.expire("IBM")) == [("band", "leave", "expired")]
    assert ids(engine) == ["band"]
    assert engine.stats()["ended"] == 2
    file.come_back()
    position = engine.position
    assert ids(eq.Engine(STREAM, registry=file.url, create=True)) == ["band", "brief", "sum"]
    engine.process(batch(("IBM", 22, 1.0)))
    assert engine.stats()["registry"] == {
        "position": position + 2,
        "trouble": None,
        "altered": None,
        "left_out": [],
    }
    engine.process(batch(("IBM", 23, 1.0)))
    assert engine.position == position + 2  # once
    assert engine.stats()["ended"] == 2
    assert ids(eq.Engine(STREAM, registry=file.url, create=True)) == ["band"]


def test_ends_are_reported_without_another_batch_14(file):
    engine = eq.Engine(STREAM, registry=file.url, create=True)
    engine.register([eq.Range(f"q{ttl}", {}, ttl=ttl) for ttl in (10, 20)])
    engine.process(batch(("IBM", 1, 45.0)))
    file.leave()
    engine.advance(15)
    file.come_back()
    engine.advance(16)
    assert ids(eq.Engine(STREAM, registry=file.url, create=True)) == ["q20"]


def test_a_query_that_ended_here_and_was_registered_again_elsewhere_14(file):
    engine = eq.Engine(STREAM, registry=file.url, create=True)
    engine.register(eq.Range("brief", {}, ttl=10))
    engine.process(batch(("IBM", 1, 45.0)))
    file.leave()
    engine.advance(20)
    file.come_back()
    with eq.Engine(STREAM, registry=file.url, create=True) as other:
        other.deregister("brief")
        other.register(eq.Range("brief", {"price": (0, 99)}))
    assert told(engine.process(batch(("IBM", 21, 5.0)))) == [("brief", "match", None)]
    assert ids(eq.Engine(STREAM, registry=file.url, create=True)) == ["brief"]


@pytest.mark.parametrize(
    "change",
    [
        lambda engine: engine.register([BAND, eq.Range("more", {})]),
        lambda engine: engine.register_table(pa.table({"id": ["a", "b"]}), kind="range"),
        lambda engine: engine.deregister("kept"),
        lambda engine: engine.pause("kept"),
        lambda engine: engine.sql("CREATE STANDING QUERY s AS SELECT * FROM trades EMIT MATCHES"),
        lambda engine: engine.compact_registry(),
    ],
)
def test_changes_are_refused_whole_14(file, change):
    engine = eq.Engine(STREAM, registry=file.url, create=True)
    engine.register(eq.Range("kept", {}))
    file.leave()
    for _ in range(2):
        with pytest.raises(eq.RegistryError, match="its file is gone"):
            change(engine)
        assert told(engine.process(batch(("IBM", 1, 45.0)))) == [("kept", "match", None)]
    file.come_back()
    engine.process(batch(("IBM", 1, 45.0)))
    assert engine.position == 1
    assert ids(engine) == ids(eq.Engine(STREAM, registry=file.url, create=True)) == ["kept"]
    change(engine)


def test_a_registry_that_comes_back_ahead_14(file):
    engine = eq.Engine(STREAM, registry=file.url, create=True)
    engine.register(BAND)
    file.leave()
    engine.process(batch(("IBM", 1, 45.0)))
    file.come_back()
    with eq.Engine(STREAM, registry=file.url, create=True) as other:
        other.deregister("band")
        other.register([eq.Range("all", {}), eq.Range("low", {"price": (0, 9)})])
        other.compact_registry()
    assert told(engine.process(batch(("IBM", 2, 60.0)))) == [("all", "match", None)]
    assert ids(engine) == ["all", "low"]


def test_a_registry_that_comes_back_behind_is_not_followed_14(file, caplog):
    first = eq.Engine(STREAM, registry=file.url, create=True)
    first.register([BAND, eq.Range("all", {})])
    snapshot = first.snapshot()
    file.leave()
    engine = eq.Engine(STREAM, registry=file.url, create=True)  # an empty one in its place
    engine.restore(snapshot)
    assert len(engine.process(batch(("IBM", 1, 45.0)))) == 2
    assert "stands at position 2" in engine.stats()["registry"]["trouble"]
    assert "stay as they are from now on" in caplog.text
    with pytest.raises(RegistryLostError, match="stands at position 2"):
        engine.refresh()
    with pytest.raises(RegistryLostError, match="stands at position 2"):
        engine.register(eq.Range("more", {}))
    # Nor is it when it has come further: it says something else.
    with eq.Engine(STREAM, registry=file.url, create=True) as other:
        other.register([eq.Range(f"other{i}", {}) for i in range(3)])
    assert len(engine.process(batch(("IBM", 2, 45.0)))) == 1
    assert ids(engine) == ["all", "band"]
    with pytest.raises(RegistryLostError):
        engine.refresh()


def test_an_engine_begins_from_a_snapshot_while_its_registry_is_away_14(file):
    first = eq.Engine(STREAM, registry=file.url, create=True)
    first.register([BAND, eq.Range("brief", {}, ttl=10)])
    first.process(batch(("IBM", 1, 45.0)))
    snapshot = first.snapshot()
    file.leave()
    engine = eq.Engine(STREAM, registry=file.url, snapshot=snapshot)
    assert not file.path.exists()  # no empty registry in its place
    assert "there is no file" in engine.stats()["registry"]["trouble"]
    assert told(engine.process(batch(("IBM", 2, 60.0)))) == [
        ("band", "leave", None),
        ("brief", "match", None),
    ]
    assert told(engine.advance(20)) == [("brief", "end", "ttl")]
    with pytest.raises(eq.RegistryError, match="there is no file"):
        engine.register(eq.Range("more", {}))
    file.come_back()
    engine.register(eq.Range("more", {}))
    assert ids(engine) == ids(eq.Engine(STREAM, registry=file.url, create=True)) == ["band", "more"]
    engine.process(batch(("IBM", 30, 60.0)))
    assert engine.stats()["registry"] == {
        "position": 4,
        "trouble": None,
        "altered": None,
        "left_out": [],
    }


def test_a_snapshot_of_another_stream_is_refused_14(file):
    other = eq.Engine(eq.Stream("other", attributes=["x"])).snapshot()
    with pytest.raises(eq.SnapshotError):
        eq.Engine(STREAM, registry=file.url, snapshot=other)


def test_a_snapshot_without_a_registry_14():
    first = eq.Engine(STREAM)
    first.register(eq.Range("all", {}, ttl=timedelta(seconds=1)))
    assert ids(eq.Engine(STREAM, snapshot=first.snapshot())) == ["all"]
