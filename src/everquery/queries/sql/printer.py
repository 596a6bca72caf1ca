"""Specs as SQL that reads back equal."""

from __future__ import annotations

from everquery.queries.block import check_fit
from everquery.queries.interval import Interval
from everquery.queries.spec import Query
from everquery.queries.sql.emit import clause_of, print_emit
from everquery.queries.sql.literals import print_number, print_span
from everquery.queries.sql.quotes import print_name, print_string
from everquery.stream import ALL, ALTERABLE, Stream


def print_query(query: Query, stream: Stream) -> str:
    """Return the statement that creates a query on a stream.

    Raises
    ------
    InvalidQueryError
        If the query does not fit the stream.

    Examples
    --------
    >>> import everquery as eq
    >>> trades = Stream("trades", key="symbol", attributes=["price"])
    >>> print(print_query(eq.Border("band", {"price": (40, 50)}, key="IBM"), trades))
    CREATE STANDING QUERY band AS
    SELECT * FROM trades WHERE symbol = 'IBM' AND price >= 40 AND price < 50
    EMIT ENTER, LEAVE;
    """
    check_fit(query, stream)
    clause = clause_of(query)
    whole = clause.print_statement(query, stream)
    if whole is not None:
        return f"CREATE STANDING QUERY {print_name(query.id)} AS\n{whole};"
    selected, scope = clause.print_selection(query), clause.print_scope(query, stream)
    conditions = []
    if stream.key is not None and query.key is not None:
        key = print_string(query.key) if isinstance(query.key, str) else str(query.key)
        conditions.append(f"{print_name(stream.key)} = {key}")
    if query.boxed:
        for attribute, interval in query.said_box.items():
            conditions.append(print_interval(print_name(attribute), interval))
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return (
        f"CREATE STANDING QUERY {print_name(query.id)} AS\n"
        f"SELECT {selected} FROM {print_name(stream.name)}{where}{scope}\n"
        f"{print_emit(query, stream)};"
    )


def print_interval(column: str, interval: Interval) -> str:
    """Return the condition that a column is in an interval.

    A side without limit is left out if it is closed as in ``[lo, hi)``, and else is ``UNBOUNDED``,
    so that the interval reads back equal and not only as the same set.
    """
    low, high, closed = interval.lo, interval.hi, interval.closed
    if closed == "both" and low is not None and high is not None:
        if low == high:
            return f"{column} = {print_number(low)}"
        return f"{column} BETWEEN {print_number(low)} AND {print_number(high)}"
    parts = []
    left, right = closed in ("left", "both"), closed in ("right", "both")
    if low is not None or not left:
        parts.append(f"{column} {'>=' if left else '>'} {_print_end(low)}")
    if high is not None or right:
        parts.append(f"{column} {'<=' if right else '<'} {_print_end(high)}")
    return " AND ".join(parts) or f"{column} >= UNBOUNDED"


def _print_end(end: float | None) -> str:
    return "UNBOUNDED" if end is None else print_number(end)


def print_stream(stream: Stream) -> str:
    """Return the statement that creates a stream.

    Types are those that suit the roles; a stream does not know its columns' types.

    Examples
    --------
    >>> trades = Stream("trades", key="symbol", time="ts", attributes=["price"], grace=5)
    >>> print(print_stream(trades))
    CREATE STREAM trades (
      symbol TEXT KEY,
      ts TIMESTAMP TIME,
      price DOUBLE
    ) WITH (grace = 5);
    """
    columns = []
    for name in stream.columns():
        roles = [role for role in ("key", "time", "weight") if getattr(stream, role) == name]
        if "weight" in roles:
            words = "BIGINT"
            roles += ["attribute"] if name in stream.attributes else []
        else:
            words = {"key": "TEXT", "time": "TIMESTAMP"}.get(roles[0] if roles else "", "DOUBLE")
        columns.append(" ".join([print_name(name), words, *(role.upper() for role in roles)]))
    spans = [
        f"{name} = {ALL if getattr(stream, name) == ALL else print_span(getattr(stream, name))}"
        for name in ALTERABLE
        if getattr(stream, name) is not None
    ]
    options = f" WITH ({', '.join(spans)})" if spans else ""
    body = ",\n  ".join(columns)
    return f"CREATE STREAM {print_name(stream.name)} (\n  {body}\n){options};"
