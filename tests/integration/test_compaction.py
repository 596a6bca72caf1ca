"""Followers and old snapshots take a compacted registry as what it is: the live queries."""

import pyarrow as pa
import pytest

import everquery as eq

STREAM = eq.Stream("trades", key="k", time="t", attributes=["x"], weight="w")
SCHEMA = pa.schema([("k", pa.string()), ("t", pa.int64()), ("x", pa.float64()), ("w", pa.int64())])
BOX = {"x": (0, 10)}
IN, OUT = 5.0, 20.0


def batch(*events):
    rows = [dict(zip("ktxw", event, strict=True)) for event in events]
    return pa.Table.from_pylist(rows, SCHEMA)


def told(notices, *names):
    names = names or ("query_id", "event", "key", "time", "reason")
    return [tuple(row[name] for name in names) for row in notices.to_pylist()]


@pytest.fixture
def engines(registry_url):
    """Return an engine that follows, and one that compacts."""
    return eq.Engine(STREAM, registry=registry_url), eq.Engine(STREAM, registry=registry_url)


def test_a_follower_that_is_behind_goes_on_12(engines):
    a, b = engines
    a.register(eq.Border("old", BOX))
    a.process(batch(("m", 1, IN, 1)))
    b.register(eq.Border("new", BOX))
    b.compact_registry()
    assert a.refresh() == 1
    assert a.position == b.position
    assert told(a.process(batch(("m", 2, OUT, 1)))) == [
        ("new", "enter", "m", 1, "registered"),
        ("old", "leave", "m", 2, None),
        ("new", "leave", "m", 2, None),
    ]
    a.register(eq.Range("later", {}))
    assert b.refresh() == 1


@pytest.mark.parametrize("restored", [False, True])
def test_what_stayed_keeps_its_state_and_what_is_gone_is_gone_12(engines, registry_url, restored):
    a, b = engines
    a.register(
        [
            eq.Border("gone", BOX),
            eq.Border("stays", BOX, key="m"),
            eq.Border("dwells", BOX, dwell=5),
            eq.Range("throttled", {}, throttle=10),
            eq.Range("mortal", {}, ttl=20),
            eq.Threshold("sum", {}, total=10),
            eq.Threshold("changes", {}, total=10),
            eq.Quantile("median", "x", phi=0.5, epsilon=0.1),
            eq.Border("slept", BOX),
            eq.Border("sleeps", BOX),
        ]
    )
    a.pause("slept")
    a.process(batch(("m", 0, IN, 4), ("m", 1, IN, 3)))
    snapshot = a.snapshot()
    b.deregister(["gone", "changes"])
    b.register(eq.Threshold("changes", {}, total=11))
    b.resume("slept")
    b.pause("sleeps")
    b.register_table(pa.table({"id": ["n0", "n1"], "x_lo": [0.0, 30.0]}), kind="border")
    b.compact_registry()
    b.register(eq.Range("behind the base", BOX))
    if restored:
        a = eq.Engine(STREAM, registry=registry_url)
        a.restore(snapshot)
    notices = a.process(batch(("m", 2, OUT, 3)))
    assert sorted(told(notices, "query_id", "event", "reason", "total")) == [
        ("mortal", "match", None, None),
        ("n0", "enter", "registered", None),
        ("slept", "enter", "resumed", None),
        ("slept", "leave", None, None),
        ("stays", "leave", None, None),
        ("sum", "fire", None, 10),
    ]
    assert a.progress("changes") == 3
    assert a.answer("median").n == 3
    later = a.process(batch(("m", 30, OUT, 1)))
    assert ("mortal", "end", None, 20, "ttl") in told(later)
    assert ("throttled", "match", "m", 10, "throttled") in told(later)
    kept = ("throttled", "behind the base", "median", "dwells", "stays", "slept", "sleeps")
    assert set(kept) <= set(a.queries()["id"].to_pylist())
    b.refresh()
    assert a.queries().equals(b.queries())


def test_a_query_that_ended_here_does_not_come_back_12(registry_url):
    a = eq.Engine(STREAM, registry=registry_url, read_only=True)
    b = eq.Engine(STREAM, registry=registry_url)
    b.register([eq.Threshold("once", {}, total=1), eq.Threshold("other", {}, total=1)])
    assert len(told(a.process(batch(("m", 0, IN, 1))))) == 2
    b.deregister("other")
    b.compact_registry()
    assert told(a.process(batch(("m", 1, IN, 1)))) == []
    b.register(eq.Threshold("other", {}, total=1))
    assert told(a.process(batch(("m", 2, IN, 1))), "query_id") == [("other",)]


@pytest.mark.parametrize(
    "changed",
    [
        {"key": "m"},
        {"box": {"x": (0, 11)}},
        {"owner": "ann"},
        {"labels": {"team": "fx"}},
        {"ttl": 99},
        {"dwell": 3},
        {"throttle": 3},
        {"emit": ("enter",)},
        {"silent": True},
    ],
)
def test_a_query_that_says_something_else_now_is_a_new_one_12(engines, changed):
    a, b = engines
    said = {"box": BOX, "key": None}
    a.register([eq.Border("q", **said), eq.Border("same", **said)])
    a.process(batch(("m", 0, OUT, 1)))
    b.refresh()
    b.deregister(["q", "same"])
    b.register([eq.Border("q", **{**said, **changed}), eq.Border("same", **said)])
    b.compact_registry()
    a.refresh()
    assert a.queries().sort_by("id").equals(b.queries().sort_by("id"))
    # The other one can't be told from what was there; and no answer depends on whose it is.
    goes_on = changed.keys() <= {"owner", "labels"}
    assert a._shard.contents.catalog.dropped == (0 if goes_on else 1)
