"""Groups of rows by the values of some columns, numbered in the order in which they appear."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from everquery.network.rows import whole

Ints = npt.NDArray[np.int64]
SPARE = 64  # groups that may be remembered though no row is of them


class Groups:
    """The groups that a box has seen.

    Attributes
    ----------
    names : tuple of str
        The columns whose values a group has in common; none: all rows are one group.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._pieces: list[pa.Table] = []

    def __len__(self) -> int:
        return len(self._numbers)

    def number(self, rows: pa.Table) -> Ints:
        """Return the number of each row's group; new groups get the next ones."""
        if not self.names:
            self._numbers.setdefault((), 0)
            return np.zeros(rows.num_rows, np.int64)
        codes, first = _codes([whole(rows.column(name)) for name in self.names])
        keys = rows.select(self.names).take(pa.array(first))
        numbers, new = np.empty(first.size, np.int64), []
        for at, values in enumerate(
            zip(*(column.to_pylist() for column in keys.columns), strict=True)
        ):
            known = self._numbers.get(values)
            if known is None:
                known = self._numbers[values] = len(self._numbers)
                new.append(at)
            numbers[at] = known
        if new:
            self._pieces.append(keys.take(pa.array(new)))
        return numbers[codes]

    def forget(self, used: Ints) -> Ints | None:
        """Forget the groups that no row is of, if they are many; the others get new numbers.

        Parameters
        ----------
        used : array
            The group of each row that is kept. Negative numbers are no group.

        Returns
        -------
        array or None
            The new number of each group by its old one. None if all numbers stay.
        """
        if len(self) <= 2 * used.size + SPARE:
            return None
        keys, numbers = self.keys(), np.unique(used[used >= 0])
        renumbered = np.full(len(self), -1, np.int64)
        renumbered[numbers] = np.arange(numbers.size)
        self.load(None if keys is None else keys.take(pa.array(numbers)))
        return renumbered

    def keys(self) -> pa.Table | None:
        """Return the columns of the groups, by number; None if there are none."""
        if not self._pieces:
            return None
        if len(self._pieces) > 1:
            self._pieces = [pa.concat_tables(self._pieces).combine_chunks()]
        return self._pieces[0]

    def load(self, keys: pa.Table | None) -> None:
        """Take the groups that `keys` gave."""
        self._numbers, self._pieces = {}, []
        if keys is not None:
            self.number(keys)


def _codes(columns: list[pa.Array]) -> tuple[Ints, Ints]:
    """Return a number for each row, by first appearance of its values, and the first rows."""
    codes = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        encoded = column.dictionary_encode(null_encoding="encode")
        own = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        if column is columns[0]:
            codes = own  # in order of appearance already
        else:
            mixed = codes * (len(encoded.dictionary) + 1) + own
            codes = by_appearance(mixed)
    count = int(codes.max()) + 1 if codes.size else 0
    first = np.full(count, codes.size, np.int64)
    np.minimum.at(first, codes, np.arange(codes.size)) if len(columns) > 1 else None
    if len(columns) == 1:
        first[codes[::-1]] = np.arange(codes.size - 1, -1, -1)
    return codes, first


def by_appearance(mixed: Ints) -> Ints:
    """Return numbers that ascend in the order in which values first appear."""
    _, first, inverse = np.unique(mixed, return_index=True, return_inverse=True)
    ranks = np.empty(first.size, np.int64)
    ranks[np.argsort(first, kind="stable")] = np.arange(first.size)
    return ranks[inverse.reshape(-1)]


def positions(groups: Ints, counts: Ints) -> Ints:
    """Return the position of each row in its group, behind those that the group has had."""
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    begins = np.searchsorted(ordered, ordered, "left")
    found = np.empty(groups.size, np.int64)
    found[order] = np.arange(groups.size) - begins
    return found + counts[groups]


def search(
    groups: Ints, values: npt.NDArray[Any], of: Ints, wanted: npt.NDArray[Any], *, after: bool
) -> Ints:
    """Return where values stand among rows that are sorted by group and value.

    Parameters
    ----------
    groups, values : arrays
        The sorted rows.
    of, wanted : arrays
        The groups and values that are looked for.
    after : bool
        Whether the place is behind equal values, or in front of them.
    """
    count = groups.size
    place = np.concatenate([np.ones(count, np.int8), np.full(of.size, 2 if after else 0, np.int8)])
    order = np.lexsort((place, np.concatenate([values, wanted]), np.concatenate([groups, of])))
    before = np.cumsum(order < count)
    found = np.empty(of.size, np.int64)
    asked = order >= count
    found[order[asked] - count] = before[asked]
    return found


def distinct_pairs(first: Ints, second: Ints) -> tuple[Ints, Ints]:
    """Return each pair of numbers once, in order.

    One number for each pair sorts a hundred times faster than pairs do.
    """
    if not first.size:
        return first, second
    low, high = int(second.min()), int(second.max())
    span = high - low + 1
    if int(first.max()) * span >= 2**62:
        pairs = np.unique(np.stack([first, second]), axis=1)
        return pairs[0], pairs[1]
    mixed = np.unique(first * span + (second - low))
    return mixed // span, mixed % span + low
