"""Types of time columns: how long their units are, and times of one type in another, exactly."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from everquery.core.arrays import Array, Bools

_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
DAY = 86_400 * 10**9  # nanoseconds
_LARGEST = 2**63 - 1
_LAST_DAY = 2**31 - 1  # dates are 32-bit


def nanoseconds_of(kind: pa.DataType) -> int | None:
    """Return how long a unit of a time column is; None where that is not known: of numbers."""
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return _NANOSECONDS[kind.unit]
    if pa.types.is_date32(kind):
        return DAY
    return _NANOSECONDS["ms"] if pa.types.is_date64(kind) else None


def is_zoned(kind: pa.DataType) -> bool:
    """Tell whether times of this type are moments, and not readings of a clock somewhere."""
    return pa.types.is_timestamp(kind) and kind.tz is not None


def as_time(times: Array, kind: pa.DataType) -> pa.Array:
    """Return times as an Arrow array of the stream's type."""
    if pa.types.is_null(kind):
        return pa.nulls(times.size)
    if pa.types.is_date32(kind):
        return pa.array(times.astype(np.int32)).view(kind)
    found = pa.array(times)
    return found if found.type == kind else found.view(kind)


def in_units_of(times: Array, kind: pa.DataType, wanted: pa.DataType) -> tuple[Array, Bools]:
    """Return timestamps or dates in the units of another such type, and which are not exactly so.

    Of those, the nearest time that the type has before them is returned, or the last one it has.

    Examples
    --------
    >>> in_units_of(np.array([1_000, 1_500]), pa.timestamp("ns"), pa.timestamp("us"))
    (array([1, 1]), array([False,  True]))
    """
    have, want = nanoseconds_of(kind), nanoseconds_of(wanted)
    assert have is not None
    assert want is not None
    last = _LAST_DAY if pa.types.is_date32(wanted) else _LARGEST
    if have >= want:
        factor = have // want
        last //= factor
        found, bad = times, np.zeros(times.size, np.bool_)
    else:
        factor = 1
        found, rest = np.divmod(times, want // have)
        bad = rest != 0
    beyond = (found > last) | (found < -last)
    return np.clip(found, -last, last) * factor, bad | beyond
