"""Numbers and spans of time, as SQL writes them."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from decimal import Decimal

from everquery.core.spans import SpanLike, read_span

LONGEST_NUMBER = 1_100  # characters; the longest float64, written out in full, has 1,077

MICROSECONDS = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": 86_400_000_000,
    "WEEK": 604_800_000_000,
}
UNITS = {**MICROSECONDS, **{f"{unit}S": size for unit, size in MICROSECONDS.items()}}

_INTEGER = re.compile("[0-9]+")
_LONGEST = timedelta.max // timedelta(microseconds=1)


class BadLiteralError(ValueError):
    """Why a literal is refused; the cursor adds the place."""


def parse_number(text: str) -> int | float:
    """Return an unsigned number: an int where it is written as one, else a float.

    A float is refused where float64 would round away digits that are written: where the nearest
    float64, written with as many digits, is another number, and written as short as can be too.
    """
    if len(text) > LONGEST_NUMBER:
        raise BadLiteralError(f"a number of {len(text):,} digits; float64 has no such number")
    if _INTEGER.fullmatch(text):
        return int(text)
    if len(text) <= 15 and "e" not in text and "E" not in text:
        return float(text)  # float64 keeps any 15 digits
    value = float(text)
    mantissa = text.lower().partition("e")[0].replace(".", "").lstrip("0")
    if value == math.inf or (value == 0) != (not mantissa):
        raise BadLiteralError(f"float64 can't hold {text}: the nearest is {value!r}")
    # The two differ where the digits end in a tie: 2**-24 is 5.960464477539062|5e-08.
    written = (f"{value:.{len(mantissa)}g}", repr(value))
    if value and all(Decimal(each) != Decimal(text) for each in written):
        raise BadLiteralError(f"float64 can't hold {text} exactly: the nearest is {value!r}")
    return value


def print_number(value: float) -> str:
    """Return a number that reads back equal."""
    if isinstance(value, int):
        return str(value)
    if math.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    short = value.is_integer() and abs(value) < 1e15 and repr(value) != "-0.0"
    return str(int(value)) if short else repr(value)


def parse_interval(count: str, unit: str) -> timedelta:
    """Return the span of ``INTERVAL 'count' unit``."""
    try:
        exact = Decimal(count.strip()) * UNITS[unit] if len(count) < 30 else None
    except ArithmeticError:  # no number, or one with an exponent beyond those of decimals
        exact = None
    if exact is None or not exact.is_finite():
        raise BadLiteralError(f"{count!r} is no number of {unit}; for example INTERVAL '5' SECOND")
    # Compared before it is an int: one of a million digits takes its time.
    if not -_LONGEST <= exact <= _LONGEST:
        raise BadLiteralError(f"{count} {unit} is too long; the limit is 2.7 million years")
    if exact != exact.to_integral_value():
        raise BadLiteralError(f"{count} {unit} is not a whole number of microseconds")
    return timedelta(microseconds=int(exact))


def print_span(span: SpanLike) -> str:
    """Return a span that reads back equal."""
    if isinstance(span, str):
        span = read_span(span, zero=True)
    if not isinstance(span, timedelta):
        return print_number(span)
    exact = span // timedelta(microseconds=1)
    unit = next(name for name, size in reversed(MICROSECONDS.items()) if exact % size == 0)
    return f"INTERVAL '{exact // MICROSECONDS[unit]}' {unit}"
