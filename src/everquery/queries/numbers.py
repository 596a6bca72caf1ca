"""The numbers of a kind of query: fields of its spec, columns of its tables and blocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from everquery.core.columns import exact_floats
from everquery.errors import InvalidQueryError
from everquery.queries.fields import Field
from everquery.queries.interval import exact_float

Bools = npt.NDArray[np.bool_]
Number = int | float
NumberColumn = npt.NDArray[np.int64] | npt.NDArray[np.float64]
Note = Callable[[Bools, str], None]

NO_NUMBER = 0  # in a column, where a query has no such number; no limits allow it


@dataclass(frozen=True, slots=True)
class Limit:
    """What a number must be.

    Attributes
    ----------
    breaks : function
        Takes one number or an array of them; returns whether, or which of them, are beyond.
    reason : str
        What the number must be, after "it": "must be 1 or more".
    """

    breaks: Callable[[Any], Any]
    reason: str


@dataclass(frozen=True, slots=True)
class NumberField(Field):
    """A number of a kind of query.

    Attributes
    ----------
    whole : bool
        Whether it is an integer (int64 in columns) or any number (float64).
    limits : tuple of Limit
        What it must be; 0 is always beyond them.
    required : bool
        Whether each query has one; where not, the field is None and the column 0.
    added : bool
        Whether there were queries before there was such a number: what a query without one says is
        what it said then, in saved state, in the registry and in the ids of its notices.
    several : bool
        Whether a composite may have several, each once, which its parts have one each of.

    Examples
    --------
    >>> share = NumberField("share", whole=False, limits=(Limit(lambda x: x <= 0, "must be > 0"),))
    >>> share.read(1)
    1.0
    >>> share.read(-1)
    Traceback (most recent call last):
    everquery.errors.InvalidQueryError: share is -1.0; it must be > 0
    """

    whole: bool = field(kw_only=True)
    limits: tuple[Limit, ...] = field(kw_only=True)
    required: bool = field(default=True, kw_only=True)
    added: bool = field(default=False, kw_only=True)
    several: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "takes", self.takes or self._limits_in_words())

    def _limits_in_words(self) -> str:
        number = "whole number" if self.whole else "number"
        return ", ".join(
            [number, *(limit.reason.removeprefix("must be ") for limit in self.limits)]
        )

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the column."""
        return np.dtype(np.int64 if self.whole else np.float64)

    def read(self, value: Any) -> Number:  # noqa: ANN401 - it is here to find out
        """Return the number that a user gave; raise `InvalidQueryError` if it can't be one."""
        if self.whole:
            number = int(value) if isinstance(value, np.integer) else value
            if isinstance(number, bool) or not isinstance(number, int):
                raise InvalidQueryError(f"{self.name} is {value!r}; it must be a whole number")
        else:
            number = exact_float(value, self.name)
        for limit in self.limits:
            if limit.breaks(number):
                raise InvalidQueryError(f"{self.name} is {number!r}; it {limit.reason}")
        return number

    def read_all(self, value: Any) -> Number | tuple[Number, ...]:  # noqa: ANN401 - as above
        """Return the number that a user gave, or several of them; a sequence of one is that one."""
        values = value.tolist() if isinstance(value, np.ndarray) else value
        if not self.several or not isinstance(values, (list, tuple)):
            return self.read(value)
        if not values:
            raise InvalidQueryError(f"{self.name} is {value!r}; give at least one")
        numbers = tuple(self.read(each) for each in values)
        for place, number in enumerate(numbers):
            if number in numbers[:place]:
                raise InvalidQueryError(f"{self.name} has {number!r} twice; give each once")
        return numbers if len(numbers) > 1 else numbers[0]

    def column_of(self, values: list[Any]) -> NumberColumn:
        """Return what specs have in this field as a column."""
        return np.array([NO_NUMBER if value is None else value for value in values], self.dtype)

    def read_column(self, column: pa.Array, note: Note) -> NumberColumn:
        """Return a numeric column of a table of queries.

        `note` is told which rows are bad, and why; what is returned of those is any number.
        """
        null: Bools = np.asarray(column.is_null())
        if self.required:
            note(null, f"{self.name} is null")
        if self.whole:
            given, fits = self._integers(column, null, note)
        else:
            given, fits = self._floats(column, null, note)
        for limit in self.limits:
            broken = limit.breaks(given) & ~null
            note(broken, f"{self.name} {limit.reason}")
            fits = fits & ~broken
        return np.where(fits, given, NO_NUMBER).astype(self.dtype)

    def _integers(self, column: pa.Array, null: Bools, note: Note) -> tuple[Any, Bools]:
        """Return integers, or floats without a fraction, and which are."""
        if pa.types.is_integer(column.type):
            return np.asarray(column.fill_null(pa.scalar(NO_NUMBER, column.type))), ~null
        given = np.asarray(column.cast(pa.float64()).fill_null(float(NO_NUMBER)))
        whole = given == np.floor(given)
        note(~whole, f"{self.name} must be a whole number")
        return given, whole & ~null

    def _floats(self, column: pa.Array, null: Bools, note: Note) -> tuple[Any, Bools]:
        given, _, inexact = exact_floats(column)
        unordered = np.isnan(given)
        note(unordered, f"{self.name} is NaN, which no value compares with")
        if inexact is not None:
            note(inexact, f"{self.name} is a number that float64 can't hold exactly")
        return given, ~null & ~unordered
