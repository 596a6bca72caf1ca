"""``SELECT QUANTILE(...)``: read as meant, refused with the place, printed to read back equal."""

from datetime import timedelta

import numpy as np
import pytest

from everquery import Interval, Quantile
from everquery.errors import InvalidQueryError
from everquery.queries.sql import CreateQuery, InvalidSqlError, print_query, read_statement
from everquery.stream import Stream

TRADES = Stream("trades", key="symbol", time="ts", attributes=["price", "volume"])
KEYLESS = Stream("readings", attributes=["celsius"])
STREAMS = {"trades": TRADES, "readings": KEYLESS}


def read(text, **parameters):
    text = f"CREATE STANDING QUERY q AS SELECT\n{text}"
    return read_statement(text, parameters=parameters, stream_of=STREAMS.__getitem__)


def quantile(*, phi=0.99, epsilon=0.005, **fields):
    return Quantile("q", "price", phi=phi, epsilon=epsilon, **fields)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("QUANTILE(price, 0.99, 0.005) FROM trades EMIT CHANGES", quantile()),
        ("quantile(\"price\", .99, 5e-3) from trades emit changes", quantile()),
        ("QUANTILE('price', +1, 0.005) FROM trades EMIT CHANGES", quantile(phi=1)),
        ("QUANTILE(price, 0.99, 0.005) FROM trades WHERE symbol = 'IBM' EMIT CHANGES",
         quantile(key="IBM")),
        ("QUANTILE(price, 0.99, 0.005) FROM trades WHERE (7 = symbol AND TRUE) EMIT CHANGES",
         quantile(key=7)),
        ("QUANTILE(price, 0.99, 0.005) FROM trades WHERE price IS NOT NULL EMIT CHANGES",
         quantile()),
        ("QUANTILE(price, 0.99, 0.005) FROM trades WHERE TRUE GROUP BY symbol EMIT CHANGES",
         quantile(by_key=True)),
        ("QUANTILE(price, 0.99, 0.005) FROM trades GROUP BY \"symbol\" OVER LAST 200 ROWS"
         " EMIT CHANGES", quantile(by_key=True, last=200)),
        ("QUANTILE(price, 0.99, 0.005) FROM trades WHERE symbol = 'a' OVER LAST 5e5 ROWS"
         " EMIT CHANGES WITH (owner = 'ann', ttl = INTERVAL '8' HOUR, throttle = 5,"
         " labels = (team = 'fx'))",
         quantile(key="a", last=500_000, owner="ann", ttl=timedelta(hours=8), throttle=5,
                  labels={"team": "fx"})),
        ("QUANTILE(price, 0.9, 0.005), QUANTILE(price, 0.5, .005) FROM trades EMIT CHANGES",
         quantile(phi=(0.9, 0.5))),
        ("QUANTILE(price, 0.99, 0.005) FROM trades EMIT CHANGES BY 10 PERCENT", quantile(by=0.1)),
        ("QUANTILE(price, 0.99, 0.005) FROM trades EMIT CHANGES BY 2.5", quantile(by=2.5)),
        ("QUANTILE(price, 0.99, 0.005) FROM trades EMIT ENTER, LEAVE WHEN VALUE >= 0",
         quantile(when=(0, None))),
        ("QUANTILE(price, .99, .005) FROM trades EMIT LEAVE, ENTER WHEN VALUE > -1 AND VALUE <= 2",
         quantile(when=Interval(-1, 2, closed="right"))),
        ("QUANTILE(price, 0.99, 0.005) FROM trades GROUP BY symbol"
         " EMIT ENTER, LEAVE, CHANGES BY 0.1 WHEN VALUE BETWEEN 1 AND 2 WITH (owner = 'ann')",
         quantile(when=Interval(1, 2, closed="both"), by=0.1, by_key=True, owner="ann")),
    ],
)  # fmt: skip
def test_what_is_read(text, meant):
    assert read(text) == CreateQuery("trades", meant)
    again = read_statement(print_query(meant, TRADES), stream_of=STREAMS.__getitem__)
    assert again == CreateQuery("trades", meant)


def test_parameters():
    text = "QUANTILE(price, :phi, :epsilon) FROM trades OVER LAST :last ROWS EMIT CHANGES"
    parameters = {"phi": np.float64(0.5), "epsilon": 0.1, "last": 20}
    assert read(text, **parameters).query == quantile(phi=0.5, epsilon=0.1, last=20)


def test_what_is_printed():
    query = quantile(phi=(0.5, 1), by_key=True, last=500, owner="ann")
    assert print_query(query, TRADES) == (
        "CREATE STANDING QUERY q AS\n"
        "SELECT QUANTILE(price, 0.5, 0.005), QUANTILE(price, 1, 0.005) FROM trades"
        " GROUP BY symbol OVER LAST 500 ROWS\n"
        "EMIT CHANGES WITH (owner = 'ann');"
    )
    with pytest.raises(InvalidQueryError, match="no attribute"):
        print_query(query, KEYLESS)


P99 = "QUANTILE(price, 0.99, 0.005)"


@pytest.mark.parametrize(
    ("text", "reason", "place"),
    [
        ("QANTILE(price, 1, 0.1)", "did you mean QUANTILE?", "QANTILE"),
        ("price FROM trades", "notices carry all attributes", "price"),
        ("QUANTILE price", "expected (", "price"),
        ("QUANTILE(:p, 1, 0.1)", "parameters stand for values only", ":p"),
        ("QUANTILE(, 1, 0.1)", "an attribute (a word", ", 1"),
        ("QUANTILE(price)", "expected ,", ")"),
        ("QUANTILE(price, 0.5)", "expected ,", ")"),
        ("QUANTILE(price, volume, 0.1)", "expected phi, a number or a :parameter", "volume"),
        ("QUANTILE(price, 0.5, )", "expected epsilon, a number or a :parameter", ")"),
        ("QUANTILE(price, 0.5, 0.1, 0.1)", "expected )", ", 0.1)"),
        ("QUANTILE(price, 1.5, 0.1)", "phi is 1.5; it must be above 0 and at most 1", "1.5"),
        ("QUANTILE(price, -0.5, 0.1)", "it must be above 0", "-0.5"),
        ("QUANTILE(price, INFINITY, 0.1)", "it must be above 0", "INFINITY"),
        ("QUANTILE(price, '0.5', 0.1)", "which is not a number", "'0.5'"),
        ("QUANTILE(price, 0.5, 1)", "epsilon is 1.0; it must be above 0 and below 1", "1)"),
        ("QUANTILE(price, 0.5, 0)", "it must be above 0 and below 1", "0)"),
        ("QUANTILE(price, 0.5, 0.1000000000000000000001)", "can't hold", "0.1000"),
        ("QUANTILE(pric, 0.5, 0.1) FROM trades EMIT CHANGES", "did you mean price?", "pric,"),
        ("QUANTILE(symbol, 0.5, 0.1) FROM trades EMIT CHANGES", "no attribute 'symbol'", "symbol,"),
        (f"{P99}, QUANTILE(volume, 1, 0.005)", "are of one attribute, here 'price'", "volume"),
        (f"{P99}, QUANTILE(price, 1, 0.01)", "have one epsilon, here 0.005", "0.01)"),
        (f"{P99}, {P99} FROM trades EMIT CHANGES", "0.99 is asked for twice", P99 + " FROM"),
        (f"{P99}, * FROM trades", "expected QUANTILE", "* FROM"),
        (f"{P99}, FROM trades", "expected QUANTILE", "FROM"),
        (f"{P99} FORM trades", "did you mean FROM?", "FORM"),
        (f"{P99} FROM trades", "expected WHERE, GROUP, OVER or EMIT", ""),
        (f"{P99} FROM trades OVR LAST 5 ROWS", "did you mean OVER?", "OVR"),
        (f"{P99} FROM trades WHERE price < 5 EMIT CHANGES",
         "a quantile is over all events of its key, so price can't be restricted", "price < 5"),
        (f"{P99} FROM trades WHERE symbol = 'a' AND 5 < volume EMIT CHANGES",
         "compare symbol only", "volume"),
        (f"{P99} FROM trades WHERE symbol = 'a' OR symbol = 'b' EMIT CHANGES",
         "one query for each key", "OR"),
        (f"{P99} FROM trades WHERE symbol > 'a' EMIT CHANGES", "with = only", "symbol"),
        (f"{P99} FROM trades WHERE FALSE EMIT CHANGES", "never true", "FALSE"),
        (f"{P99} FROM trades WHERE symbol = 'a' GRUOP BY symbol",
         "expected AND, GROUP, OVER or EMIT, found GRUOP; did you mean GROUP?", "GRUOP"),
        (f"{P99} FROM trades GROUP symbol", "expected BY", "symbol"),
        (f"{P99} FROM trades GROUP BY price EMIT CHANGES", "the stream's key, 'symbol'", "price E"),
        (f"{P99} FROM trades GROUP BY symbl EMIT CHANGES", "did you mean symbol?", "symbl"),
        (f"{P99} FROM trades GROUP BY symbol, price EMIT CHANGES", "expected OVER or EMIT", ", p"),
        (f"{P99} FROM trades WHERE symbol = 'a' GROUP BY symbol EMIT CHANGES",
         "has a key already, 'a'", "GROUP"),
        (f"{P99} FROM trades OVER LAST 500 ROWS GROUP BY symbol", "expected EMIT", "GROUP"),
        (f"{P99} FROM trades OVER 500 ROWS", "expected LAST", "500"),
        (f"{P99} FROM trades OVER LAST ROWS", "expected last, a number", "ROWS"),
        (f"{P99} FROM trades OVER LAST 500 RWS", "did you mean ROWS?", "RWS"),
        (f"{P99} FROM trades OVER LAST 0 ROWS", "an empty window", "0 ROWS"),
        (f"{P99} FROM trades OVER LAST -1 ROWS", "an empty window", "-1 ROWS"),
        (f"{P99} FROM trades OVER LAST 2.5 ROWS", "a whole number", "2.5 ROWS"),
        (f"{P99} FROM trades OVER LAST INFINITY ROWS", "a whole number", "INFINITY"),
        (f"{P99} FROM trades OVER LAST 3000000000 ROWS", "at most 2,147,483,647 rows", "3000"),
        (f"{P99} FROM trades OVER LAST 199 ROWS EMIT CHANGES", "last=200 or more", "199 ROWS"),
        (f"{P99} FROM trades EMIT MATCHES", "SELECT QUANTILE(...) takes EMIT CHANGES", "MATCHES"),
        (f"{P99} FROM trades EMIT ONCE WHEN COUNT(*) >= 5", "ONCE needs SELECT *", "ONCE"),
        (f"{P99} FROM trades EMIT CHANGE", "did you mean CHANGES?", "CHANGE"),
        (f"{P99} FROM trades EMIT CHANGES WITH (silent = TRUE)", "of quantile queries", "silent"),
        (f"{P99} FROM trades EMIT CHANGES WITH (by_key = TRUE)", "of quantile queries", "by_key"),
        ("* FROM trades EMIT CHANGES", "CHANGES needs SELECT QUANTILE(...)", "CHANGES"),
        ("* FROM trades EMIT CHANGED", "expected MATCHES, ENTER, LEAVE, ONCE, EACH or", "CHANGED"),
        ("* FROM trades GROUP BY symbol EMIT MATCHES", "takes no GROUP BY", "MATCHES"),
        ("* FROM trades OVER LAST 5 ROWS EMIT MATCHES", "OVER is not possible", "OVER"),
        ("* FROM trades WHERE price < 5 OVER LAST 5 ROWS EMIT MATCHES", "only SELECT QUAN", "OVER"),
        ("QUANTILE(celsius, 1, 0.1) FROM readings GROUP BY x EMIT CHANGES", "no key", "GROUP"),
        ("QUANTILE(celsius, 1, 0.1) FROM readings WHERE celsius > 5 EMIT CHANGES",
         "leave the condition out", "celsius > 5"),
    ],
)  # fmt: skip
def test_what_is_refused(text, reason, place):
    with pytest.raises(InvalidSqlError) as caught:
        read(text)
    error = caught.value
    assert reason in str(error)
    assert error.line == 2
    assert text[error.column - 1 :].startswith(place)
    assert bool(place) == bool(text[error.column - 1 :])


@pytest.mark.parametrize(
    ("value", "reason"),
    [(True, "not a number"), (2, "at most 1"), ("x", "not a number"), (timedelta(1), "got")],
)
def test_refused_parameters(value, reason):
    text = "QUANTILE(price, :phi, 0.1) FROM trades EMIT CHANGES"
    with pytest.raises(InvalidSqlError) as caught:
        read(text, phi=value)
    assert reason in str(caught.value)
    assert text[caught.value.column - 1 :].startswith(":phi")


def test_an_id_that_leaves_no_room_for_the_ranks():
    text = f"CREATE STANDING QUERY {'q' * 1_020} AS SELECT {P99}, QUANTILE(price, 1, 0.005)"
    with pytest.raises(InvalidSqlError, match="1,026 bytes") as caught:
        read_statement(f"{text} FROM trades EMIT CHANGES", stream_of=STREAMS.__getitem__)
    assert caught.value.column == len("CREATE STANDING QUERY ") + 1
