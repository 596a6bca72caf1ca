"""The id of a composite stands for its parts, where queries end, pause and resume."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import everquery as eq
from everquery.errors import UnknownQueryError

STREAM = eq.Stream("calls", key="host", attributes=["ms"])
SLOW = eq.Quantile("slow", "ms", phi=[0.5, 0.99, 1e-05], epsilon=0.01)
PARTS = ["slow[0.5]", "slow[0.99]", "slow[1e-05]"]


def states(engine):
    rows = engine.queries().select(["id", "state"]).to_pylist()
    return {row["id"]: row["state"] for row in rows}


@pytest.fixture(params=["alone", "registry"])
def engine(request, tmp_path):
    url = f"sqlite:///{tmp_path / 'q.db'}" if request.param == "registry" else None
    with eq.Engine(STREAM, registry=url, create=True) as engine:
        engine.register([SLOW, eq.Border("band", {"ms": (1, 2)})])
        yield engine


def test_a_life(engine):
    assert engine.parts("slow") == PARTS
    engine.pause("slow")
    assert states(engine) == dict.fromkeys(PARTS, "paused") | {"band": "live"}
    engine.resume(["slow", "band"])
    assert states(engine) == dict.fromkeys([*PARTS, "band"], "live")
    engine.deregister("slow")
    assert states(engine) == {"band": "live"}
    with pytest.raises(UnknownQueryError, match="no live query has the id 'slow'"):
        engine.deregister("slow")
    engine.register(SLOW)
    assert engine.parts("slow") == PARTS


def test_one_part_is_a_query_like_any_other(engine):
    engine.deregister("slow[0.99]")
    assert engine.parts("slow") == ["slow[0.5]", "slow[1e-05]"]
    engine.deregister(["slow[0.5]", "slow", "slow"])
    assert states(engine) == {"band": "live"}


@pytest.mark.parametrize("name", ["slo", "slow[", "slow[0.5", "SLOW", "low", "", "slow[0.5][0.5]"])
def test_other_ids_are_as_unknown_as_ever(engine, name):
    for change in (engine.deregister, engine.pause, engine.resume, engine.parts):
        with pytest.raises(UnknownQueryError, match="no live query has the id"):
            change(name)
        with pytest.raises(UnknownQueryError, match="no live query has the id"):
            change(["slow", name])
    assert states(engine) == dict.fromkeys([*PARTS, "band"], "live")


def test_a_live_query_is_itself(engine):
    engine.register(eq.Quantile("slow", "ms", phi=0.25, epsilon=0.01))
    assert engine.parts("slow") == ["slow"]
    engine.deregister("slow")
    assert engine.parts("slow") == PARTS


def test_ids_make_no_parts_14(engine):
    others = [eq.Quantile("slow[0.25]", "ms", phi=0.25, epsilon=0.01)]
    others += [eq.Border("slow[1.0]", {"ms": (1, 2)}), eq.Range("room[1.0]", {})]
    engine.register(others)
    assert engine.parts("slow") == PARTS
    with pytest.raises(UnknownQueryError):
        engine.deregister("room")
    engine.deregister("slow")
    assert states(engine).keys() == {"band", "slow[0.25]", "slow[1.0]", "room[1.0]"}


def test_a_composite_is_one_after_a_restart_and_a_compaction_14(tmp_path):
    url = f"sqlite:///{tmp_path / 'q.db'}"
    with eq.Engine(STREAM, registry=url, create=True) as engine:
        engine.register(SLOW)
        engine.register(eq.Quantile("slow[0.25]", "ms", phi=0.25, epsilon=0.01))
        snapshot = engine.snapshot()
    with eq.Engine(STREAM, registry=url, create=True) as again:
        assert again.parts("slow") == PARTS
        again.compact_registry()
    with eq.Engine(STREAM, registry=url, create=True) as compacted:
        assert compacted.parts("slow") == PARTS
    restored = eq.Engine(STREAM, snapshot=snapshot)
    assert restored.parts("slow") == PARTS
    restored.deregister("slow")
    assert states(restored).keys() == {"slow[0.25]"}


def test_questions_know_a_composite_14(engine):
    engine.process(pa.table({"host": ["a"] * 3, "ms": [1.0, 2.0, 3.0]}))
    assert [each.value for each in engine.answer("slow")] == [2.0, 3.0, 1.0]
    assert engine.answer("slow[0.99]").value == 3.0
    assert [each.query_id for each in engine.explain("slow")] == PARTS
    shown = engine.sql("EXPLAIN STANDING QUERY slow")
    assert shown["id"].to_pylist() == PARTS
    with pytest.raises(UnknownQueryError):
        engine.answer("slo")
    with pytest.raises(UnknownQueryError):
        engine.explain("slow[")


def test_sql(engine):
    engine.sql("ALTER STANDING QUERY slow PAUSE")
    assert states(engine)["slow[0.5]"] == "paused"
    engine.sql("ALTER STANDING QUERY slow RESUME; DROP STANDING QUERY slow")
    assert states(engine) == {"band": "live"}
    with pytest.raises(UnknownQueryError):
        engine.sql("DROP STANDING QUERY slow")
    with pytest.raises(eq.InvalidSqlError):
        engine.sql("DROP STANDING QUERY slow[0.5]")  # which has to be quoted


def test_notices_of_parts_stop_and_go_on(engine):
    def told(*values):
        notices = engine.process(pa.table({"host": ["a"] * len(values), "ms": values}))
        return notices.filter(pc.equal(notices["kind"], "quantile"))["query_id"].to_pylist()

    assert told(5.0) == PARTS
    engine.pause("slow")
    assert told(9.0, 9.0, 9.0) == []
    engine.resume("slow")
    assert told(9.0) == ["slow[0.5]", "slow[0.99]"]  # 5 is the smallest still


def test_the_rows_of_a_composite_are_forgotten_with_it(engine):
    each = eq.Quantile("each", "ms", phi=[0.5, 0.9], epsilon=0.01, by_key=True)
    engine.register(each)
    engine.process(pa.table({"host": ["a", "b"], "ms": [1.0, 2.0]}))
    assert engine.answer("each[0.9]", key="b").value == 2.0
    engine.deregister("each")
    engine.register(each)
    assert engine.answer("each[0.9]", key="b").value is None
    engine.process(pa.table({"host": ["a", "b"], "ms": [3.0, 4.0]}))
    assert engine.answer("each[0.5]", key="b") == eq.Answer(4.0, 1, 1, 1, 0.01)


class TestSeveralWriters:
    @pytest.fixture
    def url(self, tmp_path):
        return f"sqlite:///{tmp_path / 'q.db'}"

    def test_parts_that_another_engine_registered_meanwhile(self, url):
        with (
            eq.Engine(STREAM, registry=url, create=True) as here,
            eq.Engine(STREAM, registry=url, create=True) as there,
        ):
            there.register(SLOW)
            here.pause("slow")
            there.refresh()
            assert states(there) == dict.fromkeys(PARTS, "paused")

    def test_one_more_part_from_another_engine(self, url):
        with (
            eq.Engine(STREAM, registry=url, create=True) as here,
            eq.Engine(STREAM, registry=url, create=True) as there,
        ):
            here.register(SLOW)
            there.refresh()
            more = eq.Quantile("slow", "ms", phi=[0.75, 0.8], epsilon=0.01)
            there.register([*more.parts(), eq.Quantile("slow[0.9]", "ms", phi=0.9, epsilon=0.01)])
            here.deregister("slow")
            assert states(here) == {"slow[0.9]": "live"}
            there.refresh()
            assert states(there) == {"slow[0.9]": "live"}

    def test_the_id_itself_was_taken_meanwhile(self, url):
        with (
            eq.Engine(STREAM, registry=url, create=True) as here,
            eq.Engine(STREAM, registry=url, create=True) as there,
        ):
            here.register(SLOW)
            there.refresh()
            there.register(eq.Range("slow", {}))
            here.deregister("slow")
            assert list(states(here)) == PARTS

    def test_another_engine_ended_a_part(self, url):
        with (
            eq.Engine(STREAM, registry=url, create=True) as here,
            eq.Engine(STREAM, registry=url, create=True) as there,
        ):
            here.register(SLOW)
            there.refresh()
            there.deregister("slow[0.99]")
            here.pause("slow")
            assert states(here) == {"slow[0.5]": "paused", "slow[1e-05]": "paused"}

    def test_another_engine_ended_all(self, url):
        with (
            eq.Engine(STREAM, registry=url, create=True) as here,
            eq.Engine(STREAM, registry=url, create=True) as there,
        ):
            here.register(SLOW)
            there.refresh()
            there.deregister("slow")
            with pytest.raises(UnknownQueryError):
                here.pause("slow")

    def test_the_log_knows_parts_only(self, url):
        with eq.Engine(STREAM, registry=url, create=True) as engine:
            engine.register([SLOW, eq.Range("cheap", {})])
            engine.deregister("slow")
            engine.register(SLOW)
            engine.pause("slow")
        with eq.open(url) as again:
            assert states(again) == {"cheap": "live"} | dict.fromkeys(PARTS, "paused")
