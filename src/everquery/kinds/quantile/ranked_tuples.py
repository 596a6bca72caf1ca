"""What all quantile summaries answer: the tuple that is nearest to a rank."""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from typing import ClassVar, Self

import numpy as np

from everquery.core.arrays import Array, Floats, Int32s, Int64s
from everquery.index.slices import Slices
from everquery.kinds.quantile.gk_merge import pick_tuples

Tuples = tuple[Floats, Int64s, Int64s]
"""Values, ascending, and the bounds of their ranks."""


def empty_tuples(size: int) -> Tuples:
    """Return room for so many tuples."""
    return np.empty(size), np.empty(size, np.int64), np.empty(size, np.int64)


class RankedTuples(ABC):
    """Tuples by key that any rank can be asked of.

    Attributes
    ----------
    epsilon : float
    by_key : tuple of str
        The attributes that are arrays whose last axis is the key.
    pools : dict
        The attributes that are `Slices`, and those that they are slices of.
    """

    epsilon: float
    by_key: ClassVar[tuple[str, ...]]
    pools: ClassVar[dict[str, tuple[str, ...]]]
    _seen: Int64s

    def __len__(self) -> int:
        return self._seen.size

    @abstractmethod
    def update(self, key_numbers: Int32s, starts: Int64s, values: Floats) -> None:
        """Add a batch, grouped by key; each key once."""

    @abstractmethod
    def counts(self, keys: Int32s) -> Int64s:
        """Return how many rows each key's tuples stand for."""

    @abstractmethod
    def tuples(self, key: int) -> Tuples:
        """Return the tuples of a key; none of one never heard of."""

    @abstractmethod
    def save(self, arrays: dict[str, Array], name: str) -> None:
        """Put everything into a snapshot's arrays."""

    @abstractmethod
    def load(self, arrays: dict[str, Array], name: str) -> None:
        """Take over everything from a snapshot, of the same parameters."""

    @abstractmethod
    def nbytes(self) -> int:
        """Return the bytes of all arrays."""

    def count(self, key: int) -> int:
        """Return how many rows a key's tuples stand for; none of a key never heard of."""
        return int(self.counts(np.array([key], np.int32))[0]) if key < len(self) else 0

    def seen(self, keys: Int32s) -> Int64s:
        """Return how many rows of each key have ever come."""
        seen: Int64s = self._seen[keys]
        return seen

    def all_tuples(self, keys: Int32s) -> tuple[Int64s, Int64s, Tuples]:
        """Return the tuples of several keys, with where each key's begin and end."""
        parts = [self.tuples(key) for key in keys.tolist()]
        ends = np.cumsum([part[0].size for part in parts], dtype=np.int64)
        begins = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
        values, r_minus, r_plus = (np.concatenate(column) for column in zip(*parts, strict=True))
        return begins, ends, (values, r_minus, r_plus)

    def forget(self, keys: Int32s) -> None:
        """Let keys begin anew."""
        for name in self.by_key:
            getattr(self, name)[..., keys[keys < len(self)]] = self.empty(name)

    def empty(self, name: str) -> float:
        """Return what a key without rows has in an array."""
        return 0

    def picked(self, keys: Int32s) -> Self:
        """Return the summaries of some keys, numbered from 0 on; to be saved and not changed."""
        found = copy(self)
        for name in self.by_key:
            setattr(found, name, getattr(self, name)[..., keys])
        for name in self.pools:
            start, room, used = getattr(self, name)
            setattr(found, name, Slices(start[keys], room[keys], used))
        return found

    def put(self, keys: Int32s, other: Self) -> None:
        """Take over the summaries of another, under these keys, instead of what they have here."""
        if not keys.size:
            return
        self._add_keys(int(keys.max()) + 1)
        for name in self.by_key:
            getattr(self, name)[..., keys] = getattr(other, name)
        for name, pools in self.pools.items():
            mine, theirs = getattr(self, name), getattr(other, name)
            begin = len(getattr(self, pools[0]))
            for pool in pools:
                setattr(self, pool, np.concatenate([getattr(self, pool), getattr(other, pool)]))
            mine.start[keys] = theirs.start + begin
            mine.room[keys] = theirs.room
            mine.used[0] = begin + theirs.used[0]

    @abstractmethod
    def _add_keys(self, keys: int) -> None:
        """Have at least so many keys."""

    @abstractmethod
    def alike(self) -> Self:
        """Return summaries of the same parameters, of no key."""

    @abstractmethod
    def sizes(self) -> Int64s:
        """Return how many values each key has."""

    def query_many(self, key: int, ranks: Floats) -> Tuples:
        """Return for each rank the nearest tuple: values, and the bounds of their ranks.

        The rank of each value is within ``epsilon n`` of a whole rank from 1 to `n`; of one between
        two whole ranks if ``2 epsilon n`` is at least 1. A key never heard of has no answers.

        Parameters
        ----------
        ranks : float64, shape (k,)
        """
        values, r_minus, r_plus = self.tuples(key)
        if not values.size:
            return empty_tuples(0)
        picked = np.empty(ranks.size, np.int64)
        pick_tuples(r_minus, r_plus, ranks, picked)
        return values[picked], r_minus[picked], r_plus[picked]

    def query(self, key: int, rank: float) -> tuple[float, int, int] | None:
        """Return a value near a rank and the bounds of its rank; None of a key never heard of."""
        values, r_minus, r_plus = self.query_many(key, np.array([rank], np.float64))
        return (float(values[0]), int(r_minus[0]), int(r_plus[0])) if values.size else None
