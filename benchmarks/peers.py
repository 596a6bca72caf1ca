"""Interval indexes under one interface: ours, the paper's constructs, and the peers from PyPI.

Each is built from ``[low, high)`` with whole ends and answers a batch of values with the query
numbers written out. Peers get their fastest batch call, and values in the form that it wants
(`prepare`, not timed): ncls and superintervals know whole numbers only, so they get the floor of a
value, which is inside exactly the same intervals.
"""

from __future__ import annotations

import gc
import sys
from abc import ABC, abstractmethod
from types import FunctionType, ModuleType
from typing import Any, ClassVar

import numpy as np
import rtree.index
from intervaltree import IntervalTree
from ncls import NCLS
from superintervals.intervalmap import IntervalMap

from benchmarks.papers.virtual_constructs import (
    ContainmentIntervals,
    LogarithmicIntervals,
    UnitIntervals,
)
from benchmarks.workloads import Intervals
from everquery.core.arrays import Floats, Int64s
from everquery.index.cei import CeiSegment
from everquery.index.flags import Flags
from everquery.index.rows import Grouped, Matches, Step

Lists = tuple[Int64s, Int64s]  # matches of each value, and all their query numbers


class Stabbed(ABC):
    """An index that tells which intervals contain each value."""

    slow: ClassVar[bool] = False  # gets fewer values

    def prepare(self, values: Floats) -> Any:  # noqa: ANN401 - what the peer's call wants
        """Return values as `search` takes them."""
        return values

    @abstractmethod
    def search(self, prepared: Any) -> Any:  # noqa: ANN401 - what the peer's call gives
        """Find and write out all matches: what is timed."""

    @abstractmethod
    def lists(self, found: Any) -> Lists:  # noqa: ANN401
        """Return what `search` gave as plain lists, to compare them."""

    def nbytes(self) -> int | None:
        """Return the size of the index; None where it does not tell."""
        return None


def whole_step(values: Floats, flags: Flags) -> Step:
    """Return values as events of one key, as the engine hands them to an index.

    `values` has one row an attribute.
    """
    n = values.shape[1]
    grouped = Grouped(
        np.zeros(1, np.int32), np.array([0, n], np.int64), 2 * np.arange(n) + 1, values
    )
    fresh, seen = np.zeros(n, np.uint8), np.zeros(1, np.uint8)
    return Step(grouped, fresh, seen, np.zeros((len(values), 1)), flags, all_live=True)


class OurIntervals(Stabbed):
    """Our containment-encoded intervals over ranks, by the call that the engine makes."""

    def __init__(self, work: Intervals, *, levels: int | None = None) -> None:
        self.segment = CeiSegment.build(work.rows(), levels=levels)
        self._flags = np.ones(work.low.size, np.uint16)
        self._out = np.empty(1 << 16, np.int32)

    def prepare(self, values: Floats) -> Step:
        """Return the values as a batch of events."""
        return whole_step(values[None], self._flags)

    def search(self, prepared: Step) -> Matches:
        """Search as `RangeIndex` does: the buffer of the last batch is used again."""
        ends, self._out = self.segment.search(prepared, self._out, 0)
        return Matches(self._out, 0, ends)

    def lists(self, found: Matches) -> Lists:
        """Return the slots, which are the query numbers."""
        return _lists_of_matches(found)

    def nbytes(self) -> int:
        """Return the bytes of all arrays, the queries' own bounds included."""
        return self.segment.nbytes()


class PaperConstruct(Stabbed):
    """UI, LCI or CEI over the whole numbers of the domain, as the paper has them."""

    def __init__(
        self,
        kind: type[UnitIntervals | LogarithmicIntervals | ContainmentIntervals],
        work: Intervals,
        *,
        length: int,
    ) -> None:
        self.index = kind.build(work.low, work.high, domain=work.domain, length=length)
        self._out = np.empty(1 << 16, np.int32)

    def search(self, prepared: Floats) -> Matches:
        """Search, with the buffer of the last search."""
        found = self.index.search(prepared, self._out)
        self._out = found.slots
        return found

    def lists(self, found: Matches) -> Lists:
        """Return the query numbers."""
        return _lists_of_matches(found)

    def nbytes(self) -> int:
        """Return the bytes of both arrays: 4 a construct and 4 a piece."""
        return self.index.nbytes()


class Ncls(Stabbed):
    """Nested containment lists, in C."""

    BYTES_AN_INTERVAL = 32  # of its struct; the headers of sublists are not counted

    def __init__(self, work: Intervals) -> None:
        self._size = work.low.size
        self._index = NCLS(work.low, work.high, np.arange(self._size))

    def prepare(self, values: Floats) -> tuple[Int64s, Int64s, Int64s]:
        """Return starts, ends and numbers of the values' units."""
        floor = values.astype(np.int64)
        return floor, floor + 1, np.arange(values.size)

    def search(self, prepared: tuple[Int64s, Int64s, Int64s]) -> tuple[Int64s, Int64s, int]:
        """Return value number and query number of each match."""
        found = self._index.all_overlaps_both(*prepared)
        return (*found, prepared[0].size)

    def lists(self, found: tuple[Int64s, Int64s, int]) -> Lists:
        """Return the query numbers."""
        return np.bincount(found[0], minlength=found[2]), found[1]

    def nbytes(self) -> int:
        """Return the bytes of the intervals."""
        return self.BYTES_AN_INTERVAL * self._size


class SuperIntervals(Stabbed):
    """superintervals, in C++; closed 32-bit intervals with Python objects as values."""

    def __init__(self, work: Intervals) -> None:
        low, high = work.low.astype(np.int32), (work.high - 1).astype(np.int32)
        self._index = IntervalMap.from_arrays(low, high, list(range(low.size)))

    def prepare(self, values: Floats) -> Any:  # noqa: ANN401 - an int32 array
        """Return the values' units."""
        return values.astype(np.int32)

    def search(self, prepared: Any) -> list[list[int]]:  # noqa: ANN401
        """Return a list a value; of its batch calls the fastest, and the one that gives ids."""
        found: list[list[int]] = self._index.search_values_batch(prepared, prepared)
        return found

    def lists(self, found: list[list[int]]) -> Lists:
        """Return the query numbers."""
        return _lists_of_lists(found)


class IntervalTrees(Stabbed):
    """intervaltree, in Python; it has no batch call."""

    slow = True

    def __init__(self, work: Intervals) -> None:
        rows = zip(work.low.tolist(), work.high.tolist(), range(work.low.size), strict=True)
        self._index = IntervalTree.from_tuples(rows)

    def prepare(self, values: Floats) -> list[float]:
        """Return the values as Python floats."""
        floats: list[float] = values.tolist()
        return floats

    def search(self, prepared: list[float]) -> list[Any]:
        """Return its set of intervals for each value."""
        at = self._index.at
        return [at(value) for value in prepared]

    def lists(self, found: list[Any]) -> Lists:
        """Return the query numbers."""
        return _lists_of_lists([[interval.data for interval in each] for each in found])

    def nbytes(self) -> int:
        """Return the bytes of all Python objects of the tree."""
        return deep_bytes(self._index)


class RTrees(Stabbed):
    """rtree over libspatialindex: flat rectangles, as it has no single dimension."""

    slow = True

    def __init__(self, work: Intervals) -> None:
        low, high = work.low.astype(np.float64), work.high.astype(np.float64)
        nothing = np.zeros(low.size)
        self._index = rtree_of(np.stack([low, nothing], 1), np.stack([high, nothing], 1))

    def prepare(self, values: Floats) -> Floats:
        """Return the values as points."""
        return np.stack([values, np.zeros(values.size)], 1)

    def search(self, prepared: Floats) -> tuple[Int64s, Int64s]:
        """Return the ids and how many each point has."""
        ids, counts = self._index.intersection_v(prepared, prepared)
        return ids, counts

    def lists(self, found: tuple[Int64s, Int64s]) -> Lists:
        """Return the query numbers."""
        return found[1].astype(np.int64), found[0]


def rtree_of(low: Floats, high: Floats) -> Any:  # noqa: ANN401 - rtree has no types
    """Bulk-load boxes, given as one row each.

    Nodes of 10 are the fastest for points here: about 1.6 times the default of 100.
    """
    settings = rtree.index.Property()
    settings.leaf_capacity = 10
    settings.index_capacity = 10
    settings.near_minimum_overlap_factor = 5
    return rtree.index.Index((np.arange(len(low)), low, high), properties=settings)


def deep_bytes(root: object) -> int:
    """Return the bytes of all Python objects that are reached from one, types left out."""
    seen: set[int] = set()
    waiting = [root]
    total = 0
    while waiting:
        each = waiting.pop()
        if id(each) in seen or isinstance(each, (type, ModuleType, FunctionType)):
            continue
        seen.add(id(each))
        total += sys.getsizeof(each)
        waiting.extend(gc.get_referents(each))
    return total


def _lists_of_matches(found: Matches) -> Lists:
    counts = np.diff(found.ends, prepend=found.begin)
    return counts, found.slots[found.begin : found.ends[-1]].astype(np.int64)


def _lists_of_lists(found: list[list[int]]) -> Lists:
    counts = np.array([len(each) for each in found], np.int64)
    return counts, np.array([number for each in found for number in each], np.int64)
