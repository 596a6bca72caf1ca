"""The condition of a query: what of ``WHERE`` reduces to one box and one key.

A condition is read as a conjunction: a list of comparisons that all hold. That is all a box can
say, so whatever is not one (``OR``, ``IN``, ``<>``, ...) is refused where it stands.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, NoReturn

from everquery.errors import InvalidQueryError
from everquery.queries.interval import Interval, exact_float
from everquery.queries.sql.bounds import Bounds
from everquery.queries.sql.cursor import Cursor, Number
from everquery.queries.sql.errors import nearest
from everquery.queries.sql.scanner import PARAMETER, QUOTED, WORD, Token
from everquery.stream import Stream

DEEPEST = 64  # parentheses and NOTs around each other

FLIPPED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}
NEVER = "never"
IS_NULL = "is null"

ARITHMETIC = ("+", "-", "*", "/", "%", "||")
INSTEAD = {
    "<>": "it leaves two ranges; register one query for each, with < and with >",
    "!=": "it leaves two ranges; register one query for each, with < and with >",
    "IN": "a query is one box; register one query for each value",
    "LIKE": "keys are compared with =, attributes with =, <, <=, >, >= and BETWEEN",
    "NOT": "NOT BETWEEN and NOT IN leave several ranges; register one query for each",
    "==": "write a single =",
    **dict.fromkeys(ARITHMETIC, "compare the column itself with a number"),
}


class Comparison(NamedTuple):
    """A column compared with a value, or what is never true; the token is for messages.

    Attributes
    ----------
    certain : bool
        Whether it is false, and not unknown, where the value of the column is unknown.
    """

    column: str
    operator: str
    value: Number | str | None
    token: Token
    certain: bool = False


def read_condition(cursor: Cursor, stream: Stream) -> tuple[dict[str, Interval], str | int | None]:
    """Read what follows ``WHERE``; return the ranges by attribute and the key."""
    bounds: dict[str, Bounds] = {}
    ranges: dict[str, Interval] = {}
    key: str | int | None = None
    for comparison in _read_comparisons(cursor, stream):
        column, operator, value, token, _ = comparison
        if column == stream.key:
            key = _narrow_key(cursor, comparison, key)
            continue
        narrowed = bounds.setdefault(column, Bounds())
        try:
            narrowed.keep(operator, None if value is None else exact_float(value, column))
            ranges[column] = narrowed.interval()
        except InvalidQueryError as error:
            cursor.fail(f"{column}: {error}", token)
    return ranges, key


def read_key(cursor: Cursor, stream: Stream, why: str, known: str) -> str | int | None:
    """Read what follows ``WHERE`` where no attribute may be restricted; return the key.

    `why` says what a query of this kind is about: "it is over all events of its key"; that `known`
    is not null may be said, as such a query sees no other events.
    """
    key: str | int | None = None
    for comparison in _read_comparisons(cursor, stream):
        if comparison.column == known and comparison.value is None:
            continue
        if comparison.column != stream.key:
            instead = f"compare {stream.key} only" if stream.key else "leave the condition out"
            cursor.fail(
                f"{why}, so {comparison.column} can't be restricted; {instead}",
                comparison.token,
            )
        key = _narrow_key(cursor, comparison, key)
    return key


def _read_comparisons(cursor: Cursor, stream: Stream) -> Iterator[Comparison]:
    """Yield what must hold of columns; refuse what never does."""
    for comparison in _read_conjunction(cursor, stream, 0):
        if comparison.operator == NEVER:
            place = comparison.token
            cursor.fail("the condition is never true; the query could never match", place)
        if comparison.operator == IS_NULL:
            cursor.fail(
                "IS NULL is not possible: a query is a box, and an event that lacks the value is"
                " in none that restricts it",
                comparison.token,
            )
        yield comparison


def _narrow_key(cursor: Cursor, comparison: Comparison, key: str | int | None) -> str | int:
    column, operator, value, token, _ = comparison
    if operator != "=":
        cursor.fail(f"{column} is the key, which is compared with = only; found {operator}", token)
    if isinstance(value, float) or value is None:
        cursor.fail(f"{column} is the key; a key is a string or an integer", token)
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        cursor.fail(f"{column} is the key; {value} is no 64-bit integer", token)
    if key is not None and key != value:
        cursor.fail(
            f"{column} can't be {key!r} and {value!r} at once; register one query for each key",
            token,
        )
    return value


def _read_conjunction(cursor: Cursor, stream: Stream, depth: int) -> list[Comparison]:
    terms = _read_term(cursor, stream, depth)
    while cursor.accept("AND"):
        terms += _read_term(cursor, stream, depth)
    if cursor.token.word in ("OR", "XOR"):
        on_key = bool(terms) and terms[-1].column == stream.key
        each = "register one query for each key" if on_key else "register one query for each side"
        cursor.fail(f"{cursor.token.word} is not possible: a query is one box; {each}")
    return terms


def _read_term(cursor: Cursor, stream: Stream, depth: int) -> list[Comparison]:
    """Read a comparison, TRUE, NOT or parentheses, with what IS says of it."""
    token = cursor.token
    if depth > DEEPEST:
        cursor.fail(f"nested too deeply: more than {DEEPEST} parentheses or NOTs")
    if cursor.accept("NOT"):
        return _negated(cursor, _read_term(cursor, stream, depth + 1), token)
    if cursor.accept("("):
        terms = _read_conjunction(cursor, stream, depth + 1)
        if not cursor.accept(")"):
            cursor.fail_expected(["AND", ")"])
    elif cursor.accept("TRUE"):
        terms = []
    elif cursor.accept("FALSE"):
        terms = [Comparison("", NEVER, None, token, certain=True)]
    else:
        terms = _read_comparison(cursor, stream)
    while cursor.accept("IS"):
        negative = cursor.accept("NOT")
        wanted = cursor.choose(("TRUE", "FALSE")) == "TRUE"
        terms = _asserted(cursor, terms, token, wanted=wanted, negative=negative)
    return terms


def _asserted(
    cursor: Cursor, terms: list[Comparison], token: Token, *, wanted: bool, negative: bool
) -> list[Comparison]:
    """Return what ``IS [NOT] TRUE`` or ``FALSE`` makes of terms: it is never unknown."""
    if negative and not wanted and not all(term.certain for term in terms):
        _refuse_unknown(cursor, terms, token)
    if not negative and not wanted:
        terms = _negated(cursor, terms, token)
    terms = [term._replace(certain=True) for term in terms]
    return _negated(cursor, terms, token) if negative and wanted else terms


def _refuse_unknown(cursor: Cursor, terms: list[Comparison], token: Token) -> NoReturn:
    column = next((term.column for term in terms if term.column), "a value")
    cursor.fail(
        f"this holds where {column} is unknown too, and a query is a box; leave IS out, and write"
        " NOT (...) for the opposite",
        token,
    )


def _negated(cursor: Cursor, terms: list[Comparison], token: Token) -> list[Comparison]:
    """Return the opposite; where a value is unknown, so it is."""
    if not terms:
        return [Comparison("", NEVER, None, token, certain=True)]
    column, operator, value, at, certain = terms[0]
    if len(terms) == 1 and operator == NEVER:
        return []
    if len(terms) == 1 and operator == IS_NULL:
        return [terms[0]._replace(operator=">=")]
    if certain and len(terms) == 1 and operator in NEGATED:
        _refuse_unknown(cursor, terms, token)
    if len(terms) > 1 or operator not in NEGATED or value is None:
        cursor.fail(
            "the opposite of this is not one range; only a single <, <=, > or >= can be negated."
            " Register one query for each range",
            token,
        )
    return [Comparison(column, NEGATED[operator], value, at)]


def _read_comparison(cursor: Cursor, stream: Stream) -> list[Comparison]:
    token = cursor.token
    if cursor.at_value():
        value = cursor.value()
        operator = _read_operator(cursor)
        if cursor.at_value():
            cursor.fail("expected a column; to compare two values does nothing, write TRUE")
        place = cursor.token
        column = _read_column(cursor, stream)
        _check_value(cursor, stream, column, value, token)
        if cursor.token.word in FLIPPED:
            cursor.fail("one comparison at a time; join two with AND")
        return [Comparison(column, FLIPPED[operator], value, place, column == stream.key)]
    column = _read_column(cursor, stream)
    if cursor.accept("BETWEEN"):
        low = _read_bound(cursor, stream, column)
        cursor.expect("AND")
        high = _read_bound(cursor, stream, column)
        return [Comparison(column, ">=", low, token), Comparison(column, "<=", high, token)]
    if cursor.token.word == "IS":
        return _read_null_test(cursor, stream, column, token)
    operator = _read_operator(cursor, on_key=column == stream.key)
    bound = _read_bound(cursor, stream, column, unbounded=operator != "=")
    if cursor.token.word in FLIPPED:
        cursor.fail("one comparison at a time; join two with AND")
    return [Comparison(column, operator, bound, token, column == stream.key)]


def _read_null_test(cursor: Cursor, stream: Stream, column: str, token: Token) -> list[Comparison]:
    """Read ``IS [NOT] NULL``; an event without key never reaches a query."""
    cursor.expect("IS")
    negative = cursor.accept("NOT")
    if not cursor.accept("NULL"):
        cursor.fail_expected(["NULL"], f"NULL ({column} is a column, not a condition)")
    if column == stream.key:
        return [] if negative else [Comparison("", NEVER, None, token, certain=True)]
    return [Comparison(column, ">=" if negative else IS_NULL, None, token, certain=True)]


def _read_operator(cursor: Cursor, *, on_key: bool = False) -> str:
    word = cursor.token.word
    if word not in FLIPPED:
        if word not in INSTEAD:
            cursor.fail_expected([*FLIPPED, "BETWEEN"])
        reason = INSTEAD[word]
        if on_key and word in ("IN", "<>", "!="):
            reason = "a query has one key or all; register one query for each key"
        cursor.fail(f"{word} is not possible: {reason}")
    cursor.next()
    return word


def _read_bound(
    cursor: Cursor, stream: Stream, column: str, *, unbounded: bool = True
) -> Number | str | None:
    """Read what a column is compared with; None is ``UNBOUNDED``, no limit on that side."""
    token = cursor.token
    if unbounded and column != stream.key and cursor.accept("UNBOUNDED"):
        return None
    if not cursor.at_value():
        _refuse_operand(cursor)
    value = cursor.value()
    _check_value(cursor, stream, column, value, token)
    if cursor.token.word in ARITHMETIC:
        cursor.fail(f"{cursor.token.word} is not possible: write the result as one number")
    return value


def _refuse_operand(cursor: Cursor) -> NoReturn:
    token = cursor.token
    if token.kind == QUOTED:
        cursor.fail(f"expected a value, found the name {token}; strings take single quotes")
    if token.kind == WORD and token.word != "SELECT" and cursor.peek().word == "(":
        cursor.fail(f"{token} is not possible: a condition has no functions")
    if token.word == "NULL":
        cursor.fail("nothing compares with NULL; an event that lacks a value is not seen anyway")
    if token.kind == WORD:
        cursor.fail(
            f"expected a value, found {token}: a column is compared with a number, a 'string' or"
            f" a :parameter{nearest(token.text, ['INFINITY', 'UNBOUNDED'])}"
        )
    cursor.fail_expected([], "a number, a 'string' or a :parameter")


def _check_value(
    cursor: Cursor, stream: Stream, column: str, value: Number | str, token: Token
) -> None:
    if isinstance(value, str):
        if column != stream.key:
            named = f"{token.text} is {value!r}" if token.kind == PARAMETER else f"found {token}"
            cursor.fail(f"expected a number, since {column} is one; {named}", token)
    elif column != stream.key:
        try:
            exact_float(value, "the number")
        except InvalidQueryError as error:
            cursor.fail(str(error), token)


def _read_column(cursor: Cursor, stream: Stream) -> str:
    token = cursor.token
    if token.kind == WORD and cursor.peek().word == "(":
        cursor.fail(f"{token} is not possible: a condition has no functions")
    if token.kind not in (WORD, QUOTED) or token.word == "EMIT":
        cursor.fail_expected([], "a condition, for example price < 50")
    column = cursor.next().value()
    if column == stream.name and cursor.accept("."):
        token = cursor.token
        column = cursor.name("a column")
    if column != stream.key and column not in stream.attributes:
        _refuse_column(cursor, stream, column, token)
    return column


def _refuse_column(cursor: Cursor, stream: Stream, column: str, token: Token) -> NoReturn:
    if column in (stream.time, stream.weight):
        role = "time" if column == stream.time else "weight"
        cursor.fail(f"{column} is the {role}; conditions are on attributes and the key", token)
    columns = [*([stream.key] if stream.key else []), *stream.attributes]
    cursor.fail(
        f"stream {stream.name!r} has no attribute {column!r}{nearest(column, columns)}"
        f" (it has {', '.join(columns) or 'none'})",
        token,
    )
