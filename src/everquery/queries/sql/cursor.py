"""A place in a statement's tokens, and what every part of the grammar reads from there."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, NoReturn

from everquery.core.spans import BadSpanError, Span, read_span
from everquery.errors import InvalidQueryError
from everquery.queries.interval import exact_float
from everquery.queries.sql.errors import InvalidSqlError, error_at, nearest
from everquery.queries.sql.literals import (
    UNITS,
    BadLiteralError,
    parse_interval,
    parse_number,
)
from everquery.queries.sql.scanner import END, NUMBER, PARAMETER, QUOTED, STRING, WORD, Token

Number = int | float

LARGEST_INTEGER = 1_100  # bits; float64 ends at 1,024


class Cursor:
    """A place in a statement.

    Parameters
    ----------
    text : str
        The source, for messages.
    parameters : mapping from str to number or str
        What ``:name`` stands for.

    Attributes
    ----------
    token : Token
        The next one.
    used : set of str
        The parameters that were read, of all statements.
    selection : object
        What the statement selects, as its clause read it; None before that, and for ``*``.
    """

    __slots__ = ("_at", "_parameters", "_text", "_tokens", "selection", "token", "used")

    def __init__(self, text: str, parameters: Mapping[str, Any]) -> None:
        self._text = text
        self._parameters = parameters
        self.used: set[str] = set()

    def begin(self, tokens: list[Token]) -> None:
        """Go to the first token of a statement."""
        self._tokens = tokens
        self._at = 0
        self.token = tokens[0]
        self.selection: Any = None

    def next(self) -> Token:
        """Return the token and go on; never beyond the end."""
        token = self.token
        if token.kind != END:
            self._at += 1
            self.token = self._tokens[self._at]
        return token

    def peek(self) -> Token:
        """Return the token after the next one."""
        return self._tokens[min(self._at + 1, len(self._tokens) - 1)]

    def has_ahead(self, word: str) -> bool:
        """Tell whether the rest of the statement has this word."""
        return any(token.word == word for token in self._tokens[self._at :])

    def accept(self, word: str) -> bool:
        """Go on if the token is this word or symbol."""
        if self.token.word != word:
            return False
        self._at += 1
        self.token = self._tokens[self._at]
        return True

    def expect(self, *words: str) -> None:
        """Read these words or symbols, one after the other."""
        for word in words:
            if not self.accept(word):
                self.fail_expected([word])

    def choose(self, words: Iterable[str]) -> str:
        """Read one of these words."""
        word = self.token.word
        if word not in words:
            self.fail_expected(list(words))
        self.next()
        return word

    def fail(self, reason: str, at: Token | None = None) -> NoReturn:
        """Raise the error with its place: the next token, unless another is given."""
        raise self.error(reason, at)

    def error(self, reason: str, at: Token | None = None) -> InvalidSqlError:
        """Return the error with its place."""
        return error_at(self._text, (at or self.token).start, reason)

    def fail_expected(self, expected: list[str], what: str | None = None) -> NoReturn:
        """Raise the error that names the words that could be here, and the one that was meant."""
        wanted = what or " or ".join(", ".join(expected).rsplit(", ", 1))
        hint = nearest(self.token.text, expected) if self.token.kind == WORD else ""
        self.fail(f"expected {wanted}, found {self.token}{hint}")

    def name(self, what: str) -> str:
        """Read a name: a word, a "quoted name" or a 'string'."""
        token = self.token
        if token.kind == PARAMETER:
            self.fail(f"{token.text} can't be {what}: parameters stand for values only")
        if token.kind not in (WORD, QUOTED, STRING):
            self.fail_expected([], f"{what} (a word, a \"quoted name\" or a 'string')")
        return self.next().value()

    def id(self) -> str:
        """Read a query's id: a name, or a parameter, since ids are values."""
        if self.token.kind != PARAMETER:
            return self.name("the name of a query")
        value = self.parameter()
        if not isinstance(value, str):
            self.fail(f"a query's name is a string; got {value!r}", self._tokens[self._at - 1])
        return value

    def at_value(self) -> bool:
        """Tell whether a value begins here."""
        token = self.token
        return token.kind in (NUMBER, STRING, PARAMETER) or token.word in ("-", "+", "INFINITY")

    def value(self) -> Number | str:
        """Read a number, a string or a parameter."""
        if self.token.kind == STRING:
            return self.next().value()
        if self.token.kind == PARAMETER:
            value = self.parameter()
            if isinstance(value, (str, int, float)):
                return value
            self.fail(f"a value is a number or a string; got {value!r}", self._tokens[self._at - 1])
        return self._number()

    def text(self, what: str) -> str:
        """Read a string."""
        token = self.token
        if token.kind not in (STRING, PARAMETER):
            self.fail_expected([], f"{what}, a 'string'")
        value = self.value()
        if not isinstance(value, str):
            self.fail(f"expected {what}, a string; {token.text} is {value!r}", token)
        return value

    def flag(self) -> bool:
        """Read TRUE or FALSE."""
        return self.choose(("TRUE", "FALSE")) == "TRUE"

    def span(self) -> Span:
        """Read ``INTERVAL '5' SECOND``, ``'5s'``, or a number in the unit of the time column."""
        token = self.token
        if token.kind in (PARAMETER, STRING):
            value = self.parameter() if token.kind == PARAMETER else self.next().value()
            try:
                return read_span(value, zero=True)
            except BadSpanError as error:
                self.fail(f"{value!r} is no span of time: {error}", token)
        if not self.accept("INTERVAL"):
            if token.kind != NUMBER:
                self.fail_expected(
                    ["INTERVAL"], "a span of time, for example '5s' or INTERVAL '5' SECOND"
                )
            return self._number()
        count = self.token
        if count.kind not in (STRING, NUMBER):
            self.fail_expected([], "a number, for example INTERVAL '5' SECOND")
        self.next()
        unit = self.choose(UNITS)
        try:
            return parse_interval(count.value(), unit)
        except BadLiteralError as error:
            self.fail(str(error), count)

    def parameter(self) -> Number | str | timedelta:
        """Read a parameter: what it is bound to, never text that is read again."""
        token = self.next()
        name = token.value()
        if name not in self._parameters:
            hint = nearest(name, self._parameters)
            self.fail(f"parameter {token.text} has no value{hint}", token)
        self.used.add(name)
        value = self._parameters[name]
        if isinstance(value, str):
            if not _is_unicode(value):
                self.fail(f"{token.text} is {value!r}, which has half a surrogate pair", token)
            return value
        if isinstance(value, timedelta):
            return value
        if type(value) is int:
            if value.bit_length() > LARGEST_INTEGER:
                self.fail(f"{token.text} is an integer beyond float64", token)
            return value
        try:
            return exact_float(value.item() if hasattr(value, "item") else value, token.text)
        except InvalidQueryError as error:
            self.fail(str(error), token)

    def _number(self) -> Number:
        sign = -1 if self.token.word == "-" else 1
        if self.token.word in ("-", "+"):
            self.next()
        if self.accept("INFINITY"):
            return sign * math.inf
        if self.token.kind != NUMBER:
            self.fail_expected(["INFINITY"], "a number")
        token = self.next()
        try:
            value = parse_number(token.text)
        except BadLiteralError as error:
            self.fail(str(error), token)
        return sign * value


def _is_unicode(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
