"""Events whose times come in another unit or time zone than the stream's: converted exactly."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from everquery.core.times import as_time, in_units_of, is_zoned, nanoseconds_of
from everquery.errors import InvalidBatchError
from everquery.state.events import FINE, Arrivals

_UNCHANGED = "The batch is refused whole and nothing has changed"


def in_time_type(arrivals: Arrivals, wanted: pa.DataType | None, column: str) -> Arrivals:
    """Return events with their times in the stream's type.

    Parameters
    ----------
    wanted : Arrow type or None
        None where it is not known yet.
    column : str
        The name of the time column.

    Raises
    ------
    InvalidBatchError
        If the types have nothing in common, or a time can't be said exactly in the stream's type.
    """
    kind, time = arrivals.time_type, arrivals.time
    if time is None or wanted is None or kind == wanted or pa.types.is_null(kind):
        return arrivals
    if nanoseconds_of(kind) is None or nanoseconds_of(wanted) is None:
        raise InvalidBatchError(
            f"column {column!r} has type {kind}, and had {wanted} before; cast it to one type."
            f" {_UNCHANGED}"
        )
    if is_zoned(kind) != is_zoned(wanted):
        advice = "convert them to it" if is_zoned(wanted) else "convert them to that clock's time"
        has = "no time zone" if is_zoned(wanted) else "a time zone"
        raise InvalidBatchError(
            f"column {column!r} has type {kind}, with {has}, and had {wanted} before; what"
            f" lies between the two only you know: {advice}. {_UNCHANGED}"
        )
    found, bad = in_units_of(time, kind, wanted)
    bad &= arrivals.refused == FINE
    if bad.any():
        row = int(np.argmax(bad))
        shown = as_time(time[row : row + 1], kind).cast(pa.string())[0].as_py()
        raise InvalidBatchError(
            f"column {column!r} has type {kind}, and {wanted}, which it had before, can't hold"
            f" {shown} (row {row}) exactly; round it, or begin with an engine that has seen"
            f" {kind} first. {_UNCHANGED}"
        )
    ends = {
        name: in_units_of(np.array([end]), kind, wanted)[0].item()
        for name in ("oldest", "newest")
        if (end := getattr(arrivals, name)) is not None
    }
    return replace(arrivals, time=found, time_type=wanted, **ends)
