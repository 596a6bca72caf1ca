"""What a query selects and tells: the part of SQL that differs between kinds, which are asked."""

from __future__ import annotations

from typing import Any, NoReturn

from everquery.queries.known import KNOWN, Known
from everquery.queries.spec import Query
from everquery.queries.sql.clause import Clause, read_box
from everquery.queries.sql.cursor import Cursor
from everquery.queries.sql.errors import nearest
from everquery.queries.sql.groups import read_group
from everquery.queries.sql.options import options_of, print_options, read_options
from everquery.stream import Stream


def marked_kind(cursor: Cursor) -> Known | None:
    """Return the kind whose mark the rest of the statement has."""
    for known in KNOWN.values():
        if known.clause.mark is not None and cursor.has_ahead(known.clause.mark):
            return known
    return None


def marked_shape() -> str:
    """Return what statements have that are about columns, or about two streams."""
    return " or ".join(each.clause.shape for each in KNOWN.values() if each.clause.mark)


def read_selection(cursor: Cursor) -> tuple[Clause | None, Any]:
    """Read what follows ``SELECT``; return the clause of the kind that is selected, and what of it.

    The clause is None for ``*``, which several kinds share.
    """
    if cursor.accept("*"):
        return None, None
    selecting = {
        word: each.clause
        for each in KNOWN.values()
        if each.clause.selects
        for word in (each.clause.selects, *each.clause.selects_too)
    }
    clause = selecting.get(cursor.token.word)
    if clause is None:
        why = nearest(cursor.token.text, selecting) or (
            f": notices carry all attributes; an answer over columns takes {marked_shape()}"
        )
        cursor.fail(f"expected {' or '.join(['*', *selecting])}, found {cursor.token}{why}")
    cursor.selection = clause.read_selection(cursor)
    return clause, cursor.selection


def read_scope(
    cursor: Cursor,
    stream: Stream,
    clause: Clause | None,
    selection: Any,  # noqa: ANN401 - as the kind has it
) -> dict[str, Any]:
    """Read from behind the stream's name to before ``EMIT``; return fields of the spec."""
    if clause is not None:
        return clause.read_scope(cursor, stream, selection)
    expected = ["AND" if cursor.token.word == "WHERE" else "WHERE", "GROUP", "EMIT"]
    fields = read_box(cursor, stream)
    if cursor.token.word == "GROUP":
        fields["by_key"] = read_group(cursor, stream, fields["key"], "totals")
        expected = ["EMIT"]
    if cursor.token.word != "EMIT":
        _refuse_scope(cursor, expected)
    return fields


def _refuse_scope(cursor: Cursor, expected: list[str]) -> NoReturn:
    for known in KNOWN.values():
        if cursor.token.word in known.clause.scopes:
            cursor.fail(
                f"{cursor.token} is not possible: only SELECT {known.clause.selects}(...) is over a"
                " window"
            )
    cursor.fail_expected(expected)


def read_emit(
    cursor: Cursor, stream: Stream, selecting: Clause | None, *, grouped: bool = False
) -> tuple[type[Query], dict[str, Any]]:
    """Read from ``EMIT`` to the statement's end; return the spec and its fields.

    `selecting` is the clause of what is selected, None for ``*``; with `grouped`, there was a
    ``GROUP BY``.
    """
    cursor.expect("EMIT")
    selects = None if selecting is None else selecting.selects
    first = cursor.token.word
    able = sorted(KNOWN.values(), key=lambda each: each.clause.selects != selects)
    known = next((each for each in able if first in each.clause.words), None)
    if known is None or known.clause.selects != selects:
        clauses = (each.clause for each in able if each.clause.selects == selects)
        words = [word for clause in clauses for word in clause.words]
        if known is None:
            cursor.fail_expected(words)
        cursor.fail(
            f"SELECT {_shown(selects)} takes EMIT {' or '.join(', '.join(words).rsplit(', ', 1))};"
            f" {cursor.token} needs SELECT {_shown(known.clause.selects)}"
        )
    if grouped and selecting is None and not known.clause.groups:
        grouping = (each.clause for each in KNOWN.values() if each.clause.groups)
        named = ", ".join(word for clause in grouping for word in clause.words)
        cursor.fail(f"EMIT {cursor.token} takes no GROUP BY; only EMIT {named} does")
    fields = known.clause.read(cursor, stream)
    if cursor.accept("WITH"):
        read_options(cursor, known.spec, fields)
    return known.spec, fields


def _shown(selects: str | None) -> str:
    return "*" if selects is None else f"{selects}(...)"


def print_emit(query: Query, stream: Stream) -> str:
    """Return a query's ``EMIT`` and ``WITH``."""
    return f"EMIT {clause_of(query).print(query, stream)}{print_options(query)}"


def clause_of(query: Query) -> Clause:
    """Return the clause of a query's kind."""
    return KNOWN[query.kind].clause


def words_of(known: Known) -> tuple[str, ...]:
    """Return all words of a kind's part of a statement, for completion."""
    clause = known.clause
    selects = () if clause.selects is None else (clause.selects, *clause.selects_too)
    options = (name.upper() for name in options_of(known.spec))
    marks = () if clause.mark is None else (clause.mark,)
    return (*selects, *marks, *clause.scopes, *clause.words, *clause.further, *options)
