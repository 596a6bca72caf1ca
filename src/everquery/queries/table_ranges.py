"""The ranges of a table of queries: from columns of ends to half-open boxes, a row each."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from everquery.core.columns import exact_floats, is_numeric
from everquery.queries.table_columns import fail
from everquery.queries.table_problems import Bools, Problems
from everquery.stream import Stream

Floats = npt.NDArray[np.float64]

CLOSED = ("left", "right", "both", "neither")


def read_ranges(
    columns: dict[str, pa.Array], stream: Stream, problems: Problems
) -> tuple[Floats, Floats, Bools]:
    """Return half-open ranges of all attributes, and which attributes each row restricts."""
    n = len(columns["id"])
    shape = (len(stream.places), n)
    low = np.full(shape, -np.inf)
    high = np.full(shape, np.nan)
    bounded = np.zeros(shape, np.bool_)
    closed = _closed(columns.get("closed"), n, problems)
    for a, attribute in enumerate(stream.attributes):
        for end, bounds in (("lo", low[a]), ("hi", high[a])):
            name = f"{attribute}_{end}"
            if name not in columns:
                continue
            if not is_numeric(columns[name].type):
                raise fail(f"column {name!r} has type {columns[name].type}; it must be numbers")
            floats, null, inexact = exact_floats(columns[name])
            given = np.ones(n, np.bool_) if null is None else ~null
            problems.note(np.isnan(floats), f"{name} is NaN, which no value compares with")
            if inexact is not None:
                problems.note(inexact, f"{name} is a number that float64 can't hold exactly")
            bounds[given] = floats[given] + 0.0  # -0.0 and 0.0 are one value
            bounded[a] |= given
            if closed is not None:
                _close(bounds, given, closed, end)
        problems.note(
            (high[a] <= low[a]) | np.isnan(low[a]),
            f"{attribute}_lo is not below {attribute}_hi, so the range holds no value",
        )
    return low, high, bounded


def whole_attributes(
    columns: dict[str, pa.Array], stream: Stream, problems: Problems
) -> tuple[Floats, Floats, Bools]:
    """Return ranges without limits, and the one attribute that each row names."""
    n = len(columns["id"])
    shape = (len(stream.places), n)
    bounded = np.zeros(shape, np.bool_)
    if "attribute" not in columns:
        bounded[0] = True
    else:
        named = columns["attribute"]
        which = pc.index_in(named, value_set=pa.array(stream.attributes, pa.string()))
        problems.note(np.asarray(named.is_null()), "attribute is null")
        problems.note(
            np.asarray(which.is_null()),
            f"stream {stream.name!r} has no such attribute (it has"
            f" {', '.join(map(repr, stream.attributes)) or 'none'})",
        )
        place = np.asarray(which.fill_null(0))
        for a in range(len(bounded)):
            bounded[a] = place == a
    return np.full(shape, -np.inf), np.full(shape, np.nan), bounded


def read_value_range(
    columns: dict[str, pa.Array],
    names: tuple[str, str],
    low: Floats,
    high: Floats,
    bounded: Bools,
    problems: Problems,
) -> None:
    """Write the range of what each row tells into that of the attribute that it names."""
    for name, bounds in zip(names, (low, high), strict=True):
        if name not in columns:
            continue
        if not is_numeric(columns[name].type):
            raise fail(f"column {name!r} has type {columns[name].type}; it must be numbers")
        floats, null, inexact = exact_floats(columns[name])
        given = np.ones(floats.size, np.bool_) if null is None else ~null
        problems.note(np.isnan(floats) & given, f"{name} is NaN, which no value compares with")
        if inexact is not None:
            problems.note(inexact, f"{name} is a number that float64 can't hold exactly")
        for a in range(len(bounds)):
            here = given & bounded[a]
            bounds[a, here] = floats[here] + 0.0
    empty = np.any((high <= low) & bounded, axis=0)
    problems.note(empty, f"{names[0]} is not below {names[1]}, so the range holds no value")


def _closed(column: pa.Array | None, n: int, problems: Problems) -> npt.NDArray[np.int32] | None:
    if column is None:
        return None
    which = pc.index_in(pc.fill_null(column, "left"), value_set=pa.array(CLOSED))
    problems.note(
        np.asarray(which.is_null()), f"closed must be one of {', '.join(CLOSED)}, or null"
    )
    return np.asarray(which.fill_null(0))


def _close(bounds: Floats, given: Bools, closed: npt.NDArray[np.int32], end: str) -> None:
    """Move the ends whose closedness is not that of a half-open range."""
    moved = np.isin(closed, (1, 3) if end == "lo" else (1, 2)) & given
    above = np.nextafter(bounds[moved], np.inf)
    top = bounds[moved] == np.inf
    # Above +inf is nothing: a range that ends there has no limit, one that begins there is empty.
    bounds[moved] = np.where(top, np.nan, above)
