"""What is lost is said: by the history, by queries that begin in the past, by answers."""

import pyarrow as pa
import pytest

import everquery as eq

EVENTS = 18
LOST = {0: ("000000000000-000000000003", 0), 1: ("000000000003-000000000006", 30)}


@pytest.fixture
def readings():
    return eq.Stream("s", key="k", time="t", attributes=["a"], keep="all")


@pytest.fixture
def folder(readings, tmp_path):
    """Return a folder with three chunks of three batches of two events."""
    engine = eq.Engine(readings, history=tmp_path)
    for batch in range(9):
        ts = [10 * batch, 10 * batch + 5]
        engine.process({"k": ["x", "y"], "t": ts, "a": [1.0, 2.0]})
        if batch % 3 == 2:
            engine.snapshot()
    engine.close()
    return tmp_path


def spoil(folder, name, how):
    for suffix in ("parquet", "mark"):
        path = folder / f"{name}.{suffix}"
        if how == f"{suffix} gone":
            path.unlink()
        elif how == f"{suffix} damaged":
            content = bytearray(path.read_bytes())
            content[len(content) // 2] ^= 0xFF
            path.write_bytes(content)


def counted(engine, window):
    engine.sql(f"CREATE STANDING QUERY q AS SELECT COUNT(*) FROM s {window}")
    try:
        return engine.invoke("q")["count"][0].as_py()
    finally:
        partial = engine.invoke("q", partial=True)["count"][0].as_py()
        engine.deregister("q")
        assert partial <= EVENTS


@pytest.mark.parametrize("how", ["parquet gone", "parquet damaged", "mark gone", "mark damaged"])
@pytest.mark.parametrize("chunk", [0, 1])
def test_a_window_over_a_lost_part_says_so(readings, folder, chunk, how):
    name, begins = LOST[chunk]
    spoil(folder, name, how)
    engine = eq.Engine(readings, history=folder)
    windows = [f"BEGIN {begins} END NOW", "BEGIN NOW - 70 END NOW", "BEGIN NOW - 16 ROWS END NOW"]
    for window in windows[: 2 + chunk]:  # without the oldest rows, rows are counted from the next
        with pytest.raises(eq.RowsGoneError):
            counted(engine, window)
    assert counted(engine, "BEGIN NOW - 20 END NOW") == 5
    assert counted(engine, "BEGIN NOW - 6 ROWS END NOW") == 6
    assert counted(engine, "BEGIN OLDEST END NOW") == EVENTS - 6
    restored = eq.Engine(readings, history=folder, snapshot=engine.snapshot())
    with pytest.raises(eq.RowsGoneError):
        counted(restored, f"BEGIN {begins} END NOW")


@pytest.mark.parametrize("how", ["parquet gone", "parquet damaged", "mark gone", "mark damaged"])
@pytest.mark.parametrize("chunk", [0, 1])
def test_the_lost_part_is_listed(readings, folder, chunk, how):
    name, _ = LOST[chunk]
    spoil(folder, name, how)
    engine = eq.Engine(readings, history=folder)
    (lost,) = engine.history(check=True)["lost"]
    assert lost.startswith(f"batches {3 * chunk} to {3 * chunk + 2}")


@pytest.mark.parametrize("how", ["parquet gone", "parquet damaged", "mark gone", "mark damaged"])
@pytest.mark.parametrize(("chunk", "time"), [(0, 0), (0, 15), (1, 0), (1, 30), (1, 45)])
def test_begin_in_a_lost_part_is_an_error(readings, folder, chunk, time, how):
    name, _ = LOST[chunk]
    spoil(folder, name, how)
    engine = eq.Engine(readings, history=folder)
    query = eq.Range("r", {"a": (0, 9)})
    with pytest.raises(eq.HistoryError) as raised:
        engine.register(query, begin=time)
    assert str(raised.value).count("is lost") <= 1
    with pytest.raises(eq.HistoryError):
        engine.dry_run(query, begin=time)
    behind = engine.dry_run(query, begin=60)
    assert behind.num_rows == 6


def test_columns_of_queries_that_ended_in_the_past_survive_a_restart(readings, tmp_path):
    engine = eq.Engine(readings, history=tmp_path)
    for t in range(0, 40, 10):
        engine.process({"k": ["x"], "t": [t], "a": [3.0]})
    engine.register(eq.Quantile("q", "a", phi=0.5, epsilon=0.1, ttl=7), begin="oldest")
    snapshot = engine.snapshot()
    told = engine.process({"k": [], "t": [], "a": []})
    engine.close()
    again = eq.Engine(readings, history=tmp_path, snapshot=snapshot)
    retold = again.process({"k": [], "t": [], "a": []})
    columns = ["query_id", "event", "time", "value", "n", "notice_id"]
    assert retold.select(columns).to_pylist() == told.select(columns).to_pylist()
    assert told["value"][0].as_py() == 3.0


def test_changes_are_told_of_rows_that_were_there_before_a_restart(readings, tmp_path):
    engine = eq.Engine(readings, history=tmp_path)
    engine.process({"k": ["x", "y"], "t": [0, 1], "a": [1.0, 2.0]})
    engine.sql("CREATE STANDING QUERY q AS SELECT * FROM s BEGIN 0 ROWS END NOW EMIT CHANGES")
    snapshot = engine.snapshot()
    engine.close()
    again = eq.Engine(readings, history=tmp_path, snapshot=snapshot)
    nothing = pa.table({"k": pa.array([], "string"), "t": pa.array([], "int64")})
    told = again.process(nothing).select(["event", "key"]).to_pylist()
    assert told == [{"event": "insert", "key": "x"}, {"event": "insert", "key": "y"}]


def test_a_dry_run_of_an_unknown_attribute_is_refused(readings):
    with pytest.raises(eq.InvalidQueryError, match="zz"):
        eq.Engine(readings).dry_run(eq.Range("r", {"zz": (0, 1)}))
