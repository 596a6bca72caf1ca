"""Specs print as SQL and read back equal; any text is read or refused; tokens are sqlglot's."""

import math
import time
from datetime import timedelta
from operator import eq, ge, gt, le, lt

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sqlglot.tokens import Tokenizer, TokenType

from everquery import Border, Interval, Quantile, Range
from everquery.core.spans import LONGEST_SPAN, LONGEST_TIMEDELTA
from everquery.errors import UnknownStreamError
from everquery.kinds.quantile.spec import LONGEST_WINDOW
from everquery.queries.sql import (
    CreateQuery,
    CreateStream,
    InvalidSqlError,
    print_query,
    print_stream,
    read_sql,
    read_statement,
)
from everquery.queries.sql.scanner import PARAMETER, scan_statements
from everquery.stream import LETTER_COLUMNS, NOTICE_COLUMNS, Stream
from everquery.testing import strategies

TRADES = Stream("trades", key="symbol", time="ts", attributes=["price", "volume"])
STATEMENTS = (
    "CREATE STREAM s (k TEXT KEY, t TIMESTAMP TIME, x DOUBLE) WITH (grace = INTERVAL '5' SECOND);",
    "CREATE STANDING QUERY q AS SELECT * FROM trades WHERE symbol = 'IBM' AND NOT (price < -1.5e-3)"
    " AND volume BETWEEN 1 AND 5 IS TRUE EMIT ENTER, LEAVE"
    " WITH (owner = 'ann', labels = (team = 'fx', \"a \"\"b\"\"\" = 'c''d'), silent = TRUE);",
    "CREATE STANDING QUERY p AS SELECT QUANTILE(price, 0.5, 0.01), QUANTILE(price, 1, 1e-2)"
    " FROM trades WHERE symbol = 'IBM' OVER LAST 500 ROWS EMIT CHANGES WITH (owner = 'ann');",
    "CREATE STANDING QUERY k AS SELECT QUANTILE(volume, 0.99, 0.5) FROM trades GROUP BY symbol"
    " EMIT CHANGES;",
    "CREATE STANDING QUERY 'r' AS SELECT * FROM trades /* all */ EMIT MATCHES; -- end",
    "ALTER STANDING QUERY q PAUSE;",
    "SHOW STANDING QUERIES LIKE 'x%';",
    "EXPLAIN STANDING QUERY q;",
)

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
KEYWORDS = ["not", "TRUE", "select", "infinity", "group", "OVER", "quantile", "emit", "last"]
NAMES = TEXTS | st.sampled_from(
    [*KEYWORDS, "a b", 'q"q', "it's", "\0", "🎈", ":p", "--", "/*", "1"]
)


def stream_of(name):
    if name == "trades":
        return TRADES
    raise UnknownStreamError(f"there is no stream {name!r}")


def spans(*, zero, longest=timedelta.max):
    return st.none() | st.one_of(
        st.integers(0 if zero else 1, LONGEST_SPAN - 1),
        st.floats(0, LONGEST_SPAN / 2, exclude_min=not zero),
        st.timedeltas(timedelta(0 if zero else 1), longest),
    )


@st.composite
def any_streams(draw):
    names = st.lists(
        NAMES.filter(lambda name: name not in (*NOTICE_COLUMNS, *LETTER_COLUMNS)),
        min_size=3,
        max_size=5,
        unique=True,
    )
    key, moment, *attributes = draw(names)
    timed = draw(st.booleans())
    return Stream(
        draw(NAMES),
        key=key if draw(st.booleans()) else None,
        time=moment if timed else None,
        attributes=attributes,
        weight=draw(st.sampled_from([None, key, moment, *attributes]) | NAMES),
        grace=draw(spans(zero=True)) if timed else None,
        expire_after=draw(spans(zero=False)) if timed else None,
    )


@st.composite
def any_intervals(draw):
    if draw(st.booleans()):
        return draw(strategies.intervals())
    low, high = sorted(draw(st.lists(st.floats(allow_nan=False), min_size=2, max_size=2)))
    closed = "both" if low == high else draw(st.sampled_from(["left", "both"]))
    return Interval(low, high, closed)


@st.composite
def any_ranks(draw, stream, key):
    """Return the fields that only quantiles have."""
    ranks = st.floats(0, 1, exclude_min=True)
    epsilon = draw(st.floats(0, 1, exclude_min=True, exclude_max=True))
    shortest = math.ceil(min(1 / epsilon, LONGEST_WINDOW + 1))
    window = st.integers(shortest, LONGEST_WINDOW) if shortest <= LONGEST_WINDOW else st.none()
    return {
        "attribute": draw(st.sampled_from(stream.attributes)),
        "phi": draw(ranks | st.lists(ranks, min_size=1, max_size=4, unique=True)),
        "epsilon": epsilon,
        "last": draw(st.none() | window),
        "by_key": stream.key is not None and key is None and draw(st.booleans()),
    }


@st.composite
def any_queries(draw, stream):
    keys = TEXTS | st.integers(-(2**63), 2**63 - 1)
    common = {
        "id": draw(NAMES),
        "box": draw(st.dictionaries(st.sampled_from(stream.attributes), any_intervals())),
        "key": draw(st.none() | keys) if stream.key else None,
        "owner": draw(st.none() | NAMES),
        "labels": draw(st.dictionaries(NAMES, NAMES, max_size=3)),
    }
    spec = draw(st.sampled_from([Range, Border, Quantile]))
    if stream.time:
        longest = LONGEST_TIMEDELTA - timedelta.resolution
        common |= {name: draw(spans(zero=False, longest=longest)) for name in spec.spans}
    if spec is Range:
        return Range(**common)
    if spec is Quantile:
        del common["box"]
        return Quantile(**common, **draw(any_ranks(stream, common["key"])))
    emit = draw(st.sampled_from([("enter", "leave"), ("enter",), ("leave",)]))
    return Border(**common, silent=draw(st.booleans()), emit=emit)


@given(st.data())
def test_queries_read_back_equal(data):
    stream = data.draw(any_streams())
    query = data.draw(any_queries(stream))
    again = read_statement(print_query(query, stream), stream_of={stream.name: stream}.__getitem__)
    assert again == CreateQuery(stream.name, query)
    assert list(again.query.box) == list(query.box)


@pytest.mark.parametrize("kind", [Border, Range])
@given(st.data())
def test_queries_of_the_shared_strategy_read_back_equal(kind, data):
    stream = data.draw(strategies.streams())
    query = data.draw(strategies.queries(kind, "q", stream))
    again = read_statement(print_query(query, stream), stream_of={"s": stream}.__getitem__)
    assert again == CreateQuery("s", query)


@given(any_streams() | strategies.streams())
def test_streams_read_back_equal(stream):
    assert read_statement(print_stream(stream), stream_of=stream_of) == CreateStream(stream)


@given(st.floats(allow_nan=False))
@example(2.0**-24)  # whose 16 digits are a tie: printing as short as can be rounds it up
@example(2.0**-44)
def test_numbers_read_back_equal(number):
    query = Range("q", {"price": Interval(number, number, "both")})
    again = read_statement(print_query(query, TRADES), stream_of=stream_of)
    assert again.query == query
    text = (
        f"CREATE STANDING QUERY q AS SELECT * FROM trades WHERE price = {number:.17g} EMIT MATCHES"
    )
    if "inf" not in text:
        assert read_statement(text, stream_of=stream_of).query == query


OPERATORS = {"=": eq, "<": lt, "<=": le, ">": gt, ">=": ge}


@st.composite
def comparisons(draw):
    """Return a comparison in SQL, and the same as a function of the price; None is unknown."""
    number = draw(st.sampled_from([-math.inf, -1.0, 0.0, 1.0, 2.5, math.inf]))
    text = str(number).replace("inf", "INFINITY")
    sign, compare = draw(st.sampled_from(list(OPERATORS.items())))
    if draw(st.booleans()):
        return f"{text} {sign} price", of_known(lambda price: compare(number, price))
    if draw(st.booleans()):
        return f"price BETWEEN {text} AND 2.5", of_known(lambda price: number <= price <= 2.5)
    if draw(st.integers(0, 5)) == 0:
        return "price IS NOT NULL", lambda price: price is not None
    return f"price {sign} {text}", of_known(lambda price: compare(price, number))


def of_known(condition):
    return lambda price: None if price is None else condition(price)


def larger(conditions):
    def negate(one):
        return f"NOT {one[0]}", lambda price: {True: False, False: True}.get(one[1](price))

    def test(one, form):
        wanted = form.endswith("TRUE")
        negative = form.startswith("NOT")
        return f"({one[0]}) IS {form}", lambda price: (one[1](price) is wanted) is not negative

    def both(one, other):
        def holds(price):
            sides = one[1](price), other[1](price)
            return False if False in sides else None if None in sides else True

        return f"({one[0]} AND {other[0]})", holds

    forms = st.sampled_from(["TRUE", "NOT FALSE", "FALSE", "NOT TRUE"])
    return (
        conditions.map(negate)
        | st.builds(test, conditions, forms)
        | st.builds(both, conditions, conditions)
    )


PRICES = [-math.inf, -1.5, -1.0, -0.0, 5e-324, 0.5, 1.0, 2.0, 2.5, 3.0, 1e308, math.inf]


@given(st.recursive(comparisons(), larger, max_leaves=5))
def test_conditions_mean_what_they_say(condition):
    sql, inside = condition
    text = f"CREATE STANDING QUERY q AS SELECT * FROM trades WHERE {sql} EMIT MATCHES"
    try:
        box = read_statement(text, stream_of=stream_of).query.box
    except InvalidSqlError as error:
        refusal = str(error)
    else:
        assert [box.contains({"price": p}) for p in PRICES] == [inside(p) for p in PRICES]
        assert box  # an event that lacks the price is not seen
        assert inside(None) is not True
        return
    if "unknown too" in refusal:
        return
    if "not one range" not in refusal:
        assert "holds no value" in refusal
        assert not any(map(inside, PRICES))


RANKED = "CREATE STANDING QUERY q AS SELECT QUANTILE(price, 0.5, 0.01) FROM trades "


def read_or_refuse(text):
    """Read a text; if it is refused, the message must have a place and be printable."""
    try:
        read_sql(text, stream_of=stream_of)
    except InvalidSqlError as error:
        refusal = error
    else:
        return
    assert refusal.line >= 1
    assert refusal.column >= 1
    str(refusal).encode()


@given(st.text())
@example("\0")
@example("\ud800'")
@example("'")
@example("/*")
@example(":")
@example("1e")
def test_any_text_is_read_or_refused(text):
    read_or_refuse(text)
    read_or_refuse("CREATE STANDING QUERY q AS SELECT * FROM trades WHERE " + text)
    read_or_refuse(RANKED + text)


TOKENS = sorted({token.text for tokens in scan_statements("".join(STATEMENTS)) for token in tokens})


@given(
    st.lists(st.sampled_from([*TOKENS, ":p", "OR", "UNBOUNDED", "IS", "NULL", "."]), max_size=30)
)
def test_any_tokens_are_read_or_refused(tokens):
    read_or_refuse(" ".join(tokens))
    read_or_refuse("CREATE STANDING QUERY q AS SELECT * FROM trades WHERE " + " ".join(tokens))
    read_or_refuse("CREATE STANDING QUERY q AS SELECT QUANTILE(" + " ".join(tokens))
    read_or_refuse(RANKED + " ".join(tokens))


@given(st.sampled_from(STATEMENTS), st.data())
def test_mutations_are_read_or_refused(text, data):
    for _ in range(data.draw(st.integers(1, 3))):
        begin = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(begin, min(len(text), begin + 8)))
        inserted = st.text(max_size=2) | st.sampled_from(["\0", "\ud800", "🎈", "'", '"', *TOKENS])
        text = text[:begin] + data.draw(inserted) + text[end:]
    read_or_refuse(text)


def sqlglot_tokens(text):
    """Return the tokens that sqlglot finds, with its keywords switched off."""

    class Plain(Tokenizer):
        KEYWORDS = dict.fromkeys(["<=", ">=", "<>", "!=", "==", "||"], TokenType.EQ)
        COMMANDS = set()  # noqa: RUF012

    return [(token.text, token.start) for token in Plain().tokenize(text)]


@pytest.mark.parametrize("text", STATEMENTS)
def test_tokens_are_those_of_sqlglot(text):
    ours = [
        (token.value() if token.text != ";" else ";", token.start)
        for tokens in scan_statements(text)
        for token in tokens
        if token.text
    ]
    assert ours == sqlglot_tokens(text)


@given(st.data())
def test_tokens_of_printed_queries_are_those_of_sqlglot(data):
    stream = data.draw(strategies.streams())
    text = print_query(data.draw(any_queries(stream)), stream)
    [tokens] = scan_statements(text)
    assert not any(token.kind == PARAMETER for token in tokens)
    assert [(token.value(), token.start) for token in tokens] == sqlglot_tokens(text)


WHERE = "CREATE STANDING QUERY q AS SELECT * FROM trades WHERE "


@pytest.mark.parametrize(
    ("head", "repeated", "tail"),
    [
        ("", "(", ""),
        ("'", "''", ""),
        ("'", "x", ""),
        ("", "/*", ""),
        ("", "/**/", "x"),
        ("", "-", ""),
        ("", "\n", "x"),
        ("", ";", "x"),
        ("", "1", ""),
        ("", "x", ""),
        ("", "1a", ""),
        (WHERE + "price < ", "9", ""),
        (WHERE, "NOT ", ""),
        (WHERE + "TRUE", " AND price < 1", ""),
        ("DROP STANDING QUERY '", "''", "'"),
        ("CREATE STANDING QUERY q AS SELECT ", "QUANTILE(price, 0.5, 0.01), ", ""),
    ],
)
def test_ten_megabytes_do_not_hang(head, repeated, tail):
    text = head + repeated * (10_000_000 // len(repeated)) + tail
    begin = time.process_time()
    read_or_refuse(text)
    assert time.process_time() - begin < 10
