"""Spans of time as columns: how long queries live, dwell and hold back, in whatever unit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from everquery.core.spans import LONGEST_SPAN, BadSpanError, Span, read_span
from everquery.core.times import nanoseconds_of

# The unit of a span. A number is in the unit of the time column, which may be known later only.
NO_SPAN, WHOLE, FRACTION, MICROSECONDS, NANOSECONDS = range(5)


Numbers = npt.NDArray[Any]
Bools = npt.NDArray[np.bool_]
Problem = tuple[Bools, str]  # which rows are bad, and why, after the name of the column

MOST_REASONS = 100  # reasons against texts of a column that are told apart


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

        0 where there is no span. Numbers are in the unit of integers and floats alone: what a
        unit of a timestamp or a date is, hardly anybody who writes a number has in mind.
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
        per_unit = nanoseconds_of(kind)
        if per_unit is not None:
            bad |= fraction | (self.unit == WHOLE)
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


def column_of_arrow(column: pa.Array) -> tuple[SpanColumn, list[Problem]] | None:
    """Return an Arrow column of texts, durations or numbers, and which rows are bad, and why.

    None if it is of another type.
    """
    kind = column.type
    spans = no_spans(len(column))
    if pa.types.is_null(kind):
        return spans, []
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _column_of_texts(column)
    given = np.asarray(column.is_valid())
    if pa.types.is_duration(kind):
        numbers = np.asarray(column.cast(pa.int64()).fill_null(1))
        size = nanoseconds_of(kind) or 1
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
        return spans, _bad_numbers(given & ~(numbers > 0), too_long)
    else:
        return None
    spans.unit[:] = np.where(given, unit, NO_SPAN)
    spans.amount[~given] = 0
    return spans, _bad_numbers(given & ~(numbers > 0), too_long)


def _bad_numbers(not_positive: Bools, too_long: Bools) -> list[Problem]:
    return [(too_long, "is longer than times are"), (not_positive, "must be positive")]


def _column_of_texts(column: pa.Array) -> tuple[SpanColumn, list[Problem]]:
    """Return spans as people write them; each distinct text is read once."""
    distinct = column.dictionary_encode()
    texts = distinct.dictionary.to_pylist()
    place = np.asarray(distinct.indices.fill_null(len(texts)))
    read: list[Span | None] = []
    reasons: dict[str, list[int]] = {}
    for which, text in enumerate(texts):
        try:
            read.append(read_span(text))
        except BadSpanError as error:
            read.append(None)
            # Each reason costs a look at all rows, and whoever made the table decides how many.
            told = f"is {text!r}; {error}" if len(reasons) < MOST_REASONS else "is no span of time"
            reasons.setdefault(told, []).append(which)
    found = column_of_spans(read) or no_spans(len(texts))
    spans = SpanColumn(np.append(found.amount, 0), np.append(found.unit, np.uint8(NO_SPAN)))
    bad = [(np.isin(place, which), reason) for reason, which in reasons.items()]
    return spans.take(place), bad


def in_words(number: int | float | None) -> str:
    """Return what to give in place of a span that is a number without unit."""
    return f'a span with a unit, such as "{number}s", or a timedelta'


def misfit(name: str, span: Span | None, kind: pa.DataType) -> str:
    """Return the sentence for a span that a time column of this type can't tell."""
    if isinstance(span, timedelta) and nanoseconds_of(kind) is None:
        return (
            f"{name} is {span}, and times of type {kind} have no unit to measure it by;"
            " give a number"
        )
    if not isinstance(span, timedelta) and nanoseconds_of(kind) is not None:
        return f"{name} is {span}, and times are of type {kind}; give {in_words(span)}"
    return (
        f"{name} is {span}, which is no whole number of the units of {kind} (or is longer than"
        " such times are); give another span"
    )
