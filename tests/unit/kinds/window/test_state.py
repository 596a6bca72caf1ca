"""Windows through snapshots, and beside queries that began in the past."""

import pyarrow as pa

import everquery as eq

STREAM = eq.Stream("packets", key="host", time="t", attributes=["length"], keep="all")


def batch(*rows):
    host, t, length = zip(*rows, strict=True)
    return pa.table({"host": host, "t": t, "length": length})


def restored(engine):
    fresh = eq.Engine(STREAM)
    fresh.restore(engine.snapshot())
    return fresh


def test_answers_are_there_right_after_a_restore():
    engine = eq.Engine(STREAM)
    engine.register(eq.Window("all", "sum", "length", span=100))
    engine.register(eq.Window("each", "max", "length", span=100, by_key=True, epsilon=0.1))
    engine.process(batch(("a", 1_000, 5.0)))
    after = restored(engine)
    assert after.answer("all") == engine.answer("all")
    assert after.answer("all").value == 5.0
    assert after.answer("each", key="a") == engine.answer("each", key="a")


def test_a_window_without_events_is_as_whole_after_a_restore_as_before():
    engine = eq.Engine(STREAM)
    engine.process(batch(("a", 100, 5.0)))
    engine.register(eq.Window("b", "sum", "length", span=50, key="b"))
    engine.advance(110)
    after = restored(engine)
    for each in (engine, after):
        each.process(batch(("b", 140, 5.0)))
    assert after.answer("b") == engine.answer("b")


def test_a_window_that_begins_in_the_past_leaves_one_of_the_same_events_alone():
    engine = eq.Engine(STREAM)
    engine.process(batch(("a", 1, 1.0), ("a", 2, 2.0)))
    engine.register(eq.Window("now", "sum", "length", last=10, key="a"))
    engine.process(batch(("a", 3, 4.0)))
    engine.register(eq.Window("then", "sum", "length", last=10, key="a"), begin="oldest")
    found = [(each.answer("now").value, each.answer("then").value) for each in (engine,)]
    after = restored(engine)
    for each in (engine, after):
        each.process(batch(("a", 4, 8.0)))
        found.append((each.answer("now").value, each.answer("then").value))
    assert found == [(4.0, 7.0), (12.0, 15.0), (12.0, 15.0)]
    assert after.answer("then") == engine.answer("then")
    engine.deregister("then")
    engine.register(eq.Window("again", "sum", "length", last=3, key="a"))
    assert engine.answer("again").value == 12.0
