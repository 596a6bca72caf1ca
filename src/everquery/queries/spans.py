"""Spans of time as columns: how long queries live, dwell and hold back, in whatever unit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from everquery.stream import LONGEST_SPAN, Span

# The unit of a span. A number is in the unit of the time column, which may be known later only.
NO_SPAN, WHOLE, FRACTION, MICROSECONDS, NANOSECONDS = range(5)

_DAY = 86_400 * 10**9
_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}

Numbers = npt.NDArray[Any]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class SpanColumn:
    """A span of each query.

    Attributes
    ----------
    amount : int64, shape (n,)
        How many units; the bits of a float64 where the unit is `FRACTION`.
    unit : uint8, shape (n,)
        One of the constants of this module.
    """

    amount: npt.NDArray[np.int64]
    unit: npt.NDArray[np.uint8]

    def take(self, picked: Numbers | slice) -> SpanColumn:
        """Return the picked rows, in that order."""
        return SpanColumn(self.amount[picked], self.unit[picked])

    def given(self) -> Bools:
        """Tell which queries have the span at all."""
        given: Bools = self.unit != NO_SPAN
        return given

    def fractions(self) -> npt.NDArray[np.float64]:
        """Return the amounts where the unit is `FRACTION`; of the others, nothing that counts."""
        return np.ascontiguousarray(self.amount).view(np.float64)

    def in_units(self, kind: pa.DataType) -> tuple[Numbers, Bools]:
        """Return the spans in units of a time column's type, and which of them can't be said so.

        0 where there is no span.
        """
        floating = kind == pa.float64()
        units = self.amount.copy()
        bad = np.zeros(units.size, np.bool_)
        numbers = self.fractions()
        fraction = self.unit == FRACTION
        if floating:
            values = np.where(fraction, numbers, self.amount)
        else:
            bad |= fraction & (numbers != np.floor(numbers))
            units[fraction] = 0
            values = units
        per_unit = _nanoseconds_of(kind)
        for unit, size in ((MICROSECONDS, 1_000), (NANOSECONDS, 1)):
            timed = self.unit == unit
            if not timed.any():
                continue
            if per_unit is None:
                bad |= timed
                continue
            up, down = max(size // per_unit, 1), max(per_unit // size, 1)
            bad |= timed & ((self.amount % down != 0) | (self.amount > LONGEST_SPAN // up))
            values = np.where(timed, self.amount // down * up, values)
        values = np.where(self.unit == NO_SPAN, 0, values)
        return np.where(bad, 0, values).astype(np.float64 if floating else np.int64), bad

    def span(self, row: int) -> Span | None:
        """Return the span of a row; nanoseconds below a microsecond as a fraction of one."""
        amount = int(self.amount[row])
        match self.unit[row]:
            case 1:  # WHOLE
                return amount
            case 2:  # FRACTION
                return float(self.fractions()[row])
            case 3:  # MICROSECONDS
                return timedelta(microseconds=amount)
            case 4:  # NANOSECONDS
                return timedelta(microseconds=amount / 1_000)
        return None


def _nanoseconds_of(kind: pa.DataType) -> int | None:
    """Return how long a unit of a time column is; None where that is not known."""
    if pa.types.is_timestamp(kind):
        return _NANOSECONDS[kind.unit]
    if pa.types.is_date32(kind):
        return _DAY
    return _NANOSECONDS["ms"] if pa.types.is_date64(kind) else None


def no_spans(n: int) -> SpanColumn:
    """Return a column of so many queries without span."""
    return SpanColumn(np.zeros(n, np.int64), np.zeros(n, np.uint8))


def column_of_spans(spans: Sequence[Span | None]) -> SpanColumn | None:
    """Return spans that are valid as a column; None if there is none."""
    if all(span is None for span in spans):
        return None
    column = no_spans(len(spans))
    for row, span in enumerate(spans):
        if isinstance(span, timedelta):
            column.amount[row] = span // timedelta(microseconds=1)
            column.unit[row] = MICROSECONDS
        elif isinstance(span, float) and not span.is_integer():
            column.amount[row] = np.array(span).view(np.int64)
            column.unit[row] = FRACTION
        elif span is not None:
            column.amount[row] = int(span)
            column.unit[row] = WHOLE
    return column


def column_of_arrow(column: pa.Array) -> tuple[SpanColumn, Bools, Bools] | None:
    """Return an Arrow column of numbers or durations, and which are not positive or too long.

    None if it is of another type.
    """
    kind = column.type
    spans = no_spans(len(column))
    if pa.types.is_null(kind):
        return spans, spans.given(), spans.given()
    given = np.asarray(column.is_valid())
    if pa.types.is_duration(kind):
        numbers = np.asarray(column.cast(pa.int64()).fill_null(1))
        size = _NANOSECONDS[kind.unit]
        unit = NANOSECONDS if kind.unit == "ns" else MICROSECONDS
        factor = max(size // 1_000, 1)
        if kind.unit == "ns" and not (numbers[given] % 1_000).any():
            numbers, unit = numbers // 1_000, MICROSECONDS
        too_long = given & (numbers >= LONGEST_SPAN // factor)
        spans.amount[:] = np.where(too_long, 1, numbers * factor)
    elif pa.types.is_integer(kind):
        numbers = np.asarray(column.fill_null(pa.scalar(1, kind)))
        too_long, unit = given & (numbers >= LONGEST_SPAN), WHOLE
        spans.amount[:] = np.where(too_long, 1, numbers)
    elif pa.types.is_floating(kind):
        numbers = np.asarray(column.cast(pa.float64()).fill_null(1.0))
        too_long = given & (numbers >= LONGEST_SPAN)
        whole = (numbers == np.floor(numbers)) & (numbers < LONGEST_SPAN) & (numbers > 0)
        spans.amount[:] = np.where(whole, np.where(whole, numbers, 1), 0).astype(np.int64)
        spans.amount[~whole] = numbers[~whole].view(np.int64)
        spans.unit[:] = np.where(given, np.where(whole, WHOLE, FRACTION), NO_SPAN)
        return spans, given & ~(numbers > 0), too_long
    else:
        return None
    spans.unit[:] = np.where(given, unit, NO_SPAN)
    spans.amount[~given] = 0
    return spans, given & ~(numbers > 0), too_long


def misfit(name: str, span: Span | None, kind: pa.DataType) -> str:
    """Return the sentence for a span that a time column of this type can't tell."""
    if isinstance(span, timedelta) and _nanoseconds_of(kind) is None:
        return (
            f"{name} is {span}, and times of type {kind} have no unit to measure it by;"
            " give a number"
        )
    return (
        f"{name} is {span}, which is no whole number of the units of {kind} (or is longer than"
        " such times are); give another span"
    )
