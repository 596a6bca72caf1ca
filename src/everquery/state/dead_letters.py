"""Events that were refused: counted for ever, and the latest of them kept to be listed."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from everquery.core.arrays import Array, Bytes, Floats, Int64s
from everquery.state.events import (
    AHEAD,
    INEXACT_ATTRIBUTE,
    LATE,
    NULL_TIME,
    REASONS,
    UNREADABLE_ATTRIBUTE,
    UNREADABLE_KEY,
    UNREADABLE_TIME,
    UNREADABLE_WEIGHT,
)
from everquery.stream import Stream

KEPT = 100_000  # rows
MOST_TABLES = 256
EXAMPLES = 3  # of each reason

_DETAILS = {
    INEXACT_ATTRIBUTE: "{} is a number that float64 can't hold exactly",
    LATE: "older than the last accepted event of its key",
    AHEAD: "further ahead than the max_ahead of the stream allows",
}
_UNREAD = (UNREADABLE_KEY, UNREADABLE_TIME, UNREADABLE_ATTRIBUTE, UNREADABLE_WEIGHT)


@dataclass(frozen=True, slots=True)
class Letters:
    """Refused rows of one batch.

    Attributes
    ----------
    position : int64
        How many events had arrived before.
    reason : uint8
        Places in `REASONS`.
    culprit : int8
        The attribute at fault, or -1.
    key : Arrow array
    time : Arrow array
    values : float64, shape (attributes, n)
    text : Arrow array of strings, or None
        The value at fault as it was read, where that is known.
    """

    position: Int64s
    reason: Bytes
    culprit: Array
    key: pa.Array
    time: pa.Array
    values: Floats
    text: pa.Array | None = None


@dataclass(frozen=True, slots=True)
class Example:
    """A refused value.

    Attributes
    ----------
    row : int
        How many events had arrived before.
    column : str or None
    value : str or None
        As it was read; None where it was null, or is not known any more.
    """

    row: int
    column: str | None
    value: str | None


class DeadLetters:
    """What was refused, and why.

    Attributes
    ----------
    most : int or None
        How many are kept; None for all, where they are drained after every batch.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.most: int | None = KEPT
        self._kept: deque[pa.Table] = deque()
        self._rows = 0
        self.counts = np.zeros(len(REASONS), np.int64)
        self._examples: dict[int, list[Example]] = {}

    def __len__(self) -> int:
        """Return how many are kept."""
        return self._rows

    def add(self, letters: Letters) -> None:
        """Count the letters, and keep them; the oldest make room."""
        if not letters.reason.size:
            return
        self.counts += np.bincount(letters.reason, minlength=len(REASONS))
        self._take_examples(letters)
        self.keep(self._table(letters))

    def _take_examples(self, letters: Letters) -> None:
        """Keep the first letters of each reason."""
        for reason in np.unique(letters.reason).tolist():
            known = self._examples.setdefault(reason, [])
            rows = np.flatnonzero(letters.reason == reason)[: EXAMPLES - len(known)]
            known.extend(self._example(letters, int(row)) for row in rows)

    def _example(self, letters: Letters, row: int) -> Example:
        reason = int(letters.reason[row])
        value = None if letters.text is None else letters.text[row].as_py()
        if reason in (LATE, AHEAD):
            value = letters.time[row].cast(pa.string()).as_py()
        column = self._column(reason, int(letters.culprit[row]))
        return Example(int(letters.position[row]), column, value)

    def _column(self, reason: int, culprit: int) -> str | None:
        """Return the column that a reason is about."""
        if culprit >= 0:
            return self._stream.attributes[culprit]
        role = REASONS[reason].rpartition("_")[2]
        columns = {"key": self._stream.key, "weight": self._stream.weight}
        return columns.get(role, self._stream.time)

    def examples(self) -> dict[str, list[Example]]:
        """Return the first refused values of each reason."""
        return {REASONS[reason]: list(known) for reason, known in self._examples.items()}

    def keep(self, table: pa.Table) -> None:
        """Keep rows that are counted already."""
        most = self.most
        if most is not None:
            table = table.slice(max(0, table.num_rows - most))
        self._kept.append(table)
        self._rows += table.num_rows
        if len(self._kept) > MOST_TABLES:  # a small table costs much more than its rows
            self._kept = deque([self.table()])
        while most is not None and self._rows > most:
            over = self._rows - most
            oldest = self._kept.popleft()
            if oldest.num_rows > over:
                self._kept.appendleft(oldest.slice(over))
            self._rows -= min(over, oldest.num_rows)

    def table(self) -> pa.Table:
        """Return the kept letters, oldest first."""
        if not self._kept:
            empty = np.empty(0, np.int64)
            return self._table(
                Letters(
                    empty,
                    empty.astype(np.uint8),
                    empty,
                    pa.nulls(0, pa.string()),
                    pa.nulls(0),
                    np.empty((len(self._stream.attributes), 0)),
                )
            )
        return pa.concat_tables(list(self._kept), promote_options="permissive").combine_chunks()

    def drain(self) -> pa.Table:
        """Return the kept letters, and keep them no longer; they stay counted."""
        letters = self.table()
        self._kept.clear()
        self._rows = 0
        return letters

    def by_reason(self) -> dict[str, int]:
        """Return how many were refused for each reason that occurred."""
        return {REASONS[i]: int(n) for i, n in enumerate(self.counts) if n}

    def load(self, counts: Mapping[str, int], kept: pa.Table) -> None:
        """Take over how many were refused for each reason, and those that were kept."""
        self.counts[:] = [counts.get(reason, 0) for reason in REASONS]
        self._kept.clear()
        self._rows = 0
        if kept.num_rows:  # an empty table does not know the types of keys and times
            self.keep(kept)

    def _table(self, letters: Letters) -> pa.Table:
        names = self._stream.attributes
        columns: dict[str, pa.Array] = {
            "position": pa.array(letters.position),
            "reason": pa.array(REASONS).take(pa.array(letters.reason)),
            "detail": pa.array(self._details(letters), pa.string()),
            "key": letters.key,
            "time": letters.time,
        }
        if letters.reason.size and not pa.types.is_null(letters.time.type):
            absent = pa.array(np.isin(letters.reason, (NULL_TIME, UNREADABLE_TIME)))
            columns["time"] = pc.if_else(absent, pa.scalar(None, letters.time.type), letters.time)
        for a, name in enumerate(names):
            columns[name] = pa.array(letters.values[a], mask=np.isnan(letters.values[a]))
        return pa.table(columns)

    def _details(self, letters: Letters) -> list[str]:
        texts = [None] * letters.reason.size if letters.text is None else letters.text.to_pylist()
        found = zip(letters.reason.tolist(), letters.culprit.tolist(), texts, strict=True)
        return [self._detail(*each) for each in found]

    def _detail(self, reason: int, culprit: int, text: str | None) -> str:
        if reason in _UNREAD:
            told = "" if text is None else f": {text!r}"
            return f"{self._column(reason, culprit)} can't be read{told}"
        name = self._stream.attributes[culprit] if culprit >= 0 else ""
        return _DETAILS.get(reason, REASONS[reason].replace("_", " ")).format(name)
