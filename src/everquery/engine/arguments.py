"""What users give to an engine, as its parts want it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import date, datetime
from functools import partial
from typing import Any

import pyarrow as pa

from everquery.errors import InvalidBatchError, InvalidQueryError, InvalidStreamError
from everquery.queries.spec import LONGEST_KEY, Key, bad_text
from everquery.state.said_times import time_in_units
from everquery.stream import OWNER_COLUMNS, Stream


def listed(given: Any, one: type) -> list[Any]:  # noqa: ANN401 - it is here to find out
    """Return what was given, one or several, as a list."""
    several = isinstance(given, Iterable) and not isinstance(given, one)
    return list(given) if several else [given]


def check_choice(name: str, given: object, known: tuple[str, ...]) -> None:
    """Raise if an argument is none of the words that it takes."""
    if given not in known:
        raise InvalidQueryError(f"{name} is {given!r}; it takes {' or '.join(map(repr, known))}")


def ids_of(query_id: str | Iterable[str]) -> pa.Array:
    """Return query ids, given as one, as several or as an Arrow column, as an Arrow array."""
    ids = [query_id] if isinstance(query_id, str) else query_id
    try:
        if isinstance(ids, pa.ChunkedArray):
            ids = ids.combine_chunks()
        if not isinstance(ids, pa.Array):
            return pa.array(ids, pa.string())
        if pa.types.is_dictionary(ids.type):
            ids = ids.dictionary_decode()
        if _is_text(ids.type):
            ids.validate(full=True)
            return ids.cast(pa.string())
    except (pa.ArrowException, TypeError, UnicodeError) as error:
        raise InvalidQueryError(f"query ids are strings: {error}") from None
    raise InvalidQueryError(f"query ids are strings; these are of type {ids.type}")


def _is_text(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def keys_of(keys: Key | Iterable[Key]) -> list[Key]:
    """Return keys that were given as one or as several, without those that can't be in a stream."""
    wanted = listed(keys, str)
    for key in wanted:
        if isinstance(key, bool) or not isinstance(key, (str, int)):
            raise InvalidQueryError(f"key {key!r} is no string or integer")
        reason = isinstance(key, str) and key and bad_text(key, "key", LONGEST_KEY)
        if reason:
            raise InvalidQueryError(reason)
    return [key for key in wanted if isinstance(key, str) or -(2**63) <= key < 2**63]


def clock_of(
    now: int | float | date | datetime | None, stream: Stream
) -> Callable[[pa.DataType], int | float] | None:
    """Return what tells a clock's time in times of any type; None without a clock."""
    if now is None:
        return None
    if stream.max_ahead is None:
        raise InvalidBatchError(
            f"now is {now!r}, and stream {stream.name!r} has no max_ahead, so that nothing would be"
            " compared with it; give the stream one, or leave out now. Nothing has changed"
        )
    return partial(time_in_units, now, rounded=True)


def check_label_columns(stream: Stream) -> None:
    """Raise if owner and labels can't be columns of a stream's notices."""
    for name in OWNER_COLUMNS:
        if name in stream.attributes:
            raise InvalidStreamError(
                f"stream {stream.name!r}: attribute {name!r} has the name of a notice column;"
                " rename it in the events, or do without labels"
            )
