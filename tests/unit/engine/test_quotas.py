"""How many live queries owners may have."""

import pyarrow as pa
import pytest

import everquery as eq
from everquery.shard import upkeep

STREAM = eq.Stream("s", key="k", time="t", attributes=["x"])
BOX = {"x": (0, 10)}


def query(name, owner="ann", **options):
    return eq.Range(name, BOX, owner=owner, **options)


def new_engine(**quotas):
    engine = eq.Engine(STREAM)
    for owner, limit in quotas.items():
        engine.set_quota(None if owner == "default" else owner, limit)
    return engine


def test_beyond_it_nothing_is_registered():
    engine = new_engine(ann=2)
    engine.register(query("a"))
    with pytest.raises(eq.QuotaError) as caught:
        engine.register([query("b"), query("c")])
    assert (caught.value.owner, caught.value.limit, caught.value.live) == ("ann", 2, 1)
    assert isinstance(caught.value, eq.InvalidQueryError)
    assert engine.live_of("ann") == 1
    engine.register([query("b"), query("c", "bob"), query("d", None), query("e", None)])
    assert engine.queries()["id"].to_pylist() == ["a", "b", "c", "d", "e"]


def test_the_default_is_for_owners_without_one():
    engine = new_engine(default=1, ann=2)
    engine.register([query("a"), query("b"), query("c", "bob")])
    with pytest.raises(eq.QuotaError, match="'bob' has 1 live queries and a quota of 1"):
        engine.register(query("d", "bob"))
    engine.set_quota(None, None)
    engine.register(query("d", "bob"))
    assert engine.quotas() == {"ann": 2}


def test_ends_of_all_sorts_make_room(monkeypatch):
    monkeypatch.setattr(upkeep, "COMPACT", 3)
    engine = new_engine(ann=2)
    batch = pa.table({"k": ["a"], "t": [0], "x": [5.0]})
    engine.register([query("a", ttl=5), query("b")])
    engine.deregister("b")
    engine.register(query("b"))
    engine.process(batch)
    assert engine.live_of("ann") == 2
    engine.advance(5)
    assert engine.live_of("ann") == 1
    for i in range(10):
        engine.register(query(f"c{i}"))
        engine.process(batch)
        engine.deregister(f"c{i}")
    engine.pause("b")
    assert engine.live_of("ann") == 1
    other = eq.Engine(STREAM)
    other.restore(engine.snapshot())
    assert other.quotas() == {"ann": 2}
    assert other.live_of("ann") == 1
    other.register(query("d"))
    with pytest.raises(eq.QuotaError):
        other.register(query("e"))


def test_tables():
    engine = new_engine(ann=2, bob=0)
    engine.register(query("x"))
    table = pa.table({"id": ["a", "a", "b", "c", "d"], "owner": ["ann", "ann", "ann", "bob", None]})
    with pytest.raises(eq.QuotaError, match="'ann' has 1 live queries and a quota of 2, so 2 more"):
        engine.register_table(table.take([0, 2, 4]), kind="range")
    done = engine.register_table(table, kind="range", on_error="skip")
    assert done.registered == 2
    assert {row["row"]: row["reason"] for row in done.errors.to_pylist()} == {
        1: "id occurs in an earlier row of the table",
        2: "its owner has a quota of 2 live queries, and no room for it",
        3: "its owner has a quota of 0 live queries, and no room for it",
    }
    assert engine.queries()["id"].to_pylist() == ["x", "a", "d"]


@pytest.mark.parametrize("limit", [-1, 1.5, True, "7", 2**63])
def test_bad_limits(limit):
    with pytest.raises(eq.InvalidQueryError, match="a quota is"):
        eq.Engine(STREAM).set_quota("ann", limit)


@pytest.mark.parametrize("owner", ["", 7, "a" * 2_000])
def test_bad_owners(owner):
    with pytest.raises(eq.InvalidQueryError, match="owner"):
        eq.Engine(STREAM).set_quota(owner, 1)


def test_sql():
    engine = new_engine()
    engine.sql("ALTER OWNER ann SET QUOTA 2; ALTER OWNER DEFAULT SET QUOTA :n", {"n": 7})
    engine.register(query("a"))
    assert engine.sql("SHOW QUOTAS").to_pylist() == [
        {"owner": None, "quota": 7, "live": None},
        {"owner": "ann", "quota": 2, "live": 1},
    ]
    engine.sql("ALTER OWNER ann DROP QUOTA")
    assert engine.quotas() == {None: 7}
    for statement in ("SET QUOTA -1", "SET QUOTA 1.5", "SET QUOTA", "SET QUOTA 'x'", "QUOTA 1"):
        with pytest.raises(eq.InvalidSqlError):
            engine.sql(f"ALTER OWNER ann {statement}")
