"""Whether an Arrow column may be read: its buffers hold what its lengths and offsets say.

Arrow does not look when arrays are made of buffers or come from another library, and reads beyond
a buffer where an offset or an index says so. What files hold is validated as it is read; this is
for what a program hands over, and looks only at what can lead outside: 50 microseconds a column of
100,000 rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_ASCII = 128
NO_NAME = "(no text in UTF-8)"


def unsound(column: pa.Array | pa.ChunkedArray) -> str | None:
    """Return why a column can't be read safely, or None.

    Texts may still be no UTF-8; see `is_text`.
    """
    if isinstance(column, pa.ChunkedArray):
        return next((reason for chunk in column.chunks if (reason := unsound(chunk))), None)
    try:
        return _unsound(column)
    except (pa.ArrowException, UnicodeError) as error:
        return (str(error).splitlines() or [type(error).__name__])[0][:200]


def _unsound(column: pa.Array) -> str | None:
    kind, types = column.type, pa.types
    if types.is_dictionary(kind):
        column.validate()
        indices, values = column.indices, column.dictionary
        return wrong_count(indices) or _unsound(values) or _stray_index(indices, len(values))
    text = types.is_string(kind) or types.is_large_string(kind)
    flat = text or types.is_primitive(kind)
    column.validate(full=not flat)
    if not flat:
        return None
    return wrong_count(column) or (_stray_offset(column) if text else None)


def wrong_count(column: pa.Array) -> str | None:
    """Return what is wrong with the number of nulls: functions of Arrow disagree on such arrays."""
    buffers = column.buffers()
    if buffers[0] is None:
        return None
    counted = pa.Array.from_buffers(column.type, len(column), buffers, -1, column.offset).null_count
    if counted == column.null_count:
        return None
    return f"it says that {column.null_count} values are null, and {counted} are"


def _stray_index(indices: pa.Array, size: int) -> str | None:
    if indices.null_count:
        indices = indices.drop_null()
    if not len(indices):
        return None
    places = np.asarray(indices)
    # Without its sign a negative index is larger than all others: one pass, not two.
    if int(places.view(f"u{places.itemsize}").max()) < size:
        return None
    stray = min(int(places.min()), 0) or int(places.max())
    return f"index {stray} is not in its dictionary, which has {size} values"


def _stray_offset(column: pa.Array) -> str | None:
    n = len(column)
    if not n:
        return None
    _, offsets, data = column.buffers()
    size = 0 if data is None else data.size
    width = np.int64 if pa.types.is_large_string(column.type) else np.int32
    starts: npt.NDArray[Any] = np.frombuffer(
        offsets, width, n + 1, column.offset * np.dtype(width).itemsize
    )
    if starts[0] < 0 or starts[-1] > size or (starts[1:] < starts[:-1]).any():
        return f"its offsets do not divide its {size} bytes into texts"
    return None


def names_of(schema: pa.Schema) -> list[str]:
    """Return the names of columns; one that is no UTF-8 can't be any that is wanted."""
    found = []
    for place in range(len(schema)):
        try:
            found.append(schema.field(place).name)
        except UnicodeDecodeError:
            found.append(NO_NAME)
    return found


def is_text(column: pa.Array) -> bool:
    """Tell whether all strings of a sound column are UTF-8; bytes below 128 all are."""
    n = len(column)
    data = column.buffers()[2] if n else None
    if data is None or not data.size or np.frombuffer(data, np.uint8).max() < _ASCII:
        return True
    try:
        column.validate(full=True)
    except pa.ArrowException:
        return False
    return True


def plain(column: pa.Array) -> pa.Array:
    """Return a sound column without dictionary, as a type that all functions of Arrow know."""
    if pa.types.is_dictionary(column.type):
        column = _usual(column.dictionary).take(column.indices)
    return _usual(column)


def _usual(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_string_view(kind):
        return column.cast(pa.string())
    if pa.types.is_decimal32(kind) or pa.types.is_decimal64(kind):
        return column.cast(pa.decimal128(kind.precision, kind.scale))
    return column
