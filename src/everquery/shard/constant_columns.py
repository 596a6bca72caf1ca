"""Columns in which all rows are the same: parts of one array that is made once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from everquery.core.arrays import Bytes

SHORTEST = 1_024  # rows that an array is made with


class Constant:
    """A column of one word, of any length.

    Parameters
    ----------
    words : Arrow array
        Those of the column's dictionary.
    place : int, optional
        Which of them it is; None for a column of nulls.
    """

    def __init__(self, words: pa.Array, place: int | None) -> None:
        self._words = words
        self._place = place
        self._all = self._make(SHORTEST)

    def column(self, codes: Bytes, _places: pa.Buffer) -> pa.Array:
        """Return a column of as many rows as there are codes."""
        if codes.size > len(self._all):
            self._all = self._make(max(codes.size, 2 * len(self._all)))
        return self._all.slice(0, codes.size)

    def _make(self, n: int) -> pa.Array:
        indices = _nulls(pa.int8(), n)
        if self._place is not None:
            indices = pa.array(np.full(n, self._place, np.int8))
        return pa.DictionaryArray.from_arrays(indices, self._words, safe=False)


class Nothing:
    """A column of nulls, of any length and of a type of at most eight bytes."""

    def __init__(self, kind: pa.DataType) -> None:
        self._all = _nulls(kind, SHORTEST)

    def column(self, n: int) -> pa.Array:
        """Return a column of so many rows."""
        known = self._all  # other engines, in other threads, may use it too
        if n > len(known):
            known = self._all = _nulls(known.type, max(n, 2 * len(known)))
        return known.slice(0, n)


def _nulls(kind: pa.DataType, n: int) -> pa.Array:
    """Return nulls whose bits and values are the same zeros: pages that nobody writes to."""
    zeros = pa.py_buffer(np.zeros(n, np.int64))
    return pa.Array.from_buffers(kind, n, [zeros, zeros], n)
