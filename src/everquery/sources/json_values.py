"""Single values of JSON in the types of columns, as Spark's reader of JSON takes them.

A value that does not fit its column is `UNFIT`: numbers are not made of strings, nor integers of
fractions, and nothing is cut. A column of strings takes any value, as JSON.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from json import JSONDecoder, dumps
from math import isfinite, isnan
from typing import Any, Final
from zoneinfo import ZoneInfo

import pyarrow as pa


class Unfit:
    """What a value is that does not fit its column."""


UNFIT: Final = Unfit()
Fit = Callable[[Any, str], Any]  # a value and how it is written to the value of a column
Members = dict[str, tuple[Any, str]]

_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
_SPACE = re.compile(r"[ \t\n\r]*")
_HALF_PAIR = re.compile("[\ud800-\udfff]")
_TRIMMED = "".join(map(chr, (*range(33), 127)))
_MOMENT = re.compile(
    r"(\d{4,6})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T](\d{1,2})(?::(\d{1,2})(?::(\d{1,2})"
    r"(?:\.(\d*))?([^\d].*)?)?)?)?)?)?",
    re.ASCII | re.DOTALL,
)
_DAY = re.compile(r"(\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.ASCII | re.DOTALL)
_OFFSET = re.compile(
    r"(?:UTC|GMT|UT)?([+-])(?:(\d{1,2})(?::(\d{1,2})(?::(\d{2}))?)?|(\d{2})(\d{2})(\d{2})?)",
    re.ASCII,
)
_LARGEST = 10**308  # no integer below is too large for a float
_FURTHEST = timedelta(hours=18)
_NOT_NUMERIC = {
    "NaN": float("nan"),
    **dict.fromkeys(("+INF", "+Infinity", "Infinity"), float("inf")),
    **dict.fromkeys(("-INF", "-Infinity"), float("-inf")),
}
_read_value = JSONDecoder().raw_decode


def members_of(text: str) -> Members | None:
    """Return the members of a JSON object, each with how it is written; None if it is none.

    Of members of one name the last counts.

    Examples
    --------
    >>> members_of('{"price": 1.50, "symbol": "IBM"}')
    {'price': (1.5, '1.50'), 'symbol': ('IBM', '"IBM"')}
    >>> members_of('{"price": 1.5} {"price": 1.6}')
    """
    try:
        return _members(text)
    except (ValueError, RecursionError):
        return None


def _members(text: str) -> Members:
    found: Members = {}
    at = _expect(text, _skip(text, 0), "{")
    more = text[at : at + 1] != "}"
    while more:
        name, at = _read_value(text, at)
        if not isinstance(name, str):
            raise ValueError("a name is no string")
        begin = _expect(text, _skip(text, at), ":")
        value, end = _read_value(text, begin)
        found[name] = value, text[begin:end]
        at = _skip(text, end)
        more = text[at : at + 1] == ","
        at = _skip(text, at + 1) if more else at
    end = _expect(text, at, "}")
    # Spark reads objects as the elements of an array, and nothing that is behind its end.
    if end < len(text) and text[end] != "]":
        raise ValueError("something is behind the object")
    return found


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()


def _expect(text: str, at: int, letter: str) -> int:
    """Return where the text goes on behind a letter, and behind the space that follows it."""
    if text[at : at + 1] != letter:
        raise ValueError(f"no {letter}")
    return _skip(text, at + 1)


def fit_of(kind: pa.DataType, zone: str) -> Fit | None:
    """Return what fits values to a column of a type; None for a type that is not read.

    Parameters
    ----------
    kind : Arrow type
    zone : str
        Of times that are written without one.

    Times become microseconds since 1970, dates days.
    """
    for is_kind, make in _FITS:
        if is_kind(kind):
            return make(kind, zone)
    return None


def text_of_value(value: Any, written: str) -> str:  # noqa: ANN401 - whatever JSON holds
    """Return the text of a string; of any other value the shortest JSON, as Java writes it."""
    return _HALF_PAIR.sub("?", value if isinstance(value, str) else _written(value))


def _written(value: Any) -> str:  # noqa: ANN401
    if isinstance(value, dict):
        pairs = (f"{_written(name)}:{_written(each)}" for name, each in value.items())
        return "{" + ",".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_written, value)) + "]"
    if isinstance(value, float):
        return _as_java(value)
    return dumps(value, ensure_ascii=False)


def _as_java(value: float) -> str:
    """Return a number as Java writes it: 1.0E7, where Python writes 10000000.0."""
    if not isfinite(value):
        return '"NaN"' if isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value) if "e" not in repr(value) else format(Decimal(repr(value)), "f")
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    first, *others = map(str, digits)
    power = int(exponent) + len(others)
    return f"{'-' * sign}{first}.{''.join(others) or '0'}E{power}"


def _texts(kind: pa.DataType, zone: str) -> Fit:
    return text_of_value


def _whole(kind: pa.DataType, zone: str) -> Fit:
    most = 1 << (kind.bit_width - 1)

    def fit(value: Any, written: str) -> Any:  # noqa: ANN401
        return value if type(value) is int and -most <= value < most else UNFIT

    return fit


def _floats(kind: pa.DataType, zone: str) -> Fit:
    def fit(value: Any, written: str) -> Any:  # noqa: ANN401
        if type(value) is int:
            return float(value) if abs(value) < _LARGEST else float(written)
        if type(value) is float:
            return value
        return _NOT_NUMERIC.get(value, UNFIT) if isinstance(value, str) else UNFIT

    return fit


def _truths(kind: pa.DataType, zone: str) -> Fit:
    return lambda value, written: value if isinstance(value, bool) else UNFIT


def _decimals(kind: pa.DataType, zone: str) -> Fit:
    step, most = Decimal(1).scaleb(-kind.scale), Decimal(10) ** (kind.precision - kind.scale)

    def fit(value: Any, written: str) -> Any:  # noqa: ANN401
        if type(value) not in (int, float, str):
            return UNFIT
        try:
            exact = Decimal(value.replace(",", "") if isinstance(value, str) else written)
            rounded = exact.quantize(step, ROUND_HALF_UP)
        except InvalidOperation:
            return UNFIT
        return rounded if abs(rounded) < most else UNFIT

    return fit


def _binaries(kind: pa.DataType, zone: str) -> Fit:
    def fit(value: Any, written: str) -> Any:  # noqa: ANN401
        try:
            return base64.b64decode(value, validate=True) if isinstance(value, str) else UNFIT
        except ValueError:
            return UNFIT

    return fit


def _instants(kind: pa.DataType, zone: str) -> Fit:
    local = None if kind.tz is None else _zone(zone)

    def fit(value: Any, written: str) -> Any:  # noqa: ANN401
        if type(value) is int and local is not None:
            return value * 1_000_000 if abs(value) < 1 << 43 else UNFIT
        return instant(value, local) if isinstance(value, str) else UNFIT

    return fit


def _dates(kind: pa.DataType, zone: str) -> Fit:
    def fit(value: Any, written: str) -> Any:  # noqa: ANN401
        found = _DAY.fullmatch(value.strip(_TRIMMED)) if isinstance(value, str) else None
        if found is None:
            return UNFIT
        try:
            return date(*(int(part or 1) for part in found.groups())).toordinal() - 719_163
        except (ValueError, OverflowError):
            return UNFIT

    return fit


def instant(text: str, local: tzinfo | None) -> int | Unfit:
    """Return a time as microseconds since 1970.

    Parameters
    ----------
    text : str
        Such as ``2026-01-05T09:30:00.5Z``; digits behind the sixth of a second are cut. A time
        without a date is none.
    local : tzinfo, optional
        The zone of times that are written without one. Without, they are times without zone, and
        those that have one are `UNFIT`.

    Examples
    --------
    >>> instant("1970-01-01T01:00:01+01:00", UTC)
    1000000
    """
    found = _MOMENT.fullmatch(text.strip(_TRIMMED))
    if found is None:
        return UNFIT
    *parts, fraction, named = found.groups()
    try:
        year, month, day = (int(part or 1) for part in parts[:3])
        hour, minute, second = (int(part or 0) for part in parts[3:])
        micros = int((fraction or "")[:6].ljust(6, "0"))
        plain = datetime(year, month, day, hour, minute, second, micros)
        zone = _zone(named.strip()) if named else local
        if named and local is None:
            return UNFIT
        behind = plain.replace(tzinfo=zone).utcoffset() if zone is not None else None
        return (plain - (behind or timedelta(0)) - _EPOCH) // _MICROSECOND
    except (ValueError, OverflowError, OSError):  # no such date, or no such zone
        return UNFIT


def _zone(name: str) -> tzinfo:
    """Return a zone by its name or offset; raise ValueError if there is none."""
    if name in ("Z", "UTC", "GMT", "UT"):
        return UTC
    found = _OFFSET.fullmatch(name)
    if found is None:
        try:
            return ZoneInfo(name)
        except (KeyError, ValueError) as error:
            raise ValueError(f"there is no zone {name!r}") from error
    sign, *parts = found.groups()
    hours, minutes, seconds = (int(parts[i] or parts[i + 3] or 0) for i in range(3))
    offset = timedelta(hours=hours, minutes=minutes, seconds=seconds)
    if minutes > 59 or seconds > 59 or offset > _FURTHEST:
        raise ValueError(f"{name} is no offset")
    return timezone(-offset if sign == "-" else offset)


_FITS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType, str], Fit]], ...] = (
    (pa.types.is_string, _texts),
    (pa.types.is_signed_integer, _whole),
    (pa.types.is_floating, _floats),
    (pa.types.is_boolean, _truths),
    (pa.types.is_decimal, _decimals),
    (pa.types.is_binary, _binaries),
    (pa.types.is_timestamp, _instants),
    (pa.types.is_date32, _dates),
)
