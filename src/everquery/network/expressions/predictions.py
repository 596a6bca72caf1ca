"""Predictions at an index value from the rows around it: linear, nearest, previous."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from everquery.network.expressions.ranges import Floats, Ints, numbers_of
from everquery.network.grouping import search


def predict(
    name: str,
    column: Any,  # noqa: ANN401 - an Arrow array
    index: Any,  # noqa: ANN401 - an array of the index's type
    groups: Ints,
    wanted: tuple[Ints, Any, float],
) -> pa.Array:
    """Return a prediction for each wanted index value; NULL without a row that has a value.

    Parameters
    ----------
    name : str
        ``linear``: on the line between the nearest rows before and after; beyond them, on the line
        through the two nearest. ``nearest``: the value of the nearest row, the earlier of two.
        ``previous``: the value of the last row that is not behind it.
    column, index, groups : arrays
        Rows that are sorted by group and index.
    wanted : groups, index values, and how far rows may be from them
    """
    values, valid = numbers_of(column)
    values, index, groups = values[valid].astype(np.float64), index[valid], groups[valid]
    of, at, size = wanted
    low = search(groups, index, of, at - size, after=False)
    middle = search(groups, index, of, at, after=True)
    high = search(groups, index, of, at + size, after=True)
    before, after = middle - 1, middle
    has_before, has_after = before >= low, after < high
    if not values.size:
        return pa.nulls(at.size, pa.float64())
    own, place = _getter(values), _getter(index.astype(np.float64))
    if name == "previous":
        found, known = own(before), has_before
    elif name == "nearest":
        earlier = has_before & (~has_after | (at - place(before) <= place(after) - at))
        found, known = np.where(earlier, own(before), own(after)), has_before | has_after
    else:
        first = np.where(has_before, np.where(has_after, before, before - 1), after)
        second = np.where(has_before, np.where(has_after, after, before), after + 1)
        single = (first < low) | (second >= high)
        exact = has_before & (place(before) == at)
        line = _line(own(first), own(second), place(first), place(second), at)
        alone = np.where(has_before, own(before), own(after))
        found = np.where(exact | single, alone, line)
        known = has_before | has_after
    return pa.array(found, mask=~known)


def _getter(values: Floats) -> Any:  # noqa: ANN401 - a function from places to values
    return lambda places: values[np.clip(places, 0, values.size - 1)]


def _line(first: Floats, second: Floats, begin: Floats, end: Floats, at: Any) -> Floats:  # noqa: ANN401
    """Return the value at a place on the line through two points; the second's if they are one."""
    apart = end - begin
    share = np.divide(at - begin, apart, out=np.ones(apart.size), where=apart != 0)
    return np.asarray(first + (second - first) * share)
