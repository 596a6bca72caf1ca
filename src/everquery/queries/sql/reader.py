"""From text to statements: one function a statement's head."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from everquery.errors import InvalidQueryError, InvalidStreamError, UnknownStreamError
from everquery.queries.begin import OLDEST, Begin, read_begin
from everquery.queries.labels import Labels
from everquery.queries.spec import LONGEST_ID, Query, bad_text
from everquery.queries.sql.cursor import Cursor
from everquery.queries.sql.emit import (
    marked_kind,
    marked_shape,
    read_emit,
    read_scope,
    read_selection,
)
from everquery.queries.sql.errors import InvalidSqlError, error_at, nearest
from everquery.queries.sql.scanner import END, Token, scan_statements
from everquery.queries.sql.statements import (
    AlterQuery,
    AlterStream,
    CreateQuery,
    CreateStream,
    DropQuery,
    DropStream,
    ExplainQuery,
    SetQuota,
    ShowQueries,
    ShowQuotas,
    ShowStreams,
    Statement,
)
from everquery.queries.sql.streams import read_alteration, read_stream
from everquery.stream import Stream

StreamOf = Callable[[str], Stream]
Parameters = Mapping[str, int | float | str | timedelta]


def read_sql(
    text: str, *, parameters: Parameters | None = None, stream_of: StreamOf
) -> list[Statement]:
    """Return the statements of a text.

    Parameters
    ----------
    text : str
        Statements, each ended by ``;`` or the end of the text.
    parameters : mapping from str to value, optional
        What each ``:name`` stands for; all must be used.
    stream_of : function
        Returns the stream of a name or raises `UnknownStreamError`. Streams that the text creates
        are visible to the statements after them.

    Raises
    ------
    InvalidSqlError
        At the first statement that is wrong, whatever is wrong with it.

    Examples
    --------
    >>> trades = Stream("trades", key="symbol", attributes=["price"])
    >>> text = "CREATE STANDING QUERY cheap AS SELECT * FROM trades WHERE price < :top EMIT MATCHES"
    >>> [created] = read_sql(text, parameters={"top": 10}, stream_of={"trades": trades}.__getitem__)
    >>> print(created.query.box)
    price in (-∞, 10.0)
    """
    _check_text(text)
    given = {} if parameters is None else parameters
    cursor = Cursor(text, given)
    reader = _Reader(cursor, stream_of)
    statements = []
    for tokens in scan_statements(text):
        cursor.begin(tokens)
        statements.append(reader.statement())
    for name in given:
        if name not in cursor.used:
            hint = nearest(name, cursor.used)
            raise error_at(text, len(text), f"parameter :{name} is given, but not used{hint}")
    return statements


def read_statement(
    text: str, *, parameters: Parameters | None = None, stream_of: StreamOf
) -> Statement:
    """Return the one statement of a text; see `read_sql`.

    Examples
    --------
    >>> read_statement("SHOW STANDING QUERIES LIKE 'ibm%';", stream_of=None)
    ShowQueries(like='ibm%', owner=None, labels={}, kind=None)
    """
    statements = read_sql(text, parameters=parameters, stream_of=stream_of)
    if len(statements) == 1:
        return statements[0]
    starts = [tokens[0].start for tokens in scan_statements(text)]
    if not starts:
        raise error_at(text, len(text), f"expected a statement ({', '.join(HEADS)}), found none")
    raise error_at(text, starts[1], f"expected one statement, found {len(starts):,}")


def _check_text(text: object) -> None:
    if not isinstance(text, str):
        raise InvalidSqlError(f"SQL is a string; got {type(text).__name__}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise error_at(text, error.start, "half a surrogate pair; give valid text") from None


class _Reader:
    """Reads statements, and knows the streams that were created before."""

    def __init__(self, cursor: Cursor, stream_of: StreamOf) -> None:
        self._cursor = cursor
        self._stream_of = stream_of
        self._streams: dict[str, Stream] = {}
        self._created: set[str] = set()
        self._dropped: set[str] = set()

    def statement(self) -> Statement:
        cursor = self._cursor
        head = HEADS.get(cursor.token.word)
        if head is None:
            cursor.fail_expected(list(HEADS), f"a statement ({', '.join(HEADS)})")
        cursor.next()
        statement = head(self)
        if cursor.token.kind != END:
            cursor.fail(f"expected ';' or the end, found {cursor.token}")
        return statement

    def create(self) -> Statement:
        cursor = self._cursor
        head = cursor.choose(("OR", "STANDING", "STREAM"))
        if head != "STREAM":
            rest = ("QUERY",) if head == "STANDING" else ("REPLACE", "STANDING", "QUERY")
            cursor.expect(*rest)
            return self._create_query(replace=head == "OR")
        place = cursor.token
        stream = read_stream(cursor)
        if stream.name in self._created:
            cursor.fail(f"stream {stream.name!r} is created above already", place)
        self._created.add(stream.name)
        self._dropped.discard(stream.name)
        self._streams[stream.name] = stream
        return CreateStream(stream)

    def _create_query(self, *, replace: bool) -> CreateQuery:
        cursor = self._cursor
        place = cursor.token
        query_id = cursor.id()
        cursor.expect("AS", "SELECT")
        marked = marked_kind(cursor)
        if marked is not None:
            stream, fields = marked.clause.read_statement(cursor, self._stream)
            return self._created_query(marked.spec, query_id, stream, fields, place, replace)
        clause, selection = read_selection(cursor)
        cursor.expect("FROM")
        stream = self._stream()
        if cursor.token.word == ",":
            cursor.fail(f"a join needs a window, which bounds what it keeps: {marked_shape()}")
        scope = cursor.token
        fields = read_scope(cursor, stream, clause, selection)
        spec, further = read_emit(cursor, stream, clause, grouped="by_key" in fields)
        if clause is None and not spec.boxed:
            for attribute in fields.pop("box"):
                cursor.fail(
                    f"a {spec.kind} query is about all events of a key, so {attribute} can't be"
                    " restricted; compare the key only",
                    scope,
                )
        begin = self._begin(replace=replace) if cursor.token.word == "BEGIN" else None
        created = self._created_query(spec, query_id, stream, fields | further, place, replace)
        return dataclasses.replace(created, begin=begin)

    def _created_query(
        self,
        spec: type[Query],
        query_id: str,
        stream: Stream,
        fields: dict[str, Any],
        place: Token,
        replace: bool,
    ) -> CreateQuery:
        try:
            return CreateQuery(stream.name, spec(query_id, **fields), replace)
        except InvalidQueryError as error:
            raise self._cursor.error(str(error), place) from None

    def _begin(self, *, replace: bool) -> Begin:
        """Read where in the past a query begins."""
        cursor = self._cursor
        place = cursor.token
        cursor.expect("BEGIN")
        if replace:
            cursor.fail(
                "a query that replaces another one goes on from it, and has no BEGIN", place
            )
        if cursor.accept(OLDEST.upper()):
            return Begin(OLDEST)
        if cursor.accept("PLACE"):
            cursor.expect("(")
            batch = cursor.value()
            cursor.expect(",")
            position = cursor.value()
            cursor.expect(")")
            said: Any = (batch, position)
        else:
            cursor.accept("TIMESTAMP")
            if not cursor.at_value():
                cursor.fail_expected([OLDEST.upper(), "PLACE"], "OLDEST, PLACE or a time")
            said = cursor.value()
        try:
            return read_begin(said)
        except InvalidQueryError as error:
            raise self._cursor.error(str(error), place) from None

    def _stream(self) -> Stream:
        place = self._cursor.token
        name = self._cursor.name("the name of a stream")
        if name in self._dropped:
            self._cursor.fail(f"stream {name!r} is dropped above", place)
        stream = self._streams.get(name)
        if stream is None:
            try:
                stream = self._streams[name] = self._stream_of(name)
            except UnknownStreamError as error:
                reason = f"{error}{nearest(name, self._streams)}"
                raise self._cursor.error(reason, place) from error
        return stream

    def alter(self) -> Statement:
        if self._cursor.accept("OWNER"):
            return self._set_quota()
        if self._cursor.accept("STREAM"):
            return self._alter_stream()
        query_id = self._query_id("STREAM", "OWNER")
        pauses = self._cursor.choose(("PAUSE", "RESUME")) == "PAUSE"
        return AlterQuery(query_id, "pause" if pauses else "resume")

    def _alter_stream(self) -> Statement:
        place = self._cursor.token
        stream = self._stream()
        spans, attributes = read_alteration(self._cursor)
        try:
            self._streams[stream.name] = stream.altered(attributes=attributes, **spans)
        except InvalidStreamError as error:
            raise self._cursor.error(str(error), place) from None
        return AlterStream(stream.name, tuple(spans.items()), tuple(attributes))

    def drop(self) -> Statement:
        if not self._cursor.accept("STREAM"):
            return DropQuery(self._query_id("STREAM"))
        name = self._stream().name
        del self._streams[name]
        self._dropped.add(name)
        self._created.discard(name)
        return DropStream(name, self._cursor.accept("CASCADE"))

    def explain(self) -> Statement:
        return ExplainQuery(self._query_id())

    def show(self) -> Statement:
        cursor = self._cursor
        what = cursor.choose(("STREAMS", "STANDING", "QUOTAS"))
        if what == "STREAMS":
            return ShowStreams()
        if what == "QUOTAS":
            return ShowQuotas()
        cursor.expect("QUERIES")
        like = cursor.text("a pattern") if cursor.accept("LIKE") else None
        filters: dict[str, Any] = {}
        if cursor.accept("WHERE"):
            self._read_filters(filters)
        elif cursor.token.kind != END:
            cursor.fail_expected(["WHERE", ";"] if like is not None else ["LIKE", "WHERE", ";"])
        return ShowQueries(like, **filters)

    def _read_filters(self, filters: dict[str, Any]) -> None:
        """Read what queries are shown: by owner, kind and labels."""
        cursor = self._cursor
        labels: dict[str, str] = {}
        while True:
            place = cursor.token
            what = cursor.choose(("OWNER", "KIND", "LABEL")).lower()
            name = cursor.name("the name of a label") if what == "label" else what
            given = labels if what == "label" else filters
            if name in given:
                cursor.fail(f"{name} is given twice", place)
            cursor.expect("=")
            given[name] = cursor.text(f"the {name}")
            if not cursor.accept("AND"):
                break
        if cursor.token.kind != END:
            cursor.fail_expected(["AND", ";"])
        filters["labels"] = Labels(labels)

    def _set_quota(self) -> Statement:
        cursor = self._cursor
        place = cursor.token
        owner = None
        if not cursor.accept("DEFAULT"):
            owner = cursor.name("an owner")
            reason = bad_text(owner, "owner", LONGEST_ID)
            if reason:
                cursor.fail(reason, place)
        if cursor.choose(("SET", "DROP")) == "DROP":
            cursor.expect("QUOTA")
            return SetQuota(owner, None)
        cursor.expect("QUOTA")
        place = cursor.token
        limit = cursor.value() if cursor.at_value() else None
        if not isinstance(limit, int) or not 0 <= limit < 2**63:
            cursor.fail("expected how many live queries the owner may have, 0 or more", place)
        return SetQuota(owner, limit)

    def _query_id(self, *instead: str) -> str:
        cursor = self._cursor
        if cursor.token.word != "STANDING":
            cursor.fail_expected(["STANDING", *instead])
        cursor.expect("STANDING", "QUERY")
        place = cursor.token
        query_id = cursor.id()
        reason = bad_text(query_id, "query id", LONGEST_ID)
        if reason:
            cursor.fail(reason, place)
        return query_id


HEADS: dict[str, Callable[[_Reader], Statement]] = {
    "CREATE": _Reader.create,
    "ALTER": _Reader.alter,
    "DROP": _Reader.drop,
    "SHOW": _Reader.show,
    "EXPLAIN": _Reader.explain,
}
