"""The numbers of a kind of query: fields of its spec, columns of its tables and blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from everquery.core.columns import exact_floats
from everquery.errors import InvalidQueryError
from everquery.queries.fields import Field, RangeField
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

    def column_of(self, values: Sequence[Any], attributes: Sequence[str] = ()) -> NumberColumn:
        """Return what specs have in this field as a column.

        Parameters
        ----------
        attributes : sequence of str
            Those that the boxes of the queries name, in the order of the stream.
        """
        return np.array([NO_NUMBER if value is None else value for value in values], self.dtype)

    def shown(self, numbers: NumberColumn, attributes: Sequence[str]) -> pa.Array:
        """Return a column as people know it, null where a query has no such number."""
        return pa.array(numbers, mask=numbers == NO_NUMBER)

    @property
    def shown_type(self) -> pa.DataType:
        """The type of what people know."""
        return pa.from_numpy_dtype(self.dtype)

    @property
    def source(self) -> str:
        """The field of the spec that says it."""
        return self.name

    @property
    def is_text(self) -> bool:
        """Whether people write texts that stand for numbers."""
        return bool(self.shown_type == pa.string())

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


@dataclass(frozen=True, slots=True)
class WordField(NumberField):
    """One of several words; in columns its place among them, from 1 on.

    Examples
    --------
    >>> size = WordField("size", words=("small", "large"))
    >>> size.read_all("large"), size.column_of(["large", "small"]).tolist()
    ('large', [2, 1])
    """

    words: tuple[str, ...] = field(kw_only=True)
    whole: bool = field(default=True, kw_only=True)
    limits: tuple[Limit, ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        most = len(self.words)
        known = ", ".join(self.words)
        beyond = Limit(lambda code: (code < 1) | (code > most), f"must be one of {known}")
        object.__setattr__(self, "limits", (beyond,))
        object.__setattr__(self, "takes", self.takes or f"one of {known}")

    def read_all(self, value: Any) -> Any:  # noqa: ANN401 - it is here to find out
        """Return the word that a user gave."""
        if not isinstance(value, str) or value not in self.words:
            raise InvalidQueryError(
                f"{self.name} is {value!r}; it takes one of {', '.join(self.words)}"
            )
        return value

    def column_of(self, values: Sequence[Any], attributes: Sequence[str] = ()) -> NumberColumn:
        """Return the places of words."""
        codes = [NO_NUMBER if value is None else self.words.index(value) + 1 for value in values]
        return np.array(codes, np.int64)

    def shown(self, numbers: NumberColumn, attributes: Sequence[str]) -> pa.Array:
        """Return the words."""
        return _named(numbers, self.words)

    @property
    def shown_type(self) -> pa.DataType:
        """The type of what people know."""
        return pa.string()

    def read_column(self, column: pa.Array, note: Note) -> NumberColumn:
        """Return a column of words; see `NumberField.read_column`."""
        null: Bools = np.asarray(column.is_null())
        if self.required:
            note(null, f"{self.name} is null")
        codes = _places(column, self.words)
        note((codes == NO_NUMBER) & ~null, f"{self.name} {self.limits[0].reason}")
        return codes


@dataclass(frozen=True, slots=True)
class MeasuredField(NumberField):
    """The attribute that a query with a box is about; in columns its place in the box, from 1 on.

    The spec puts it into the box, without limits where the user gave none.
    """

    whole: bool = field(default=True, kw_only=True)
    required: bool = field(default=False, kw_only=True)
    limits: tuple[Limit, ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "takes", self.takes or "attribute")
        beyond = Limit(lambda place: place < 0, "must be the place of an attribute")
        object.__setattr__(self, "limits", (beyond,))

    def read_all(self, value: Any) -> Any:  # noqa: ANN401 - it is here to find out
        """Return the name that a user gave."""
        if not isinstance(value, str):
            raise InvalidQueryError(f"{self.name} is {value!r}; it must be the name of one")
        return value

    def column_of(self, values: Sequence[Any], attributes: Sequence[str] = ()) -> NumberColumn:
        """Return the places of attributes in their boxes."""
        places = [NO_NUMBER if name is None else attributes.index(name) + 1 for name in values]
        return np.array(places, np.int64)

    def shown(self, numbers: NumberColumn, attributes: Sequence[str]) -> pa.Array:
        """Return the names of attributes."""
        return _named(numbers, attributes)

    @property
    def shown_type(self) -> pa.DataType:
        """The type of what people know."""
        return pa.string()

    def places(self, column: pa.Array, attributes: Sequence[str], note: Note) -> NumberColumn:
        """Return the places of a column's names among all attributes, from 1 on."""
        null: Bools = np.asarray(column.is_null())
        found = _places(column, attributes)
        known = ", ".join(map(repr, attributes)) or "none"
        note((found == NO_NUMBER) & ~null, f"{self.name} is no attribute (there is {known})")
        return found


@dataclass(frozen=True, slots=True)
class EndField(NumberField):
    """One end of a range of what a query with a box tells; in columns its bits, 0 for no limit.

    0.0 itself is written as -0.0: as a limit both are the same, and its bits are not 0.

    Attributes
    ----------
    of : RangeField
    place : int
        0 for the lower end, 1 for the upper.

    Examples
    --------
    >>> from everquery import Interval
    >>> upper = EndField.of_range(RangeField("when"))[1]
    >>> upper.ends(upper.column_of([Interval(0, 0.5), Interval(0, None), None])).tolist()
    [0.5, nan, nan]
    """

    of: RangeField = field(kw_only=True)
    place: int = field(kw_only=True)
    whole: bool = field(default=True, kw_only=True)
    required: bool = field(default=False, kw_only=True)
    limits: tuple[Limit, ...] = field(default=(), kw_only=True)

    @classmethod
    def of_range(cls, field: RangeField) -> tuple[EndField, EndField]:
        """Return both ends of a range."""
        lower, upper = field.columns
        return cls(lower, of=field, place=0), cls(upper, of=field, place=1)

    @property
    def source(self) -> str:
        """The field of the spec that says it."""
        return self.of.name

    def __post_init__(self) -> None:
        object.__setattr__(self, "takes", "number, null for no limit")
        beyond = Limit(lambda bits: np.isnan(np.int64(bits).view(np.float64)), "must be no NaN")
        object.__setattr__(self, "limits", (beyond,))

    def column_of(self, values: Sequence[Any], attributes: Sequence[str] = ()) -> NumberColumn:
        """Return the bits of the ends of ranges."""
        none = (-np.inf, np.nan)
        ends = [(none if each is None else each.half_open())[self.place] for each in values]
        return self._bits(np.array(ends, np.float64))

    def _bits(self, ends: npt.NDArray[np.float64]) -> NumberColumn:
        bits = np.where(ends == 0, -0.0, ends).view(np.int64)
        limited = ends != -np.inf if self.place == 0 else ~np.isnan(ends)
        return np.where(limited, bits, NO_NUMBER)

    def ends(self, numbers: NumberColumn) -> npt.NDArray[np.float64]:
        """Return half-open ends: -inf or NaN where there is no limit."""
        none = -np.inf if self.place == 0 else np.nan
        found: npt.NDArray[np.float64] = np.where(
            numbers == NO_NUMBER, none, numbers.astype(np.int64).view(np.float64) + 0.0
        )
        return found

    def shown(self, numbers: NumberColumn, attributes: Sequence[str]) -> pa.Array:
        """Return the ends, null where there is no limit."""
        return pa.array(self.ends(numbers), mask=numbers == NO_NUMBER)

    @property
    def shown_type(self) -> pa.DataType:
        """The type of what people know."""
        return pa.float64()

    def read_column(self, column: pa.Array, note: Note) -> NumberColumn:
        """Return a column of ends; see `NumberField.read_column`."""
        given, null, inexact = exact_floats(column)
        note(np.isnan(given), f"{self.name} is NaN, which no value compares with")
        if inexact is not None:
            note(inexact, f"{self.name} is a number that float64 can't hold exactly")
        bits = self._bits(np.where(np.isnan(given), np.inf, given))
        return bits if null is None else np.where(null, NO_NUMBER, bits)


def _named(numbers: NumberColumn, names: Sequence[str]) -> pa.Array:
    places = pa.array(numbers - 1, mask=numbers == NO_NUMBER)
    return pa.array(names, pa.string()).take(places)


def _places(column: pa.Array, names: Sequence[str]) -> NumberColumn:
    found = pc.index_in(column.cast(pa.string()), value_set=pa.array(names, pa.string()))
    places: NumberColumn = np.asarray(found.fill_null(-1)).astype(np.int64) + 1
    return places
