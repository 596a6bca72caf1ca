"""What is wrong with a text of SQL, and where."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Iterable

from everquery.errors import EverqueryError

LONGEST_SHOWN = 100  # characters of the source line that a message shows
LONGEST_REASON = 1_000  # characters; a name in it may be of any length

_LINE_END = re.compile(r"\r\n|\r|\n")


class InvalidSqlError(EverqueryError, ValueError):
    """A text that is not a statement, or a statement that can't be.

    The message says what was expected and found, shows the line, and points at the place.

    Attributes
    ----------
    line, column : int
        The place in the text, both from 1; columns count characters.

    Examples
    --------
    >>> from everquery.queries.sql import read_statement
    >>> try:
    ...     read_statement("DROP STANDING QUERRY q", stream_of=None)
    ... except InvalidSqlError as error:
    ...     print(error)
    line 1, column 15: expected QUERY, found QUERRY; did you mean QUERY?
      DROP STANDING QUERRY q
                    ^
    """

    def __init__(self, message: str, line: int = 1, column: int = 1) -> None:
        super().__init__(message, line, column)
        self.line = line
        self.column = column

    def __str__(self) -> str:
        return str(self.args[0])


def error_at(text: str, position: int, reason: str) -> InvalidSqlError:
    """Return the error with the place, the source line and a caret."""
    line, begin = 1, 0
    for end in _LINE_END.finditer(text, 0, position):
        line, begin = line + 1, end.end()
    ends = (text.find(end, position) for end in "\r\n")
    source = text[begin : min((end for end in ends if end >= 0), default=len(text))]
    column = position - begin
    if len(reason) > LONGEST_REASON:
        reason = f"{reason[:LONGEST_REASON]}…"
    reason = "".join(map(_visible, reason))
    message = f"line {line}, column {column + 1}: {reason}\n{_pointed(source, column)}"
    return InvalidSqlError(message, line, column + 1)


def _pointed(source: str, column: int) -> str:
    """Return the line, cut to what a screen holds, and a caret below the column."""
    first = max(0, min(column - LONGEST_SHOWN // 2, len(source) - LONGEST_SHOWN))
    shown = source[first : first + LONGEST_SHOWN]
    before = source[first:column]
    lead = "… " if first else ""
    tail = " …" if first + LONGEST_SHOWN < len(source) else ""
    gap = "".join(map(_blank, lead + before))
    return f"  {lead}{''.join(map(_visible, shown))}{tail}\n  {gap}^"


def _visible(character: str) -> str:
    """Return what stands for the character on a terminal; NUL and half surrogates would harm."""
    if character.isprintable() or character == "\t":
        return character
    return "\N{REPLACEMENT CHARACTER}"


def _blank(character: str) -> str:
    if character == "\t":
        return character
    if unicodedata.combining(character):
        return ""
    return "  " if unicodedata.east_asian_width(character) in "WF" else " "


def nearest(word: str, valid: Iterable[str]) -> str:
    """Return ``; did you mean ...?`` for the valid word that is most like this one, or nothing."""
    folded = {name.casefold(): name for name in valid}
    near = difflib.get_close_matches(word[:100].casefold(), folded, n=1)
    return f"; did you mean {folded[near[0]]}?" if near else ""
