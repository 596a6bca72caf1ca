"""Arrow batches to plain arrays; what is wrong with a row becomes a reason, not an error.

A value that is missing is *unknown*, and no fault of its row: NaN among the attributes, 0 as the
weight. A column of an attribute or of the weight that a batch lacks is unknown in all its rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from everquery.core.arrays import Array, Bytes, Floats, Int64s
from everquery.core.columns import exact_floats, is_numeric
from everquery.core.crew import ALONE, Crew
from everquery.core.soundness import is_text, names_of, plain, unsound
from everquery.errors import InvalidBatchError
from everquery.index.weighed import HEAVIEST
from everquery.stream import Stream

# A column that sources add to a batch: a map from the name of a column to the text of a value that
# was there, but is not what the column holds. The column itself is null in that row.
UNREADABLE = "everquery unreadable"
WORTH = 16_384  # keys that are worth a thread
LONGEST_TEXT = 200  # letters of such a text that are kept

# Why a row is refused. Their places are in checkpoints and snapshots: new ones come last.
# reasons.py says what each means.
REASONS = (
    "",
    "null_key",
    "null_time",
    "inexact_attribute",
    "bad_weight",
    "late",
    "unreadable_key",
    "unreadable_time",
    "unreadable_attribute",
    "unreadable_weight",
    "ahead",
)
(
    FINE,
    NULL_KEY,
    NULL_TIME,
    INEXACT_ATTRIBUTE,
    BAD_WEIGHT,
    LATE,
    UNREADABLE_KEY,
    UNREADABLE_TIME,
    UNREADABLE_ATTRIBUTE,
    UNREADABLE_WEIGHT,
    AHEAD,
) = range(len(REASONS))
UNREADABLE_TYPE = pa.map_(pa.string(), pa.string())
_LONG_INTEGER = r"^\s*[+-]?\d{16,}\s*$"  # one that float64 may not hold


@dataclass(slots=True)  # frozen, it would take three times as long to make
class Arrivals:
    """A batch as it arrived.

    Attributes
    ----------
    key : Arrow array of strings or int64, perhaps dictionary-encoded; None for a stream without key
        In chunks where threads decoded it.
    time : int64 or float64, shape (n,); None for a stream without time
    time_type : the Arrow type of the time column
    values : float64, shape (attributes, n)
        NaN where a value is unknown.
    weight : int64, shape (n,); None for a stream without weight
        0 where it is unknown.
    refused : uint8, shape (n,)
        0, or why the row is refused: a place in `REASONS`.
    culprit : int8, shape (n,)
        The attribute that is at fault, or -1.
    text : Arrow array of strings, shape (n,); None if no row has one
        The value that is at fault as it was read, where that is known.
    oldest, newest : int or float, optional
        For a part of a larger batch: the least and the largest time of the good rows in all parts.
    latest : int or float, optional
        The latest time that a clock allows; later rows are refused. None without a clock.
    fine : bool
        Whether it is known that no row is refused.
    """

    key: pa.Array | pa.ChunkedArray | None
    time: Array | None
    time_type: pa.DataType
    values: Floats
    weight: Int64s | None
    refused: Bytes
    culprit: Array
    text: pa.Array | None = None
    oldest: int | float | None = None
    newest: int | float | None = None
    latest: int | float | None = None
    fine: bool = False

    def __len__(self) -> int:
        return int(self.refused.size)


def decode(batch: pa.RecordBatch | pa.Table, stream: Stream, crew: Crew = ALONE) -> Arrivals:
    """Read the stream's columns.

    Raises
    ------
    InvalidBatchError
        If the column of keys or times is missing, or one is of a type that can't hold what it
        should.
    """
    columns = _columns(batch, stream)
    n = batch.num_rows
    faults = _Faults(n, unread_values(batch))
    culprit = np.full(n, -1, np.int8)
    key = None
    if stream.key is not None:
        key = _key(columns[stream.key], stream.key, faults, crew)
    time, time_type = None, pa.null()
    if stream.time is not None:
        time, time_type = _time(columns[stream.time], stream.time, faults)
    values = np.empty((len(stream.attributes), n), np.float64)
    for i, name in enumerate(stream.attributes):
        if name not in columns:
            values[i] = np.nan
            continue
        before = faults.refused != FINE
        values[i] = _attribute(columns[name], name, faults)
        culprit[(faults.refused != FINE) & ~before] = i
    weight = None
    if stream.weight is not None:
        weight = np.zeros(n, np.int64)
        if stream.weight in columns:
            weight = _weight(columns[stream.weight], stream.weight, faults)
    return Arrivals(
        key, time, time_type, values, weight, faults.refused, culprit, text=faults.text()
    )


class _Faults:
    """What is wrong with the rows of a batch: the first reason against each, and the value.

    Parameters
    ----------
    rows : int
    unread : dict from column to rows and texts
        What a source could not read.
    """

    def __init__(self, rows: int, unread: dict[str, tuple[Int64s, pa.Array]]) -> None:
        self.refused: Bytes = np.zeros(rows, np.uint8)
        self._unread = unread
        self._rows: list[Int64s] = []
        self._texts: list[pa.Array] = []

    def note(self, rows: Array, reason: int, column: pa.Array | None = None) -> None:
        """Note a reason for rows that have none yet, and their values in a column."""
        fresh = rows & (self.refused == FINE)
        self.refused[fresh] = reason
        if column is not None and fresh.any():
            self._keep(np.flatnonzero(fresh), column.take(pa.array(np.flatnonzero(fresh))))

    def note_unread(self, name: str, reason: int, *, number: int | None = None) -> None:
        """Note a reason for rows of which a column could not be read.

        `number` is the reason where the text is a whole number that is too long.
        """
        if name not in self._unread:
            return
        rows, texts = self._unread[name]
        fresh = self.refused[rows] == FINE
        reasons = np.full(rows.size, reason, np.uint8)
        if number is not None:
            reasons[np.asarray(pc.match_substring_regex(texts, _LONG_INTEGER))] = number
        self.refused[rows[fresh]] = reasons[fresh]
        self._keep(rows[fresh], texts.filter(pa.array(fresh)))

    def _keep(self, rows: Int64s, values: pa.Array) -> None:
        self._rows.append(rows)
        self._texts.append(pc.utf8_slice_codeunits(values.cast(pa.string()), 0, LONGEST_TEXT))

    def text(self) -> pa.Array | None:
        """Return the values at fault, by row."""
        if not self._rows:
            return None
        place = np.full(self.refused.size, -1, np.int64)
        rows = np.concatenate(self._rows)
        place[rows] = np.arange(rows.size)
        return pa.concat_arrays(self._texts).take(pa.array(place, mask=place < 0))


def unread_values(batch: pa.RecordBatch | pa.Table) -> dict[str, tuple[Int64s, pa.Array]]:
    """Return which rows of which columns a source could not read, and their texts."""
    at = batch.schema.get_field_index(UNREADABLE)
    if at < 0 or not _is_map_of_texts(batch.schema.field(at).type):
        return {}
    column = batch.column(at)
    if unsound(column) is not None:
        return {}
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            column = column.chunk(0)
    offsets = np.asarray(column.offsets)
    rows = np.repeat(np.arange(len(column)), np.diff(offsets))
    names = column.keys.slice(offsets[0], rows.size)
    texts = column.items.slice(offsets[0], rows.size)
    found = {}
    for name in pc.unique(names).to_pylist():
        picked = pc.equal(names, name)
        found[name] = rows[np.asarray(picked)], texts.filter(picked)
    return found


def _is_map_of_texts(kind: pa.DataType) -> bool:
    """Tell whether it is `UNREADABLE_TYPE`; what others write may differ in what can be null."""
    return bool(pa.types.is_map(kind) and {kind.key_type, kind.item_type} == {pa.string()})


def _columns(batch: pa.RecordBatch | pa.Table, stream: Stream) -> dict[str, pa.Array]:
    """Return the columns of the stream that a batch has."""
    if not isinstance(batch, (pa.RecordBatch, pa.Table)):
        raise InvalidBatchError(
            f"stream {stream.name!r}: a batch is a pyarrow RecordBatch or Table,"
            f" not {type(batch).__name__}"
        )
    columns = {}
    for name in stream.columns():
        if batch.schema.get_field_index(name) < 0:
            names = names_of(batch.schema)
            if name not in names and name not in stream.needed_columns():
                continue
            problem = "twice" if name in names else f"not at all; it has {', '.join(names)}"
            raise InvalidBatchError(
                f"stream {stream.name!r} needs column {name!r}, and the batch has it {problem}."
                " The batch is refused whole and nothing has changed"
            )
        columns[name] = _sound(batch.column(name), name, batch.num_rows)
    return columns


def _sound(column: pa.Array | pa.ChunkedArray, name: str, rows: int) -> pa.Array:
    """Return a column as one array that may be read."""
    reason = unsound(column)
    if len(column) != rows:
        reason = f"it has {len(column)} rows, and the batch {rows}"
    if reason is not None:
        raise InvalidBatchError(
            f"column {name!r} is broken: {reason}. The batch is refused whole and nothing has"
            " changed"
        )
    if isinstance(column, pa.ChunkedArray):
        try:
            column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        except pa.ArrowException as error:
            raise InvalidBatchError(f"column {name!r} can't be joined: {error}") from None
        if isinstance(column, pa.ChunkedArray):  # too large for one array of its type
            raise InvalidBatchError(f"column {name!r} is larger than one Arrow array; split it")
    return column


def _wrong_type(name: str, column: pa.Array, wanted: str) -> InvalidBatchError:
    return InvalidBatchError(
        f"column {name!r} has type {column.type}; it must be {wanted}."
        " The batch is refused whole and nothing has changed"
    )


def _key(column: pa.Array, name: str, faults: _Faults, crew: Crew) -> pa.Array | pa.ChunkedArray:
    types = pa.types
    values = column.type.value_type if types.is_dictionary(column.type) else column.type
    if types.is_string_view(values):
        column, values = plain(column), pa.string()
    if types.is_null(values):
        column = pa.nulls(len(column), pa.string())
    elif types.is_integer(values):
        try:
            column = plain(column).cast(pa.int64())
        except pa.ArrowInvalid as error:
            raise InvalidBatchError(f"column {name!r}: {error}; keys are 64-bit integers") from None
    elif not (types.is_string(values) or types.is_large_string(values)):
        raise _wrong_type(name, column, "strings or integers")
    elif types.is_dictionary(column.type) and column.dictionary.null_count:
        # A dictionary may hold nulls as values too; `is_valid` of the indices does not see them.
        column = plain(column)
    if not types.is_integer(values):
        column = _texts(column, name, crew)
    faults.note_unread(name, UNREADABLE_KEY)
    if column.null_count:
        faults.note(np.asarray(column.is_null()), NULL_KEY)
    return column


def _texts(column: pa.Array, name: str, crew: Crew) -> pa.Array | pa.ChunkedArray:
    """Return keys that are strings with each distinct one once; raise if one is no UTF-8.

    Where several threads find them, each does so for a part of the rows.
    """
    parts = [column]
    if not pa.types.is_dictionary(column.type):
        # Arrow finds a batch's distinct keys twice as fast as our own table would.
        pieces = crew.pieces(len(column), WORTH) if not column.null_count else [(0, len(column))]
        parts = crew.map(
            lambda piece: column.slice(piece[0], piece[1] - piece[0]).dictionary_encode(), pieces
        )
    if not all(is_text(part.dictionary) for part in parts):
        raise InvalidBatchError(
            f"column {name!r} has a key that is no text in UTF-8. The batch is refused whole and"
            " nothing has changed"
        )
    return parts[0] if len(parts) == 1 else pa.chunked_array(parts)


def _time(column: pa.Array, name: str, faults: _Faults) -> tuple[Array, pa.DataType]:
    kind = column.type
    faults.note_unread(name, UNREADABLE_TIME)
    if column.null_count:
        faults.note(np.asarray(column.is_null()), NULL_TIME)
    if pa.types.is_floating(kind):
        time = np.asarray(column.cast(pa.float64()).fill_null(0.0))
        faults.note(np.isnan(time), NULL_TIME)
        return time, pa.float64()
    if pa.types.is_date32(kind):
        column = column.cast(pa.int32())
    elif pa.types.is_integer(kind):
        kind = pa.int64()
    elif pa.types.is_null(kind):
        return np.zeros(len(column), np.int64), kind  # every row is refused; no type to learn
    elif not (pa.types.is_timestamp(kind) or pa.types.is_date64(kind)):
        raise _wrong_type(name, column, "timestamps, dates or numbers")
    try:
        column = column.cast(pa.int64())
        return np.asarray(column.fill_null(0) if column.null_count else column), kind
    except pa.ArrowInvalid as error:
        raise InvalidBatchError(f"column {name!r}: {error}; times are 64-bit") from None


def _attribute(column: pa.Array, name: str, faults: _Faults) -> Floats:
    column = plain(column)
    if not is_numeric(column.type):
        raise _wrong_type(name, column, "numbers")
    faults.note_unread(name, UNREADABLE_ATTRIBUTE, number=INEXACT_ATTRIBUTE)
    floats, null, inexact = exact_floats(column)
    if null is not None:
        floats = np.where(null, np.nan, floats)
    if inexact is not None:
        faults.note(inexact, INEXACT_ATTRIBUTE, column)
    return floats


def _weight(column: pa.Array, name: str, faults: _Faults) -> Int64s:
    column = plain(column)
    kind = column.type
    if not is_numeric(kind):
        raise _wrong_type(name, column, "integers")
    faults.note_unread(name, UNREADABLE_WEIGHT, number=BAD_WEIGHT)
    if pa.types.is_integer(kind):
        numbers = np.asarray(column.fill_null(pa.scalar(0, kind)))
        good = (numbers <= HEAVIEST) & (numbers >= -HEAVIEST)
    else:
        numbers = np.asarray(column.cast(pa.float64()).fill_null(0.0))
        numbers = np.where(np.isnan(numbers), 0.0, numbers)
        good = (numbers == np.floor(numbers)) & (np.abs(numbers) <= HEAVIEST)
    if not good.all():
        faults.note(~good, BAD_WEIGHT, column)
        numbers = np.where(good, numbers, 0)
    return numbers.astype(np.int64)
