"""Statements are read as meant, and refused with the place and a way out."""

import math
import pickle
from datetime import timedelta
from decimal import Decimal

import numpy as np
import pytest

from everquery import Border, Box, Interval, Range
from everquery.errors import EverqueryError, UnknownStreamError
from everquery.queries.sql import (
    AlterQuery,
    CreateQuery,
    CreateStream,
    DropQuery,
    ExplainQuery,
    InvalidSqlError,
    ShowQueries,
    ShowStreams,
    read_sql,
    read_statement,
)
from everquery.stream import Stream

TRADES = Stream("trades", key="symbol", time="ts", attributes=["price", "volume"], weight="shares")


def stream_of(name):
    if name == "trades":
        return TRADES
    raise UnknownStreamError(f"there is no stream {name!r}")


def read(text, **parameters):
    return read_statement(text, parameters=parameters, stream_of=stream_of)


def where(condition, **parameters):
    text = f"CREATE STANDING QUERY q AS SELECT * FROM trades WHERE {condition} EMIT MATCHES"
    return read(text, **parameters).query


def refusal(text, **parameters):
    with pytest.raises(InvalidSqlError) as caught:
        read(text, **parameters)
    return caught.value


def refused_place(condition, **parameters):
    """Return the refusal of a condition and the text from its caret on."""
    head = "CREATE STANDING QUERY q AS SELECT * FROM trades WHERE\n"
    error = refusal(f"{head}{condition}\nEMIT MATCHES", **parameters)
    assert error.line == 2
    return str(error).partition("\n")[0], condition[error.column - 1 :]


def test_create_stream():
    text = """CREATE STREAM trades (symbol TEXT KEY, ts TIMESTAMP TIME, price DOUBLE,
    volume double precision, shares BIGINT WEIGHT)
    WITH (grace = INTERVAL '5' SECOND, expire_after = INTERVAL 1 HOUR)"""
    expected = Stream(
        "trades",
        key="symbol",
        time="ts",
        attributes=["price", "volume"],
        weight="shares",
        grace=timedelta(seconds=5),
        expire_after=timedelta(hours=1),
    )
    assert read(text) == CreateStream(expected)


@pytest.mark.parametrize(
    ("span", "meant"),
    [
        ("5", 5),
        ("2.5", 2.5),
        ("INTERVAL '2' WEEKS", timedelta(weeks=2)),
        ("INTERVAL '0.5' MILLISECOND", timedelta(microseconds=500)),
        (":span", timedelta(days=1)),
    ],
)
def test_spans(span, meant):
    text = f"CREATE STREAM s (t BIGINT TIME, x NUMERIC(9, 2)) WITH (grace = {span})"
    parameters = {"span": timedelta(days=1)} if ":" in span else {}
    assert read(text, **parameters).stream.grace == meant


def test_streams_are_visible_to_later_statements():
    text = """CREATE STREAM s (x REAL); ;
    CREATE STANDING QUERY q AS SELECT * FROM s WHERE x < 1 EMIT MATCHES;"""
    assert read_sql(text, stream_of=stream_of)[1] == CreateQuery("s", Range("q", {"x": (None, 1)}))


def test_create_query():
    text = """CREATE STANDING QUERY "ann's ""q""\0\n🎈" AS SELECT * FROM trades
    WHERE symbol = 'O''Neil' AND price >= 40 AND price < 50
    EMIT LEAVE, ENTER
    WITH (owner = 'ann', labels = (team = 'fx', "the desk" = :desk), silent = true)"""
    expected = Border(
        'ann\'s "q"\0\n🎈',
        {"price": (40, 50)},
        key="O'Neil",
        owner="ann",
        labels={"team": "fx", "the desk": "tokyo"},
        silent=True,
    )
    assert read(text, desk="tokyo") == CreateQuery("trades", expected)


@pytest.mark.parametrize("event", ["enter", "leave"])
def test_one_crossing_only(event):
    text = f"CREATE STANDING QUERY q AS SELECT * FROM trades EMIT {event}"
    assert read(text).query == Border("q", {}, emit=(event,))


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("ALTER STANDING QUERY q PAUSE", AlterQuery("q", "pause")),
        ("alter standing query 'q q' resume;", AlterQuery("q q", "resume")),
        ('DROP STANDING QUERY ";"', DropQuery(";")),
        ("DROP STANDING QUERY as -- why not", DropQuery("as")),
        ("\ufeffSHOW /* all */ STREAMS", ShowStreams()),
        ("SHOW STANDING QUERIES", ShowQueries()),
        ("SHOW STANDING QUERIES LIKE 'ibm%'", ShowQueries("ibm%")),
        ("EXPLAIN STANDING QUERY é", ExplainQuery("é")),
    ],
)
def test_other_statements(text, statement):
    assert read(text) == statement


@pytest.mark.parametrize(
    ("condition", "box"),
    [
        ("price < 5", {"price": Interval(None, 5)}),
        ("5 > price", {"price": Interval(None, 5)}),
        ("price >= -1.5e-3", {"price": Interval(-0.0015, None)}),
        ("price > +.5", {"price": Interval(0.5, None, "neither")}),
        ("price <= 5.", {"price": Interval(None, 5, "both")}),
        ("price BETWEEN 40 AND 50", {"price": Interval(40, 50, "both")}),
        ("price = 45", {"price": Interval(45, 45, "both")}),
        ("price BETWEEN 1 AND 9 AND price < 9 AND price > 0", {"price": Interval(1, 9)}),
        ("price >= 1 AND price > 1 AND 1 <= price", {"price": Interval(1, None, "neither")}),
        ("NOT (price < 5)", {"price": Interval(5, None)}),
        ("NOT NOT price < 5", {"price": Interval(None, 5)}),
        ("price < 5 IS FALSE", {"price": Interval(5, None)}),
        ("TRUE IS NOT FALSE AND FALSE IS NOT TRUE AND price < 5", {"price": Interval(None, 5)}),
        ("(price < 5 AND (volume > 1)) IS TRUE IS NOT FALSE",
         {"price": Interval(None, 5), "volume": Interval(1, None, "neither")}),
        ("TRUE AND NOT FALSE AND price IS NOT NULL", {"price": Interval()}),
        ("NOT price IS NULL AND price > 5", {"price": Interval(5, None, "neither")}),
        ("(price IS NULL) IS NOT TRUE", {"price": Interval()}),
        ("symbol IS NOT NULL", {}),
        ("price < INFINITY AND price > -INFINITY",
         {"price": Interval(-math.inf, math.inf, "neither")}),
        ("price < UNBOUNDED", {"price": Interval()}),
        ('trades."price" < 0.1', {"price": Interval(None, 0.1)}),
        ("price < 0.10000000000000001", {"price": Interval(None, 0.1)}),
        ("price < 9007199254740992", {"price": Interval(None, 2.0**53)}),
    ],
)  # fmt: skip
def test_conditions(condition, box):
    assert where(condition).box == Box(box)


@pytest.mark.parametrize(
    ("condition", "key"),
    [("symbol = 'IBM'", "IBM"), ("-7 = symbol", -7), ("symbol = 7 AND symbol = 7", 7)],
)
def test_keys(condition, key):
    assert where(condition) == Range("q", {}, key=key)


@pytest.mark.parametrize(
    ("condition", "reason", "place"),
    [
        ("price < 5 OR price > 7", "one query for each side", "OR price"),
        ("symbol = 'a' OR symbol = 'b'", "one query for each key", "OR symbol"),
        ("symbol IN ('a', 'b')", "one query for each key", "IN ("),
        ("price IN (1, 2)", "one query for each value", "IN ("),
        ("price <> 5", "two ranges", "<> 5"),
        ("price NOT BETWEEN 1 AND 2", "one query for each", "NOT"),
        ("NOT (price BETWEEN 1 AND 2)", "not one range", "NOT"),
        ("NOT price = 5", "not one range", "NOT"),
        ("abs(price) < 5", "no functions", "abs"),
        ("price < abs(5)", "no functions", "abs"),
        ("price + 1 < 5", "+ is not possible", "+ 1"),
        ("price < 5 * 2", "one number", "* 2"),
        ("symbol LIKE 'a%'", "compared with =", "LIKE"),
        ("volume > 1 AND pric < 5", "did you mean price?", "pric <"),
        ("ts > 5", "ts is the time", "ts"),
        ("shares > 5", "shares is the weight", "shares"),
        ("price < volume", "a column is compared with a number", "volume"),
        ("price = 'x'", "expected a number", "'x'"),
        ('symbol = "IBM"', "single quotes", '"IBM"'),
        ("symbol > 'a'", "with = only", "symbol"),
        ("symbol = 1.5", "a string or an integer", "symbol"),
        ("symbol = 9223372036854775808", "64-bit", "symbol"),
        ("symbol = 'a' AND 'b' = symbol", "one query for each key", "symbol"),
        ("price > 5 AND volume > 1 AND price <= 5 AND volume < 9", "holds no value", "price <="),
        ("price < -INFINITY", "holds no value", "price"),
        ("price < 5 AND FALSE", "never true", "FALSE"),
        ("price IS NULL", "IS NULL is not possible", "price"),
        ("symbol IS NULL", "never true", "symbol"),
        ("price < 5 IS NOT TRUE", "holds where price is unknown too", "price"),
        ("price < 5 IS NOT FALSE", "holds where price is unknown too", "price"),
        ("NOT (price < 5 IS TRUE)", "holds where price is unknown too", "NOT"),
        ("NOT price IS NOT NULL", "holds where price is unknown too", "NOT"),
        ("price < NULL", "NULL", "NULL"),
        ("price < 9007199254740993", "9007199254740992.0", "9007199254740993"),
        ("price < 0.1000000000000000000001", "can't hold", "0.1"),
        ("price < 1e400", "can't hold", "1e400"),
        ("price > -1e-400", "can't hold", "1e-400"),
        ("price < 1e-99999999999999999999999", "can't hold", "1e-9"),
        ("1 < price < 2", "join two with AND", "< 2"),
        ("price < 5 volume > 2", "expected AND, GROUP or EMIT", "volume"),
        ("price < 5 ADN volume > 2", "did you mean AND?", "ADN"),
        ("price < 5)", "expected AND, GROUP or EMIT", ")"),
        ("1 = 1", "write TRUE", "1"),
        ("price < :nothing", "has no value", ":nothing"),
        ("price < 'open", "no closing '", "'open"),
        ("price < 5 /* open", "no closing */", "/* open"),
        ("(" * 5_000 + "price < 5", "nested too deeply", "("),
        ("NOT " * 5_000 + "price < 5", "nested too deeply", "NOT"),
    ],
    ids=lambda text: text[:40],
)
def test_refused_conditions(condition, reason, place):
    message, found = refused_place(condition)
    assert reason in message
    assert found.startswith(place)


@pytest.mark.parametrize(
    ("text", "line", "column", "reason"),
    [
        ("CREAT STREAM", 1, 1, "did you mean CREATE?"),
        (
            "CREATE\r\nSTREM",
            2,
            1,
            "expected OR, STANDING or STREAM, found STREM; did",
        ),
        ("CREATE STREAM s (x TEXT)", 1, 20, "without role is an attribute"),
        ("CREATE STREAM s (x DOUBEL)", 1, 20, "did you mean DOUBLE?"),
        ("CREATE STREAM s (x INT, x INT)", 1, 25, "named twice"),
        ("CREATE STREAM s (a INT KEY, b INT KEY)", 1, 35, "KEY is 'a' already"),
        ("CREATE STREAM s (x INT) WITH (grace = 5)", 1, 15, "needs a time column"),
        ("CREATE STREAM s (x INT) WITH (grase = 5)", 1, 31, "did you mean GRACE?"),
        ("CREATE STREAM s (x INT) WITH (grace = INTERVAL 'x' DAY)", 1, 48, "no number of DAY"),
        ("CREATE STREAM :s (x INT)", 1, 15, "values only"),
        ("CREATE STANDING QUERY q AS SELECT * FROM trade EMIT MATCHES", 1, 42, "no stream 'trade'"),
        ("CREATE STANDING QUERY q AS SELECT price FROM trades", 1, 35, "expected *"),
        ("CREATE STANDING QUERY q AS SELECT * FROM trades", 1, 48, "found the end"),
        ("CREATE STANDING QUERY '' AS SELECT * FROM trades EMIT MATCHES", 1, 23, "id is empty"),
        ("DROP STANDING QUERY ''", 1, 21, "id is empty"),
        ("DROP STANDING QUERY q q", 1, 23, "expected ';' or the end, found q"),
        ("SHOW STREAMS;\rSHOW STREAMS", 2, 1, "found 2"),
        ("-- nothing", 1, 11, "found none"),
        ("SHOW STREAMS \0", 1, 14, r"found '\x00'"),
        ("SHOW \ud800", 1, 6, "surrogate"),
        ("日本 x", 1, 1, "expected a statement"),
    ],
    ids=ascii,
)
def test_refused_statements(text, line, column, reason):
    error = refusal(text)
    assert (error.line, error.column) == (line, column)
    assert reason in str(error)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("silent = TRUE", "an option of range queries"),
        ("ownr = 'a'", "did you mean owner?"),
        ("owner = 'a', owner = 'b'", "given twice"),
        ("owner = ''", "owner is empty"),
        ("owner = 5", "a 'string'"),
        ("labels = (a = 'x', a = 'y')", "given twice"),
        ("labels = (a = '')", "1 to 256"),
        ("labels = (a = 'x',)", "the name of a label"),
        ("", "an option of range queries"),
    ],
)
def test_refused_options(options, reason):
    text = f"CREATE STANDING QUERY q AS SELECT * FROM trades EMIT MATCHES WITH ({options})"
    assert reason in str(refusal(text))


def test_the_caret_is_below_the_place():
    error = refusal("SHOW STREAMS\n;\tDROP STANDING 表 QUERRY q")
    message, source, caret = str(error).split("\n")
    assert message == "line 2, column 17: expected QUERY, found 表"
    assert source == "  ;\tDROP STANDING 表 QUERRY q"
    assert caret == "   \t              ^"


def test_a_long_line_is_cut():
    error = refusal("SHOW " + "x" * 1_000_000 + " STREAMS")
    assert len(str(error)) < 400


def test_errors_pickle():
    error = refusal("SHOW TABLES")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.line, again.column) == (str(error), 1, 6)
    assert isinstance(error, EverqueryError)
    assert isinstance(error, ValueError)


def test_parameters_are_values():
    evil = "'; DROP STANDING QUERY x; --"
    query = where("symbol = :s AND price < :p AND :p > volume", s=evil, p=np.float64(2.5))
    assert query.key == evil
    assert query.box["volume"] == Interval(None, 2.5)
    text = "CREATE STANDING QUERY :id AS SELECT * FROM trades EMIT MATCHES WITH (owner = :id)"
    assert read(text, id=evil).query == Range(evil, {}, owner=evil)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "not a number"),
        (True, "not a number"),
        (math.nan, "NaN"),
        (2**53 + 1, "can't hold exactly"),
        (10**5_000, "float64"),
        (Decimal("0.1"), "can't hold exactly"),
        ("x", "expected a number"),
        (timedelta(1), "a number or a string"),
        ("\ud800", "surrogate"),
        ([1], "not a number"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_refused_parameters(value, reason):
    message, found = refused_place("volume > 1 AND price < :p", p=value)
    assert reason in message
    assert found == ":p"


def test_parameters_must_be_used():
    assert "parameter :p is given, but not used" in str(refusal("SHOW STREAMS", p=1))


def test_only_text_is_read():
    with pytest.raises(InvalidSqlError, match="got bytes"):
        read_sql(b"SHOW STREAMS", stream_of=stream_of)
