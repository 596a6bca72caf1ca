"""``CREATE STREAM`` and ``ALTER STREAM``: columns, their roles, and options."""

from __future__ import annotations

from typing import Any

from everquery.errors import InvalidStreamError
from everquery.queries.sql.cursor import Cursor
from everquery.queries.sql.scanner import NUMBER, Token
from everquery.stream import ALL, ALTERABLE, Span, Stream

INTEGERS = ("BIGINT", "INT", "INTEGER", "SMALLINT", "TINYINT")
NUMBERS = (*INTEGERS, "DOUBLE", "FLOAT", "REAL", "DECIMAL", "NUMERIC")
TEXTS = ("TEXT", "VARCHAR", "CHAR", "STRING")
TIMES = ("TIMESTAMP", "TIMESTAMPTZ", "DATETIME", "DATE")

# Which types a column in a role may have. Streams keep the role; the events bring the type.
ROLES = {
    "KEY": (*TEXTS, *INTEGERS),
    "TIME": (*TIMES, *NUMBERS),
    "WEIGHT": INTEGERS,
    "ATTRIBUTE": NUMBERS,
}


def read_stream(cursor: Cursor) -> Stream:
    """Read what follows ``CREATE STREAM``."""
    place = cursor.token
    name = cursor.name("the name of a stream")
    attributes: list[str] = []
    single: dict[str, Any] = {}
    seen: set[str] = set()
    cursor.expect("(")
    while True:
        _read_column(cursor, attributes, single, seen)
        if cursor.accept(")"):
            break
        if not cursor.accept(","):
            cursor.fail_expected([*ROLES, ",", ")"])
    if cursor.accept("WITH"):
        single.update(_read_spans(cursor))
    try:
        return Stream(name, attributes=attributes, **single)
    except InvalidStreamError as error:
        raise cursor.error(str(error), place) from None


def _read_column(
    cursor: Cursor, attributes: list[str], single: dict[str, Any], seen: set[str]
) -> None:
    place = cursor.token
    column = cursor.name("a column")
    if column in seen:
        cursor.fail(f"column {column!r} is named twice", place)
    seen.add(column)
    type_token = cursor.token
    _read_type(cursor)
    roles = []
    while cursor.token.word in ROLES:
        role = cursor.token.word
        if role.lower() in single:
            cursor.fail(f"{role} is {single[role.lower()]!r} already")
        if role == "ATTRIBUTE":
            attributes.append(column)
        else:
            single[role.lower()] = column
        roles.append(role)
        cursor.next()
    if not roles:
        attributes.append(column)
    for role in roles or ["ATTRIBUTE"]:
        _check_type(cursor, column, type_token, role, given=bool(roles))


def _check_type(cursor: Cursor, column: str, token: Token, role: str, *, given: bool) -> None:
    if token.word in ROLES[role]:
        return
    what = "a column without role is an attribute, which" if not given else f"{role}"
    cursor.fail(
        f"column {column!r} has type {token.word}; {what} takes {', '.join(ROLES[role][:4])}, ...",
        token,
    )


def _read_type(cursor: Cursor) -> None:
    """Read a type's name, with what may follow it in other systems' definitions."""
    word = cursor.choose(dict.fromkeys((*TEXTS, *TIMES, *NUMBERS)))
    if word == "DOUBLE":
        cursor.accept("PRECISION")
    if cursor.accept("("):
        while True:
            if cursor.token.kind != NUMBER:
                cursor.fail_expected([], "a number")
            cursor.next()
            if not cursor.accept(","):
                break
        cursor.expect(")")
    if word == "TIMESTAMP" and cursor.token.word in ("WITH", "WITHOUT"):
        cursor.next()
        cursor.expect("TIME", "ZONE")


def read_alteration(cursor: Cursor) -> tuple[dict[str, Span | None], list[str]]:
    """Read what follows ``ALTER STREAM name``: spans, and new attributes."""
    spans: dict[str, Span | None] = {}
    attributes: list[str] = []
    while True:
        if cursor.choose(("SET", "ADD")) == "SET":
            place = cursor.token
            more = _read_spans(cursor, or_null=True)
            for name in spans.keys() & more.keys():
                cursor.fail(f"{name} is given twice", place)
            spans |= more
        else:
            cursor.accept("COLUMN")
            _read_attribute(cursor, attributes)
        if not cursor.accept(","):
            return spans, attributes


def _read_attribute(cursor: Cursor, attributes: list[str]) -> None:
    """Read a new column, which is an attribute."""
    place = cursor.token
    single: dict[str, Any] = {}
    _read_column(cursor, attributes, single, set())
    for role in single:
        cursor.fail(f"a new column is an attribute, and can't be the {role} of a stream", place)


def _read_spans(cursor: Cursor, *, or_null: bool = False) -> dict[str, Any]:
    options: dict[str, Any] = {}
    cursor.expect("(")
    while True:
        name = cursor.token.text.lower()
        if name in options:
            cursor.fail(f"{name} is given twice")
        cursor.choose([span.upper() for span in ALTERABLE])
        cursor.expect("=")
        if or_null and cursor.accept("NULL"):
            options[name] = None
        elif name == "keep" and cursor.accept("ALL"):
            options[name] = ALL
        else:
            options[name] = cursor.span()
        if not cursor.accept(","):
            break
    if not cursor.accept(")"):
        cursor.fail_expected([",", ")"])
    return options
