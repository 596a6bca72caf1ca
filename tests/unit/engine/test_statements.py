"""SQL through an engine, alone and with a registry."""

import pyarrow as pa
import pytest

import everquery as eq

STREAM = eq.Stream("trades", key="symbol", attributes=["price"])


@pytest.fixture(params=["alone", "registry"])
def engine(request, tmp_path):
    url = None if request.param == "alone" else f"sqlite:///{tmp_path / 'q.db'}"
    with eq.Engine(STREAM, registry=url, create=True) as engine:
        yield engine


def test_a_query_lives_from_create_to_drop(engine):
    engine.sql(
        """
        CREATE STANDING QUERY band AS
        SELECT * FROM trades WHERE symbol = 'IBM' AND price >= 40 AND price < 50 EMIT ENTER, LEAVE;
        CREATE STANDING QUERY cheap AS SELECT * FROM trades WHERE price < :top EMIT MATCHES
        WITH (owner = 'ann');
        """,
        {"top": 10},
    )
    batch = pa.table({"symbol": ["IBM", "IBM", "X"], "price": [45.0, 55.0, 1.0]})
    events = engine.process(batch).select(["query_id", "event"]).to_pylist()
    assert [tuple(event.values()) for event in events] == [
        ("band", "enter"),
        ("band", "leave"),
        ("cheap", "match"),
    ]
    assert engine.sql("SHOW STANDING QUERIES LIKE 'ch%'")["owner"].to_pylist() == ["ann"]
    engine.sql("ALTER STANDING QUERY cheap PAUSE")
    assert engine.queries()["state"].to_pylist() == ["live", "paused"]
    engine.sql("ALTER STANDING QUERY cheap RESUME; DROP STANDING QUERY band")
    assert engine.sql("SHOW STANDING QUERIES")["id"].to_pylist() == ["cheap"]
    assert (
        "a look at each of a few boxes"
        in engine.sql("EXPLAIN STANDING QUERY cheap")["explanation"][0].as_py()
    )


def test_streams(engine):
    engine.sql("CREATE STREAM trades (symbol TEXT KEY, price DOUBLE)")
    assert engine.sql("SHOW STREAMS")["name"].to_pylist() == ["trades"]


def test_errors_change_nothing(engine):
    with pytest.raises(eq.InvalidSqlError, match="line 1"):
        engine.sql("CREATE STANDING QUERY q AS SELECT * FROM trades WHERE prise < 5 EMIT MATCHES")
    with pytest.raises(eq.UnknownQueryError):
        engine.sql("DROP STANDING QUERY nobody")
    with pytest.raises(eq.InvalidSqlError):
        engine.sql("CREATE STANDING QUERY q AS SELECT * FROM quotes EMIT MATCHES")
    assert engine.queries().num_rows == 0
