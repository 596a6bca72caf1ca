"""What a saved array must be, said as data, and one function that checks it.

Kernels do not check indices. So nothing that was saved reaches one before its type, its shape, its
bounds and its order are what the part of the state that wrote it promises.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from everquery.core.framing import DamagedError

Array = npt.NDArray[Any]
Bound = int | float | str
"""A number, or the name of a size."""

TIME = "time"
"""The type of times, which a snapshot says: int64 or float64."""
MOST = 2**62
"""No count is as large: sums of two of them are within 64 bits."""


@dataclass(frozen=True, slots=True)
class Column:
    """What one array must be.

    Attributes
    ----------
    dtype : str
        A NumPy type, or `TIME`.
    shape : tuple of int and str
        Names stand for sizes. One that is not known yet becomes what the array has there.
    least, below : number or name, optional
        Every entry is at least the one and below the other.
    rising : bool
        Every entry is larger than the one before.
    with_nan : bool
        Whether entries may be NaN.
    needed : bool
        Whether there must be such an array.
    """

    dtype: str
    shape: tuple[int | str, ...]
    least: Bound | None = None
    below: Bound | None = None
    rising: bool = False
    with_nan: bool = False
    needed: bool = True


@dataclass
class Contents:
    """Saved arrays, and what is known of them.

    Attributes
    ----------
    arrays : dict
    sizes : dict from name to number
    time_dtype : str
    seen : set
        The arrays that a schema has named; in the end, all must be.
    """

    arrays: Mapping[str, Array]
    sizes: dict[str, int]
    time_dtype: str = "int64"
    seen: set[str] = field(default_factory=set)

    def check(self, schema: Mapping[str, Column], prefix: str = "", **local: int) -> None:
        """Raise if arrays of a part are not as its schema says.

        Parameters
        ----------
        prefix : str
            What the arrays' names begin with.
        local : sizes that are those of this part only
        """
        sizes = {**self.sizes, **local}
        for name, column in schema.items():
            full = prefix + name
            array = self.arrays.get(full)
            if array is not None:
                self.seen.add(full)
                check_column(full, array, column, sizes, self.time_dtype)
            elif column.needed:
                refuse(f"it has no array {full!r}")
        self.sizes.update({name: sizes[name] for name in sizes if name not in local})

    def has(self, name: str) -> bool:
        """Tell whether there is such an array."""
        return name in self.arrays

    def __getitem__(self, name: str) -> Array:
        return self.arrays[name]

    def check_all_seen(self) -> None:
        """Raise if there are arrays that no schema names."""
        unknown = sorted(self.arrays.keys() - self.seen)
        if unknown:
            refuse(f"it has an array {unknown[0]!r}, which has no meaning")


def refuse(reason: str) -> NoReturn:
    """Raise that saved state can't be."""
    raise DamagedError(reason)


def check_column(
    name: str, array: Array, column: Column, sizes: dict[str, int], time_dtype: str
) -> None:
    """Raise if an array is not what it must be; sizes that are not known yet are noted."""
    wanted = time_dtype if column.dtype == TIME else column.dtype
    if array.dtype != np.dtype(wanted):
        refuse(f"array {name!r} has type {array.dtype}, and not {wanted}")
    expected = tuple(
        size if isinstance(size, int) else sizes.setdefault(size, found)
        for size, found in zip(column.shape, array.shape, strict=False)
    )
    if len(array.shape) != len(column.shape) or array.shape != expected:
        refuse(f"array {name!r} has shape {array.shape}, and not {expected}")
    if array.dtype.kind == "f" and not column.with_nan:
        check_none(np.isnan(array), name, array, "no number")
    for bound, is_bad, words in (
        (column.least, np.less, "less than"),
        (column.below, np.greater_equal, "not below"),
    ):
        if bound is not None:
            limit = sizes[bound] if isinstance(bound, str) else bound
            check_none(is_bad(array, limit), name, array, f"{words} {limit}")
    if column.rising:
        check_none(array[1:] <= array[:-1], name, array[1:], "not above the one before")


def check_none(bad: Array, name: str, array: Array, what: str) -> None:
    """Raise with the first entry that is bad."""
    if bad.any():
        place = int(np.argmax(bad))
        refuse(f"array {name!r} has {array.reshape(-1)[place]} at {place}, which is {what}")


def check_unique(name: str, values: Array | Iterable[Any]) -> None:
    """Raise if a value occurs twice."""
    listed = np.asarray(values)
    if np.unique(listed).size != listed.size:
        refuse(f"{name} has something twice")


def of_type(values: Mapping[str, Any], name: str, kind: type, default: Any = None) -> Any:  # noqa: ANN401 - of that type
    """Return a value of a header; raise if it is of another type."""
    value = values.get(name, default)
    if not isinstance(value, kind):
        refuse(f"{name} is {short(value)}, and not a {kind.__name__}")
    return value


def check_count(name: str, value: Any) -> None:  # noqa: ANN401 - it may be anything
    """Raise if a value of a header is no whole number from 0 on."""
    if not is_whole(value) or not 0 <= value < MOST:
        refuse(f"{name} is {short(value)}, and no count")


def is_whole(value: object) -> bool:
    """Tell whether a value of a header is a whole number."""
    return isinstance(value, int) and not isinstance(value, bool)


def short(value: object) -> str:
    """Return a value for an error message."""
    return repr(value)[:80]
