"""Correlated queries through snapshots, changes, pauses, drops, and damaged state."""

import numpy as np
import pyarrow as pa
import pytest

import everquery as eq
from everquery.core.framing import DamagedError
from everquery.core.parts import Saved
from everquery.kinds.correlated.state import CorrelatedPart

STREAM = eq.Stream("calls", key="k", time="t", attributes=["x", "y"])


def specs():
    for i, (aggregate, to) in enumerate(
        [("count", "min"), ("sum", "avg"), ("avg", "max"), ("count", "avg")]
    ):
        for j, window in enumerate([{}, {"last": 20}, {"span": 30}]):
            for k, scope in enumerate([{}, {"by_key": True}, {"key": "a"}]):
                for epsilon in (0, 0.01):
                    yield eq.Correlated(
                        f"q{i}{j}{k}{epsilon}", aggregate, of="y", where="x", compared=">=", to=to,
                        factor=0.8, epsilon=epsilon, **window, **scope,
                    )  # fmt: skip


def batches(n=12, size=25, seed=0):
    rng = np.random.default_rng(seed)
    time = 0
    for _ in range(n):
        times = time + np.cumsum(rng.integers(0, 3, size))
        time = int(times[-1])
        yield pa.table(
            {
                "k": rng.choice(["a", "b", "c"], size),
                "t": times,
                "x": rng.lognormal(0, 1, size),
                "y": rng.normal(0, 3, size),
            }
        )


def test_restarts_change_nothing():
    plain, restarted = eq.Engine(STREAM), eq.Engine(STREAM)
    for engine in (plain, restarted):
        engine.register(list(specs()))
    for batch in batches():
        wanted = plain.process(batch)
        fresh = eq.Engine(STREAM)
        fresh.restore(restarted.snapshot())
        restarted = fresh
        assert restarted.process(batch).equals(wanted)
    for query in specs():
        key = {"key": "b"} if query.by_key else {}
        assert restarted.answer(query.id, **key) == plain.answer(query.id, **key)


def parts_of(engine):
    index = engine._state.contents.indexes["correlated"]
    slots = np.flatnonzero(engine._state.contents.catalog.flags).astype(np.int32)
    keys = len(engine._state.contents.keys)
    return CorrelatedPart(index, lambda: slots, lambda: keys)


def followed(part, follower, saved):
    """Let a follower take over what a part gave."""
    follower.load(Saved(saved.values, dict(saved.arrays), dict(saved.strings), saved.whole))


def test_changes_are_less_than_all_and_lead_to_the_same():
    engine = eq.Engine(STREAM)
    engine.register([eq.Correlated(
        f"q{key}", "sum", of="y", where="x", compared="<", to="avg", key=key, epsilon=epsilon
    ) for key, epsilon in (("a", 0), ("b", 0.01), ("c", 0), ("d", 0.01), ("e", 0.01))])  # fmt: skip
    rows = {"t": [1] * 5, "x": [1.0, 2, 3, 4, 5], "y": [1.0] * 5}
    engine.process(pa.table({"k": list("abcde"), **rows}))
    copy = eq.Engine(STREAM)
    copy.restore(engine.snapshot())
    part, other = parts_of(engine), parts_of(copy)
    part.mark_committed()
    assert part.changes() is None
    engine.process(pa.table({"k": ["a", "b"], "t": [2, 2], "x": [7.0, 8.0], "y": [2.0, 3.0]}))
    saved = part.changes()
    assert not saved.whole
    assert saved.arrays["lane.key"].size == 2
    followed(part, other, saved)
    for key in "abcde":
        assert copy.answer(f"q{key}") == engine.answer(f"q{key}")
    assert part.changes() is None


def test_groups_are_shared_and_given_up():
    engine, some = eq.Engine(STREAM), batches()
    engine.register([eq.Correlated(f"q{i}", "count", where="x", compared=c, to="avg")
                     for i, c in enumerate(["<", "<=", ">", ">="])])  # fmt: skip
    engine.process(next(some))
    table = engine._state.contents.indexes["correlated"].table
    assert (table.n_groups, table.n_lanes) == (1, 1)
    engine.register(eq.Correlated("late", "count", where="x", compared="<", to="avg"))
    engine.process(next(some))
    assert table.n_groups == 2
    assert engine.answer("late").n == 25
    assert engine.answer("q0").n == 50
    engine.deregister(["q0", "q1", "q2", "q3"])
    engine.process(next(some))
    assert engine.answer("late").n == 50


def test_a_paused_query_goes_on_seeing_events():
    engine = eq.Engine(STREAM)
    engine.register(eq.Correlated("q", "count", where="x", compared="<=", to="max", epsilon=0))
    first, second, third = batches(3)
    engine.process(first)
    engine.pause("q")
    assert engine.process(second).num_rows == 0
    engine.resume("q")
    told = engine.process(third)
    assert told.num_rows == 25
    assert told["value"][0].as_py() == 51


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("lane.group", lambda column: column + 99),
        ("lane.key", lambda column: column + 99),
        ("lane.used", lambda column: column + 1),
        ("lane.blocks", lambda column: column + 10),
        ("lane.seen", lambda column: column * 0),
        ("lane.clock", lambda column: column - 10**9),
        ("group.x", lambda column: column + 7),
        ("group.edges", lambda column: column + 1),
        ("group.window", lambda column: column + 1),
        ("group.size", lambda column: column + 1),
        ("query", lambda column: column * 0),
        ("said", lambda column: column[1:]),
        ("x", lambda column: column[1:]),
        ("x", lambda column: column * np.nan),
        ("mark", lambda column: column[::-1].copy()),
        ("block", lambda column: column[1:]),
        ("block", lambda column: column * 0 - 1),
    ],
)
def test_damaged_state_is_refused(name, damage):
    engine = eq.Engine(STREAM)
    engine.register(list(specs()))
    for batch in batches(3):
        engine.process(batch)
    saved = parts_of(engine).whole()
    other = eq.Engine(STREAM)
    other.restore(engine.snapshot())
    arrays = {**saved.arrays, name: damage(saved.arrays[name])}
    with pytest.raises(DamagedError):
        parts_of(other).load(Saved(saved.values, arrays))


def test_unknown_and_infinite_values_hide_events():
    engine = eq.Engine(STREAM)
    for epsilon in (0, 0.01):
        engine.register(
            eq.Correlated(
                f"c{epsilon}", "count", where="x", compared="<=", to="max", epsilon=epsilon
            )
        )
        engine.register(
            eq.Correlated(
                f"s{epsilon}", "sum", of="y", where="x", compared="<=", to="avg", epsilon=epsilon
            )
        )
    inf, nan = float("inf"), None
    xs, ys = [1.0, nan, inf, 2.0, 3.0], [1.0, 5.0, 7.0, inf, nan]
    engine.process(pa.table({"k": ["a"] * 5, "t": [0] * 5, "x": xs, "y": ys}))
    for epsilon in (0, 0.01):
        assert engine.answer(f"c{epsilon}").value == 4
        assert (engine.answer(f"s{epsilon}").value, engine.answer(f"s{epsilon}").n) == (1.0, 1)


def test_explain_gives_the_memory_of_both():
    engine = eq.Engine(STREAM)
    engine.register([
        eq.Correlated("rough", "count", where="x", compared="<", to="avg"),
        eq.Correlated("exact", "count", where="x", compared="<", to="avg", epsilon=0),
    ])  # fmt: skip
    for batch in batches():
        engine.process(batch)
    assert "histogram of 10 buckets (488 bytes in 1 lanes; epsilon=0 would take" in str(
        engine.explain("rough")
    )
    assert "every event that counts" in str(engine.explain("exact"))


def test_an_average_that_becomes_null_is_told():
    stream = eq.Stream("s", attributes=["x", "y"])
    engine = eq.Engine(stream)
    engine.register(
        eq.Correlated(
            "q", "avg", of="y", where="x", compared=">", to="max", factor=0.5, last=1, epsilon=0
        )
    )
    rows = [{"x": x, "y": 7.0} for x in (4.0, -4.0, -4.0, 4.0)]
    told = engine.process(rows).to_pylist()
    assert [(row["event"], row["seq"], row["value"]) for row in told] == [
        ("change", 0, 7.0),
        ("change", 1, None),
        ("change", 3, 7.0),
    ]
    engine.close()


def answers_of(queries, rows):
    engine = eq.Engine(eq.Stream("s", attributes=["x", "y"]))
    engine.register(queries)
    engine.process(rows)
    found = [engine.answer(query.id).value for query in queries]
    engine.close()
    return found


def test_averages_whose_sums_are_beyond_float64_are_right():
    largest = 1.7e308
    rows = [{"x": largest * (1 if i % 3 else 0.5), "y": largest} for i in range(9)]
    above = {"where": "x", "compared": ">", "to": "avg", "epsilon": 0}
    queries = [
        eq.Correlated("n", "count", **above),
        eq.Correlated("a", "avg", of="y", **above),
        eq.Correlated("s", "sum", of="y", **above),
    ]
    assert answers_of(queries, rows) == [6.0, pytest.approx(largest), np.inf]


@pytest.mark.parametrize(("to", "sign"), [("max", 1), ("min", -1)])
def test_within_a_share_of_an_infinite_value_is_only_that(to, sign):
    rows = [{"x": x * sign, "y": 0.0} for x in (1.0, np.inf, 2.0)]
    query = eq.Correlated("q", "count", where="x", compared="within", to=to, factor=0.1, epsilon=0)
    assert answers_of([query], rows) == [1.0]


def test_a_span_of_numbers_is_written_in_sql():
    engine = eq.Engine(STREAM)
    engine.sql(
        "CREATE STANDING QUERY q AS SELECT CORRELATED COUNT(*) FROM calls WHERE x > AVG(x)"
        " OVER LAST SPAN 30 EMIT CHANGES"
    )
    assert engine.queries()["span"].to_pylist() == ["30"]
    engine.close()
