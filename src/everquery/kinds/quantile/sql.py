"""``SELECT QUANTILE(...)``: the ranks that are asked for, and the values they are among."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from everquery.kinds.quantile.spec import EPSILON, LAST, PHI, Quantile, bad_window
from everquery.kinds.told_values_sql import VALUE_WORDS, print_told, read_told
from everquery.queries.sql.clause import Clause
from everquery.queries.sql.conditions import read_key
from everquery.queries.sql.cursor import Cursor
from everquery.queries.sql.errors import nearest
from everquery.queries.sql.groups import print_group, read_group
from everquery.queries.sql.literals import print_number
from everquery.queries.sql.options import read_number
from everquery.queries.sql.quotes import print_name
from everquery.queries.sql.scanner import Token
from everquery.stream import Stream

QUANTILE = "QUANTILE"
ABOUT = "a quantile is over all events of its key"


class Selection(NamedTuple):
    """What the calls of ``QUANTILE`` say together; the token is that of the attribute."""

    attribute: str
    token: Token
    phi: tuple[float, ...]
    epsilon: float


class QuantileClause(Clause):
    """``SELECT QUANTILE(price, 0.99, 0.005) FROM trades OVER LAST 500 ROWS EMIT CHANGES``."""

    words = ("CHANGES", "ENTER", "LEAVE")
    further = ("BY", "LAST", "ROWS", *VALUE_WORDS)
    selects = QUANTILE
    scopes = ("GROUP", "OVER")

    def read(self, cursor: Cursor, stream: Stream) -> dict[str, Any]:
        """Read which values are told."""
        return read_told(cursor)

    def print(self, query: Quantile, stream: Stream) -> str:
        """Return what follows ``EMIT``."""
        assert not isinstance(query.when, tuple)
        return print_told(query.when, query.by)

    def read_selection(self, cursor: Cursor) -> Selection:
        """Read ``QUANTILE(attribute, phi, epsilon)``, several with commas between them."""
        return read_selection(cursor)

    def read_scope(self, cursor: Cursor, stream: Stream, selection: Selection) -> dict[str, Any]:
        """Read the condition on the key, the group and the window."""
        return read_scope(cursor, stream, selection)

    def print_selection(self, query: Quantile) -> str:
        """Return a call for each rank."""
        return print_selection(query)

    def print_scope(self, query: Quantile, stream: Stream) -> str:
        """Return the group and the window."""
        return print_scope(query, stream)


def read_selection(cursor: Cursor) -> Selection:
    """Read ``QUANTILE(attribute, phi, epsilon)``, several with commas between them."""
    first = _read_call(cursor, None)
    phi = dict.fromkeys(first.phi)
    while cursor.accept(","):
        place = cursor.token
        (another,) = _read_call(cursor, first).phi
        if another in phi:
            cursor.fail(f"{print_number(another)} is asked for twice; give each rank once", place)
        phi[another] = None
    return first._replace(phi=tuple(phi))


def _read_call(cursor: Cursor, first: Selection | None) -> Selection:
    """Read one call, which must agree with the first."""
    cursor.expect(QUANTILE, "(")
    token = cursor.token
    attribute = cursor.name("an attribute")
    if first is not None and attribute != first.attribute:
        cursor.fail(
            f"the quantiles of a query are of one attribute, here {first.attribute!r}; register"
            " one query for each",
            token,
        )
    cursor.expect(",")
    phi = float(read_number(cursor, PHI))
    cursor.expect(",")
    place = cursor.token
    epsilon = float(read_number(cursor, EPSILON))
    if first is not None and epsilon != first.epsilon:
        cursor.fail(
            f"the quantiles of a query have one epsilon, here {print_number(first.epsilon)};"
            " register one query for each",
            place,
        )
    cursor.expect(")")
    return Selection(attribute, token, (phi,), epsilon)


def read_scope(cursor: Cursor, stream: Stream, selection: Selection) -> dict[str, Any]:
    """Read from behind the stream's name to before ``EMIT``; return all fields of the spec."""
    if selection.attribute not in stream.attributes:
        cursor.fail(
            f"stream {stream.name!r} has no attribute {selection.attribute!r}"
            f"{nearest(selection.attribute, stream.attributes)}"
            f" (it has {', '.join(stream.attributes) or 'none'})",
            selection.token,
        )
    fields: dict[str, Any] = {
        "attribute": selection.attribute,
        "phi": selection.phi,
        "epsilon": selection.epsilon,
    }
    expected = ["WHERE", "GROUP", "OVER", "EMIT"]
    if cursor.accept("WHERE"):
        fields["key"] = read_key(cursor, stream, ABOUT, selection.attribute)
        expected[0] = "AND"
    if cursor.token.word == "GROUP":
        fields["by_key"] = read_group(cursor, stream, fields.get("key"), "quantiles")
        expected = ["OVER", "EMIT"]
    if cursor.accept("OVER"):
        fields["last"] = _read_window(cursor, selection.epsilon)
        expected = ["EMIT"]
    if cursor.token.word != "EMIT":
        cursor.fail_expected(expected)
    return fields


def _read_window(cursor: Cursor, epsilon: float) -> int:
    cursor.expect("LAST")
    place = cursor.token
    last = int(read_number(cursor, LAST))
    reason = bad_window(last, epsilon)
    if reason:
        cursor.fail(reason, place)
    cursor.expect("ROWS")
    return last


def print_selection(query: Quantile) -> str:
    """Return what stands between ``SELECT`` and ``FROM``."""
    several = query.phi if isinstance(query.phi, Sequence) else (query.phi,)
    name, epsilon = print_name(query.attribute), print_number(query.epsilon)
    return ", ".join(f"{QUANTILE}({name}, {print_number(phi)}, {epsilon})" for phi in several)


def print_scope(query: Quantile, stream: Stream) -> str:
    """Return the clauses that only a quantile has, each with a space before."""
    return print_group(query.by_key, stream) + (
        "" if query.last is None else f" OVER LAST {query.last} ROWS"
    )
