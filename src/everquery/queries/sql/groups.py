"""``GROUP BY``: each key by itself."""

from __future__ import annotations

from everquery.queries.spec import Key
from everquery.queries.sql.cursor import Cursor
from everquery.queries.sql.errors import nearest
from everquery.queries.sql.quotes import print_name
from everquery.stream import Stream


def read_group(cursor: Cursor, stream: Stream, key: Key | None, what: str) -> bool:
    """Read ``GROUP BY key`` of a query that has no key; return True.

    Parameters
    ----------
    key : str, int or None
        The one that the condition named.
    what : str
        What is grouped, for an error message.
    """
    place = cursor.token
    cursor.expect("GROUP", "BY")
    if stream.key is None:
        cursor.fail(f"stream {stream.name!r} has no key to group by", place)
    column = cursor.token
    name = cursor.name("the stream's key")
    if name != stream.key:
        hint = nearest(name, [stream.key])
        cursor.fail(f"{what} are grouped by the stream's key, {stream.key!r}{hint}", column)
    if key is not None:
        cursor.fail(f"the query has a key already, {key!r}; leave out WHERE or GROUP BY", place)
    return True


def print_group(by_key: bool, stream: Stream) -> str:
    """Return ``GROUP BY key``, with a space before; nothing if keys are not apart."""
    return f" GROUP BY {print_name(str(stream.key))}" if by_key else ""
