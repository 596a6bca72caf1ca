"""Queries that begin in the past, from a user's side: what is told, what is refused."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest

import everquery as eq
from everquery.errors import DuplicateQueryError, HistoryError, InvalidQueryError
from everquery.history import history as keeping
from everquery.queries.sql import InvalidSqlError

STREAM = eq.Stream("trades", key="symbol", time="ts", attributes=["price"], keep="all")
BAND = eq.Border("band", {"price": (20, 30)})


def batch(first, n=10):
    times = np.arange(first, first + n)
    keys = [f"k{t % 3}" for t in times.tolist()]
    return pa.table({"symbol": keys, "ts": times, "price": (times * 7 % 50).astype(float)})


def told(notices):
    columns = ["query_id", "event", "key", "time", "seq", "notice_id"]
    return [tuple(row.values()) for row in notices.select(columns).to_pylist()]


def all_told(engine, batches):
    return [row for each in batches for row in told(engine.process(each))]


@pytest.fixture
def engine(monkeypatch):
    monkeypatch.setattr(keeping, "ROWS", 15)
    engine = eq.Engine(STREAM)
    for first in range(0, 60, 10):
        engine.process(batch(first))
    return engine


@pytest.fixture
def expected():
    """Return a function: the notices of queries that were there from a time on."""

    def told_since(queries, first, end=70):
        other = eq.Engine(STREAM)
        for each in range(0, first, 10):
            other.process(batch(each))
        other.register(queries)
        return all_told(other, (batch(each) for each in range(first, end, 10)))

    return told_since


@pytest.mark.parametrize(
    ("begin", "first"), [("oldest", 0), ("OLDEST", 0), (20, 20), ((3, 0), 30), (55, None)]
)
def test_notices_are_those_of_a_query_that_was_there(engine, expected, begin, first):
    engine.register(BAND, begin=begin)
    notices = engine.process(batch(60))
    if first is not None:
        assert told(notices) == expected(BAND, first)
        reasons = [row["reason"] for row in notices.to_pylist() if row["time"] < 60]
        assert set(reasons) <= {"backfill"}
    else:  # within a batch
        rest = [row for row in expected(BAND, 50) if row[3] >= 55]
        assert {row[-1] for row in rest} <= {row[-1] for row in told(notices)}


def test_silent_queries_tell_nothing_of_the_past(engine, expected):
    engine.register(BAND, begin="oldest", silent=True)
    now = [row for row in expected(BAND, 0) if row[3] >= 60]
    assert told(engine.process(batch(60))) == now


def test_a_whole_table_begins_in_the_past(engine, expected):
    queries = [eq.Border(f"q{n}", {"price": (n, n + 5)}) for n in range(40)]
    table = pa.table(
        {
            "id": [query.id for query in queries],
            "price_lo": [float(n) for n in range(40)],
            "price_hi": [float(n + 5) for n in range(40)],
        }
    )
    done = engine.register_table(table, kind="border", begin=(1, 0))
    assert done.registered == 40
    assert sorted(told(engine.process(batch(60)))) == sorted(expected(queries, 10))


def test_queries_that_ended_in_the_past_are_told_and_gone(engine):
    once = eq.Threshold("once", {"price": (0, 50)}, total=5)
    engine.register(once, begin="oldest")
    assert engine.queries().num_rows == 0
    notices = engine.process(batch(60))
    assert notices["query_id"].to_pylist() == ["once"]
    assert notices["time"].to_pylist() == [4]


def test_other_queries_that_wait_are_still_announced(engine):
    engine.register(eq.Border("new", {"price": (0, 50)}))
    engine.register(BAND, begin="oldest")
    notices = engine.process(batch(60)).to_pylist()
    assert {row["reason"] for row in notices if row["query_id"] == "new"} == {"registered"}


def test_a_snapshot_has_what_is_still_to_be_told(engine, expected):
    engine.register(BAND, begin="oldest")
    other = eq.Engine(STREAM)
    other.restore(engine.snapshot())
    assert told(other.process(batch(60))) == expected(BAND, 0)


def test_callbacks_hear_of_the_past(engine):
    heard = []
    engine.on("band", heard.append)
    engine.register(BAND, begin="oldest")
    engine.push({"symbol": "k0", "ts": 60, "price": 0.0})
    assert heard
    assert heard[0].reason == "backfill"


def test_push_tells_of_the_past(engine, expected):
    engine.register(BAND, begin="oldest")
    notices = engine.push({"symbol": "k0", "ts": 60, "price": 0.0})
    assert [row[-1].hex() for row in expected(BAND, 0, 60)] == [
        notice.notice_id for notice in notices[: len(expected(BAND, 0, 60))]
    ]


def test_sql_begins_in_the_past(engine, expected):
    create = "CREATE STANDING QUERY band AS SELECT * FROM trades WHERE price >= 20 AND price < 30"
    engine.sql(f"{create} EMIT ENTER, LEAVE BEGIN OLDEST")
    assert told(engine.process(batch(60))) == expected(BAND, 0)
    for begin in ("BEGIN 20", "BEGIN PLACE (2, 0)"):
        other = eq.Engine(STREAM)
        for first in range(0, 60, 10):
            other.process(batch(first))
        other.sql(f"{create} EMIT ENTER, LEAVE {begin}")
        assert told(other.process(batch(60))) == expected(BAND, 20)


def test_sql_says_what_is_wrong(engine):
    create = "CREATE STANDING QUERY band AS SELECT * FROM trades WHERE price < 30 EMIT MATCHES"
    with pytest.raises(InvalidSqlError, match="expected OLDEST, PLACE or a time"):
        engine.sql(f"{create} BEGIN SOON")
    with pytest.raises(InvalidQueryError, match="give its statement alone"):
        engine.sql(f"{create} BEGIN OLDEST; DROP STANDING QUERY band")
    with pytest.raises(InvalidSqlError, match="goes on from it"):
        engine.sql(create.replace("CREATE", "CREATE OR REPLACE") + " BEGIN OLDEST")


def test_dry_run_registers_nothing(engine, expected):
    queries = [BAND, eq.Range("low", {"price": (0, 5)})]
    notices = engine.dry_run(queries)
    assert told(notices) == expected(queries, 0, 60)
    assert engine.queries().num_rows == 0
    assert set(notices["reason"].to_pylist()) == {None}
    some = engine.dry_run(eq.Range("low", {"price": (0, 5)}), begin=20, end=(4, 5))
    assert [row[3] for row in told(some)] == [
        t for t in range(20, 45) if t * 7 % 50 < 5
    ]  # fmt: skip
    engine.register(BAND)
    assert engine.dry_run(BAND).num_rows  # its id may be taken


def test_engines_on_one_registry_agree(tmp_path, expected):
    url = f"sqlite:///{tmp_path}/queries.db"
    first = eq.Engine(STREAM, registry=url, create=True)
    second = eq.Engine(STREAM, registry=url)
    for each in range(0, 60, 10):
        first.process(batch(each))
        second.process(batch(each))
    first.register(BAND, begin="oldest")
    assert told(first.process(batch(60))) == expected(BAND, 0)
    assert told(second.process(batch(60))) == expected(BAND, 0)
    table = pa.table({"id": ["t"], "price_lo": [20.0], "price_hi": [30.0]})
    first.register_table(table, kind="border", begin=(2, 0))
    assert sorted(told(first.process(batch(70)))) == sorted(told(second.process(batch(70))))
    with eq.Engine(STREAM, registry=url) as late:  # it has no past, and begins now
        assert late.queries()["id"].to_pylist() == ["band", "t"]


def test_a_follower_without_history_says_so(tmp_path, caplog):
    url = f"sqlite:///{tmp_path}/queries.db"
    first = eq.Engine(STREAM, registry=url, create=True)
    second = eq.Engine(STREAM, registry=url)
    first.process(batch(0))
    first.process(batch(10))
    first.register(BAND, begin=(1, 0))
    assert second.queries()["id"].to_pylist() == ["band"] or second.refresh()
    assert "begin now" in caplog.text


class TestBadInput:
    def test_nothing_is_kept(self):
        engine = eq.Engine(eq.Stream("s", attributes=["x"]))
        with pytest.raises(HistoryError, match="keeps nothing"):
            engine.register(eq.Range("r", {"x": (0, 1)}), begin="oldest")

    @pytest.mark.parametrize("begin", ["yesterday", (1,), (1, -1), (1, 2, 3), True, object()])
    def test_unknown_words(self, engine, begin):
        with pytest.raises(InvalidQueryError, match="begin is"):
            engine.register(BAND, begin=begin)

    def test_times_of_another_type(self, engine):
        with pytest.raises(InvalidQueryError, match="give a number"):
            engine.register(BAND, begin=datetime(2026, 1, 1, tzinfo=UTC))

    def test_the_future(self, engine):
        with pytest.raises(InvalidQueryError, match="after the newest time seen, 59"):
            engine.register(BAND, begin=100)
        with pytest.raises(InvalidQueryError, match=r"the next event is at \(6, 0\)"):
            engine.register(BAND, begin=(7, 0))
        with pytest.raises(InvalidQueryError, match="batch 2 has 10 events"):
            engine.register(BAND, begin=(2, 11))

    def test_begin_after_end(self, engine):
        with pytest.raises(InvalidQueryError, match="end before it begins"):
            engine.dry_run(BAND, begin=40, end=20)

    def test_before_what_is_kept(self, monkeypatch):
        monkeypatch.setattr(keeping, "ROWS", 15)
        engine = eq.Engine(eq.Stream("s", key="symbol", time="ts", attributes=["price"], keep=20))
        for first in range(0, 100, 10):
            engine.process(batch(first))
        for begin in (5, (0, 0)):
            with pytest.raises(HistoryError, match="before what is kept: the oldest is at place"):
                engine.register(BAND, begin=begin)
        assert engine.queries().num_rows == 0
        engine.register(BAND, begin="oldest")

    def test_replacements_have_no_begin(self, engine):
        with pytest.raises(InvalidQueryError, match="replace others"):
            engine.register(BAND, begin="oldest", replace=True)
        with pytest.raises(InvalidQueryError, match="silent is for"):
            engine.register(BAND, silent=True)

    def test_live_ids_are_refused(self, engine):
        engine.register(BAND)
        with pytest.raises(DuplicateQueryError):
            engine.register(BAND, begin="oldest")

    def test_a_lost_part_of_the_past(self, tmp_path, caplog):
        with eq.Engine(STREAM, history=tmp_path) as engine:
            for first in range(0, 50, 10):
                engine.process(batch(first))
                engine.snapshot()
        sorted(tmp_path.glob("*.parquet"))[2].write_bytes(b"nothing")
        with eq.Engine(STREAM, history=tmp_path) as engine:
            with pytest.raises(HistoryError, match=r"is lost: .*begin at place \(3, 0\) or later"):
                engine.register(BAND, begin=10)
            engine.register(BAND, begin="oldest")
            assert "queries begin at batch 3" in caplog.text
            assert min(row[3] for row in told(engine.process(batch(50)))) >= 29


def test_clocks_that_go_back():
    engine, other = eq.Engine(STREAM), eq.Engine(STREAM)
    other.register(BAND)
    for each in (engine, other):
        each.process(batch(0))
        each.advance(1000)
        each.reset_time(10)
    notices = told(other.process(batch(10)))
    engine.register(BAND, begin=(1, 0))
    assert {row[-1] for row in told(engine.process(batch(10)))} >= {row[-1] for row in notices}


def test_spans_of_datetimes():
    stream = eq.Stream("s", key="symbol", time="ts", attributes=["price"], keep="1h")
    engine = eq.Engine(stream)
    start = datetime(2026, 1, 1)
    times = pa.array([start + timedelta(minutes=n) for n in range(10)], pa.timestamp("us"))
    table = batch(0).set_column(1, "ts", times)
    engine.process(table)
    low = eq.Range("low", {"price": (0, 50)})
    assert engine.dry_run(low, begin=start + timedelta(minutes=4)).num_rows == 6
    assert engine.dry_run(low, begin="2026-01-01T00:08:00").num_rows == 2
