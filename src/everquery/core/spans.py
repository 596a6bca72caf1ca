"""Spans of time as people write them: ``2m``, ``1h30m``, ``PT90S``, a timedelta or a number."""

from __future__ import annotations

import re
from datetime import timedelta
from fractions import Fraction
from typing import Any

import numpy as np

Span = int | float | timedelta
"""A span as it is kept: a number is in the unit of the time column."""
SpanLike = Span | str
"""A span as it may be given; see `read_span`."""

LONGEST_SPAN = 2**61  # in any unit: times are 64-bit
LONGEST_TIMEDELTA = timedelta(microseconds=LONGEST_SPAN)
NOTHING = timedelta(0)
LONGEST_TEXT = 200  # letters of a span; nobody writes more, and digits take time

HOW = 'write it as "90s", "2m", "1h30m", "1.5d", "PT90S" or a timedelta'

# Microseconds of each unit, by its names, the longest unit first.
_UNITS = (
    (604_800_000_000, ("w", "week", "weeks")),
    (86_400_000_000, ("d", "day", "days")),
    (3_600_000_000, ("h", "hr", "hrs", "hour", "hours")),
    (60_000_000, ("m", "min", "mins", "minute", "minutes")),
    (1_000_000, ("s", "sec", "secs", "second", "seconds")),
    (1_000, ("ms", "millisecond", "milliseconds")),
    (1, ("us", "µs", "μs", "microsecond", "microseconds")),
)
_SIZES = {name: size for size, names in _UNITS for name in names}
_NUMPY = {**{names[0]: size for size, names in _UNITS}, "W": _SIZES["w"], "D": _SIZES["d"]}
_CALENDAR = {"mo", "mon", "month", "months", "y", "yr", "yrs", "year", "years"}

_AMOUNT = r"[0-9]+(?:\.[0-9]+)?"
_PIECE = re.compile(rf"\s*({_AMOUNT})\s*([^\W\d_]+)\s*")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]{1,3})?|\.[0-9]+")
_ISO_AMOUNT = r"([0-9]+(?:[.,][0-9]+)?)"
_ISO = re.compile(
    rf"P(?:{_ISO_AMOUNT}W)?(?:{_ISO_AMOUNT}D)?"
    rf"(?:T(?=[0-9])(?:{_ISO_AMOUNT}H)?(?:{_ISO_AMOUNT}M)?(?:{_ISO_AMOUNT}S)?)?"
)
_ISO_CALENDAR = re.compile(r"P[^T]*[YM].*")


class BadSpanError(ValueError):
    """Why something is no span of time, with what to write instead."""


def read_span(given: Any, *, zero: bool = False) -> Span:  # noqa: ANN401 - it is here to find out
    """Return a span of time as a timedelta; a number stays a number.

    Parameters
    ----------
    given : str, timedelta or number
        Text is a number with a unit (us, ms, s, m or min, h, d, w), or several of them, the longest
        first: ``1h30m``; or ISO 8601: ``PT90S``, ``P1DT2H``. A day has 24 hours. A number, in text
        too, is in the unit of the time column.
    zero : bool
        Whether a span of no length is allowed.

    Raises
    ------
    BadSpanError
        If it is none; the text tells what to write.

    Examples
    --------
    >>> read_span("1h30m"), read_span("PT90S"), read_span("250 ms")
    (datetime.timedelta(seconds=5400), datetime.timedelta(seconds=90),
     datetime.timedelta(microseconds=250000))
    >>> read_span("20"), read_span(2.5)
    (20, 2.5)
    >>> read_span("5x")
    Traceback (most recent call last):
    everquery.core.spans.BadSpanError: 'x' is no unit of time (us, ms, s, m, h, d, w); write it ...
    """
    span = _read_text(given) if isinstance(given, str) else _read_object(given)
    if isinstance(span, timedelta):
        positive, nothing, too_long = span > NOTHING, span == NOTHING, span >= LONGEST_TIMEDELTA
    else:
        positive, nothing, too_long = span > 0, span == 0, span >= LONGEST_SPAN
    if not (positive or (zero and nothing)):
        raise BadSpanError("it must be positive")
    if too_long:
        raise BadSpanError("it is longer than times are")
    return span


def _read_object(given: object) -> Span:
    """Return a span that is not text: a number, or a duration of any library."""
    if isinstance(given, np.timedelta64):
        return _of_numpy(given)
    if isinstance(given, timedelta):
        # That of pandas is a timedelta too, with nanoseconds beside the microseconds.
        if getattr(given, "nanoseconds", 0):
            raise BadSpanError("it is not a whole number of microseconds")
        try:
            return timedelta(given.days, given.seconds, given.microseconds)
        except (TypeError, AttributeError):  # the NaT of pandas
            raise BadSpanError(HOW) from None
    if isinstance(given, (np.integer, np.floating)):
        given = given.item()
    if isinstance(given, bool) or not isinstance(given, (int, float)):
        raise BadSpanError(f"{HOW}, or as a number in the unit of the time column")
    return given


def _of_numpy(given: np.timedelta64) -> timedelta:
    unit, step = np.datetime_data(given.dtype)
    below = {"ns": 3, "ps": 6, "fs": 9, "as": 12}
    if np.isnat(given) or unit not in {*_NUMPY, *below}:
        raise BadSpanError(f"it has no fixed length, as months and years have none; {HOW}")
    size = Fraction(1, 10 ** below[unit]) if unit in below else _NUMPY[unit]
    return _timedelta(int(given.astype(np.int64)) * step * Fraction(size))


def _read_text(given: str) -> Span:
    text = given.strip()
    if len(text) > LONGEST_TEXT:
        raise BadSpanError(f"a text of {len(text):,} letters is no span of time; {HOW}")
    if _NUMBER.fullmatch(text):
        return int(text) if text.isdecimal() else _float(text)
    if text.startswith("-"):
        raise BadSpanError("it must be positive")
    if text.startswith("P"):
        return _read_iso(text)
    total, at, smallest = Fraction(0), 0, None
    while at < len(text):
        found = _PIECE.match(text, at)
        if found is None:
            rest = text[at:].strip()
            hint = f"{rest!r} has no unit" if at and _NUMBER.fullmatch(rest) else "it is no span"
            raise BadSpanError(f"{hint} of time; {HOW}")
        amount, unit = found.groups()
        size = _size_of(unit)
        if smallest is not None and size >= smallest:
            raise BadSpanError(f"{unit!r} must stand before shorter units, and once; {HOW}")
        total, at, smallest = total + Fraction(amount) * size, found.end(), size
    if smallest is None:
        raise BadSpanError(f"it is empty; {HOW}")
    return _timedelta(total)


def _size_of(unit: str) -> int:
    if unit in _SIZES:
        return _SIZES[unit]
    if unit in _CALENDAR or unit == "M":
        raise BadSpanError(
            f"{unit!r}: months and years have no fixed length (a minute is m); {HOW}"
        )
    units = ", ".join(names[0] for _, names in reversed(_UNITS))
    raise BadSpanError(f"{unit!r} is no unit of time ({units}); {HOW}")


def _read_iso(text: str) -> timedelta:
    found = _ISO.fullmatch(text)
    if found is None or not any(found.groups()):
        if _ISO_CALENDAR.fullmatch(text):
            raise BadSpanError(
                f"months and years have no fixed length (minutes come after a T: PT5M); {HOW}"
            )
        raise BadSpanError(f"it is no duration of ISO 8601; {HOW}")
    amounts = zip(found.groups(), _UNITS, strict=False)
    exact = (Fraction(text.replace(",", ".")) * size for text, (size, _) in amounts if text)
    return _timedelta(sum(exact, Fraction(0)))


def _float(text: str) -> float:
    number = float(text)
    if number < LONGEST_SPAN and Fraction(repr(number)) != Fraction(text):
        raise BadSpanError(f"float64 can't hold it: the nearest is {number!r}")
    return number


def _timedelta(microseconds: Fraction) -> timedelta:
    """Return exactly so many microseconds."""
    if abs(microseconds) >= LONGEST_SPAN:
        raise BadSpanError("it is longer than times are")
    if microseconds.denominator != 1:
        raise BadSpanError("it is not a whole number of microseconds")
    return timedelta(microseconds=int(microseconds))
