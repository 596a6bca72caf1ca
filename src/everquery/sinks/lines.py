"""Notices as lines of text, JSON or for people; columns at a time, never a row."""

from __future__ import annotations

import json
from binascii import hexlify
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from everquery.kinds import KINDS

COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
OF_ALL = {"end": "yellow", "quarantined": "magenta", "refused": "magenta"}  # events of any kind
PLAIN = "\x1b[0m"

_SPACE, _QUOTE, _BACKSLASH = b' "\\'
_DATE = 10  # characters of a date, behind which its time begins


def as_json_lines(notices: pa.Table) -> pa.Array:
    r"""Return each notice as a JSON object and a line break.

    Infinities are the strings ``"Infinity"`` and ``"-Infinity"``, which JSON has no numbers for.

    Examples
    --------
    >>> as_json_lines(pa.table({"query_id": ["a\n"], "price": [1.5]})).to_pylist()
    ['{"query_id":"a\\n","price":1.5}\n']
    """
    parts: list[pa.Array | str] = []
    text = "{"  # what all lines have between two columns
    for i, name in enumerate(notices.column_names):
        before, values, after = _json_values(_array(notices.column(name)))
        text += ("," if i else "") + json.dumps(name) + ":" + before
        if values is not None:
            parts += [text, values]
            text = ""
        text += after
    text += "}\n"
    if not parts:
        return pa.repeat(text, notices.num_rows)
    return pc.binary_join_element_wise(*parts, text, "")


def _array(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined


def _json_values(column: pa.Array) -> tuple[str, pa.Array | None, str]:
    """Return the values of a column, and what stands before and behind each.

    Cells that are all the same are no column, but part of the text before.
    """
    if column.null_count == len(column):
        return "null", None, ""
    if pa.types.is_dictionary(column.type):
        if len(column.dictionary) > 2 * len(column):  # of a million ids, a batch tells of few
            return _json_values(_decoded(column))
        text, mark = _json_text(column.dictionary)
        place = np.asarray(column.indices.fill_null(0))
        if not column.null_count and (place == place[0]).all():
            return f"{mark}{text[int(place[0])].as_py()}{mark}", None, ""
        text = text.take(column.indices)
    else:
        text, mark = _json_text(column)
    if column.null_count:
        return "", pc.binary_join_element_wise(mark, text, mark, "").fill_null("null"), ""
    return mark, text, mark


def _decoded(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _json_text(column: pa.Array) -> tuple[pa.Array, str]:
    """Return values as text, and the mark that stands on both sides of each: a quote, or none."""
    kind = column.type
    if pa.types.is_fixed_size_binary(kind):
        return hex_text(column), '"'
    if pa.types.is_string(kind):
        if _needs_escapes(column):
            column = _by_distinct(column, lambda text: json.dumps(text, ensure_ascii=False)[1:-1])
        return column, '"'
    if pa.types.is_temporal(kind):
        return _iso(column), '"'
    text = column.cast(pa.string())
    if pa.types.is_floating(kind) and not pc.all(pc.is_finite(column)).as_py():
        text = _by_distinct(text, _json_float)
    return text, ""


def _needs_escapes(column: pa.Array) -> bool:
    """Tell whether a text holds what JSON writes otherwise: looked up in the bytes of all."""
    _, offsets, data = column.buffers()
    if data is None or not len(column):
        return False
    ends = np.frombuffer(offsets, np.int32)[[column.offset, column.offset + len(column)]]
    letters = np.frombuffer(data, np.uint8)[ends[0] : ends[1]]
    return bool(
        ((letters < _SPACE) | (letters == _QUOTE) | (letters == _BACKSLASH)).any(),
    )


def _json_float(text: str) -> str:
    special = {"inf": '"Infinity"', "-inf": '"-Infinity"', "nan": '"NaN"'}
    return special.get(text, text)


def _by_distinct(column: pa.Array, convert: Callable[[str], str]) -> pa.Array:
    """Convert each distinct text once."""
    distinct = column.dictionary_encode()
    words = pa.array([convert(text) for text in distinct.dictionary.to_pylist()], pa.string())
    return words.take(distinct.indices)


def _iso(column: pa.Array) -> pa.Array:
    """Return times with a T between date and time, which Arrow writes with a space."""
    text = column.cast(pa.string())
    n = len(text)
    if n and not text.null_count:
        _, offsets, data = text.buffers()
        width, odd = divmod(int(np.frombuffer(offsets, np.int32)[n]), n)
        if not odd and width > _DATE:
            # As a rule all are of one length: one column of letters to change.
            letters = np.frombuffer(data, np.uint8)[: n * width].reshape(n, width).copy()
            if (letters[:, _DATE] == _SPACE).all():
                letters[:, _DATE] = ord("T")
                if (np.diff(np.frombuffer(offsets, np.int32)[: n + 1]) == width).all():
                    return pa.Array.from_buffers(
                        pa.string(), n, [None, offsets, pa.py_buffer(letters)]
                    )
    return pc.replace_substring(text, " ", "T", max_replacements=1)


def hex_text(column: pa.Array) -> pa.Array:
    """Return bytes of a fixed size as text, two digits each."""
    n, width = len(column), column.type.byte_width
    data = memoryview(column.buffers()[1])[column.offset * width :][: n * width]
    offsets = np.arange(0, 2 * width * (n + 1), 2 * width, dtype=np.int32)
    digits = pa.py_buffer(hexlify(data))
    return pa.Array.from_buffers(pa.string(), n, [None, pa.py_buffer(offsets), digits])


def as_text_lines(notices: pa.Table, *, colour: bool = False) -> pa.Array:
    r"""Return each notice as a line for people.

    Examples
    --------
    >>> table = pa.table(
    ...     {
    ...         "query_id": ["band"], "kind": ["border"], "event": ["enter"], "key": ["IBM"],
    ...         "time": [7], "seq": [0], "reason": pa.nulls(1, pa.string()), "price": [45.0],
    ...     }
    ... )
    >>> as_text_lines(table).to_pylist()
    ['7  enter  band  IBM  price=45\n']
    """
    names = [name for name in notices.column_names if name not in NOT_SHOWN]
    parts: list[pa.Array | str] = []
    if not pa.types.is_null(notices.schema.field("time").type):
        time = _array(notices.column("time"))
        parts += [_iso(time) if pa.types.is_temporal(time.type) else time.cast(pa.string()), "  "]
    event = pc.utf8_rpad(_decoded(_array(notices.column("event"))), 5)
    if colour:
        styles = {name: ansi(colour) for name, colour in event_colours().items()}
        event = _by_distinct(event, lambda word: f"{styles.get(word.strip(), '')}{word}{PLAIN}")
    parts += [event, "  ", _by_distinct(_decoded(_array(notices.column("query_id"))), shown)]
    key = _decoded(_array(notices.column("key"))).cast(pa.string())
    if key.null_count < len(key):
        parts.append(pc.binary_join_element_wise("  ", _by_distinct(key, shown), ""))
    for name in names:
        parts.append(_named(name, _decoded(_array(notices.column(name)))))
    reason = _decoded(_array(notices.column("reason")))
    reason = pc.binary_join_element_wise("  (", reason, ")", "")
    lines = [part if isinstance(part, str) else part.fill_null("") for part in parts]
    return pc.binary_join_element_wise(*lines, reason.fill_null(""), "\n", "")


def event_colours() -> dict[str, str]:
    """Return the colours of all events that notices tell of, as kinds have them."""
    return OF_ALL | {
        event: colour for kind in KINDS.values() for event, colour in kind.colours.items()
    }


def ansi(colour: str) -> str:
    r"""Return what switches a terminal to a colour.

    Examples
    --------
    >>> ansi("red"), ansi("bold yellow")
    ('\x1b[31m', '\x1b[1;33m')
    """
    *bold, name = colour.split()
    return f"\x1b[{'1;' if bold else ''}{30 + COLOURS.index(name)}m"


def _named(name: str, column: pa.Array) -> pa.Array | str:
    """Return values with their names; nothing where there is no value."""
    if column.null_count == len(column):
        return ""
    text = column.cast(pa.string())
    if pa.types.is_string(column.type):
        text = _by_distinct(text, shown)
    return pc.binary_join_element_wise(f"  {name}=", text, "")


NOT_SHOWN = ("query_id", "kind", "event", "key", "time", "seq", "reason", "notice_id")


def shown(text: str) -> str:
    r"""Return a name as a terminal may be given it: quoted, if it holds what is no letter or sign.

    Examples
    --------
    >>> shown("IBM"), shown("a\x1b[2J")
    ('IBM', '"a\\u001b[2J"')
    """
    return text if text.isprintable() and text == text.strip() else json.dumps(text)
