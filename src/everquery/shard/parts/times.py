"""What saved times must be: their type, and those of the header."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.ipc

from everquery.core.invariants import is_whole, refuse, short
from everquery.errors import EverqueryError
from everquery.state.said_times import span_in_units
from everquery.stream import SPANS, Stream

TIMES = ("newest", "oldest", "began", "passed")


def read_time_type(content: bytes | None, stream: Stream) -> pa.DataType | None:
    """Return the type of times that was saved, None if it was not known; raise if it can't be."""
    if content is None:
        refuse("it does not say of which type times are")
    try:
        kind = pa.ipc.read_schema(pa.py_buffer(content)).field("time").type
        known = None if pa.types.is_null(kind) else kind
        if known is not None:
            _check_time_type(known, stream)
    except (pa.ArrowException, KeyError, ValueError, OSError, EverqueryError) as error:
        refuse(f"the type of times can't be read ({str(error)[:200]})")
    return known


def _check_time_type(kind: pa.DataType, stream: Stream) -> None:
    types = pa.types
    temporal = types.is_timestamp(kind) or types.is_date32(kind) or types.is_date64(kind)
    if stream.time is None or not (temporal or kind in (pa.int64(), pa.float64())):
        raise ValueError(f"{kind} on this stream")
    if types.is_timestamp(kind):
        pa.scalar(0, kind).cast(pa.string())  # the time zone may be none
    for span in SPANS:
        span_in_units(getattr(stream, span), kind, str(stream.time))


def dtype_of(kind: pa.DataType | None) -> str:
    """Return the NumPy type in which times of a type are kept."""
    return "float64" if kind == pa.float64() else "int64"


def check_time(name: str, values: Mapping[str, Any], kind: pa.DataType | None) -> None:
    """Raise if a time of a header is not of the type that the stream's times have."""
    if name not in values:
        refuse(f"it does not say {name!r}")
    value = values[name]
    if value is None:
        return
    if kind is None:
        refuse(f"{name} is {short(value)}, and there is no type of times")
    whole = is_whole(value) and -(2**63) <= value < 2**63
    number = isinstance(value, float) and value == value
    if not (number if kind == pa.float64() else whole):
        refuse(f"{name} is {short(value)}, and no time of type {kind}")
