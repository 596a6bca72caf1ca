"""The paper's three virtual constructs over integers, to measure one against another (cei-index).

Unit intervals (UI), logarithmic construct intervals (LCI) and containment-encoded intervals (CEI)
over the values ``[0, domain)``, each as lists of query numbers by construct ID, and the paper's
closed forms for what they cost. The engine itself searches with `everquery.index.cei`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from everquery.core.arrays import Floats, Int32s, Int64s, grow, total_bytes
from everquery.core.jit import kernel
from everquery.errors import InvalidQueryError
from everquery.index.containment import containment_lists, count_pieces
from everquery.index.rows import Matches


@kernel
def decompose_lci(
    low: Int64s, high: Int64s, levels: int, offsets: Int64s, query_ids: Int32s, write: bool
) -> None:
    """Cut every ``[low, high)`` from the left, each time by the longest construct that fits.

    The construct of length ``2**j`` at a position has the ID ``position * (levels + 1) + j``. With
    ``write`` false, ``offsets[c + 1]`` counts the pieces with ID ``c``; with true, ``offsets[c]``
    is where the next query of ID ``c`` goes in ``query_ids``. With no levels these are the UIs.
    """
    for i in range(low.size):
        position = low[i]
        level = levels
        while position < high[i]:
            while position + (1 << level) > high[i]:
                level -= 1
            construct = position * (levels + 1) + level
            if write:
                query_ids[offsets[construct]] = i
                offsets[construct] += 1
            else:
                offsets[construct + 1] += 1
            position += 1 << level


@kernel
def search_ui(
    values: Floats, offsets: Int32s, query_ids: Int32s, out: Int32s, ends: Int64s
) -> Int32s:
    """Write the list of each value's unit; return `out`, or a larger copy where it is too small."""
    n = 0
    for i in range(values.size):
        construct = int(values[i])
        while n + offsets[construct + 1] - offsets[construct] > out.size:
            out = grow(out)
        for piece in range(offsets[construct], offsets[construct + 1]):
            out[n] = query_ids[piece]
            n += 1
        ends[i] = n
    return out


@kernel
def search_lci(
    values: Floats, levels: int, offsets: Int32s, query_ids: Int32s, out: Int32s, ends: Int64s
) -> Int32s:
    """Write the lists of the ``2**j`` constructs of each length ``2**j`` that cover each value."""
    n = 0
    for i in range(values.size):
        value = int(values[i])
        for level in range(levels + 1):
            for position in range(max(0, value + 1 - (1 << level)), value + 1):
                construct = position * (levels + 1) + level
                while n + offsets[construct + 1] - offsets[construct] > out.size:
                    out = grow(out)
                for piece in range(offsets[construct], offsets[construct + 1]):
                    out[n] = query_ids[piece]
                    n += 1
        ends[i] = n
    return out


@kernel
def search_integer_cei(
    values: Floats, levels: int, offsets: Int32s, query_ids: Int32s, out: Int32s, ends: Int64s
) -> Int32s:
    """Write the lists of each value's unit CEI and of its ancestors (paper, Figure 11)."""
    n = 0
    for i in range(values.size):
        value = int(values[i])
        post = (value >> levels) << levels  # the guiding post at or before the value
        local = value - post + (1 << levels)
        while local > 0:
            construct = 2 * post + local
            while n + offsets[construct + 1] - offsets[construct] > out.size:
                out = grow(out)
            for piece in range(offsets[construct], offsets[construct + 1]):
                out[n] = query_ids[piece]
                n += 1
            local >>= 1
        ends[i] = n
    return out


def lci_lists(low: Int64s, high: Int64s, levels: int, domain: int) -> tuple[Int32s, Int32s]:
    """Decompose all queries into CSR lists by LCI; the twin of `containment_lists`."""
    counts = np.zeros(domain * (levels + 1) + 1, np.int64)
    decompose_lci(low, high, levels, counts, np.empty(0, np.int32), False)
    offsets = np.cumsum(counts)
    query_ids = np.empty(offsets[-1], np.int32)
    decompose_lci(low, high, levels, offsets[:-1].copy(), query_ids, True)
    return offsets.astype(np.int32), query_ids


def checked_levels(low: Int64s, high: Int64s, domain: int, length: int) -> int:
    """Return log2 of `length`; refuse what the kernels would write outside of their arrays."""
    if length < 1 or length & (length - 1):
        raise InvalidQueryError(f"length is {length}; the longest construct needs a power of two")
    outside = np.flatnonzero((low < 0) | (high < low) | (domain < high))
    if outside.size:
        i = outside[0]
        raise InvalidQueryError(
            f"query {i} is [{low[i]}, {high[i]}), which is not an interval in [0, {domain})"
        )
    levels = _log2(length)
    # Exact for UIs and CEIs; LCIs are never more than CEIs.
    if count_pieces(low, high, levels) > np.iinfo(np.int32).max:
        raise InvalidQueryError(
            f"more pieces of length {length} than int32 counts; use a larger one"
        )
    return levels


@dataclass(frozen=True, slots=True)
class _Lists:
    """What the three have in common.

    Attributes
    ----------
    domain : int
        Values are in ``[0, domain)``. No kernel checks that; `search` must get no others.
    levels : int
        log2 of the longest construct's length (paper: L).
    offsets : int32
        Where the list of each construct ID begins; the last one is where all lists end.
    query_ids : int32
        The lists.
    """

    domain: int
    levels: int
    offsets: Int32s
    query_ids: Int32s

    @property
    def pieces(self) -> int:
        """How many query numbers the lists hold (paper: D)."""
        return int(self.query_ids.size)

    def nbytes(self) -> int:
        """Return the bytes of all arrays."""
        return total_bytes(self.offsets, self.query_ids)


@dataclass(frozen=True, slots=True)
class UnitIntervals(_Lists):
    """Intervals of length 1: one list a search, but a piece for each value of a query.

    Examples
    --------
    >>> index = UnitIntervals.build(np.array([1, 2]), np.array([8, 15]), domain=16, length=8)
    >>> index.constructs, index.covering(9.5), index.pieces
    (16, 1, 20)
    >>> index.search(np.array([3.5]), np.empty(2, np.int32)).slots.tolist()
    [0, 1]
    """

    @classmethod
    def build(cls, low: Int64s, high: Int64s, *, domain: int, length: int) -> Self:
        """Cut the queries ``[low, high)`` into units, whatever `length` says."""
        levels = checked_levels(low, high, domain, 1)
        return cls(domain, levels, *lci_lists(low, high, levels, domain))

    def search(self, values: Floats, out: Int32s) -> Matches:
        """Return the queries that contain each value; `out` needs one place or more."""
        ends = np.empty(values.size, np.int64)
        out = search_ui(values, self.offsets, self.query_ids, out, ends)
        return Matches(slots=out, begin=0, ends=ends)

    @property
    def constructs(self) -> int:
        """How many constructs are defined (paper: N)."""
        return self.domain

    def covering(self, value: float) -> int:
        """Return how many constructs cover the value (paper: C)."""
        return 1


@dataclass(frozen=True, slots=True)
class LogarithmicIntervals(_Lists):
    """Intervals of length 1, 2, 4 .. `length` at each value: fewest pieces, most lists a search.

    Examples
    --------
    >>> index = LogarithmicIntervals.build(np.array([1, 2]), np.array([8, 15]), domain=16, length=8)
    >>> index.constructs, index.covering(9.5), index.pieces
    (64, 15, 6)
    >>> index.search(np.array([3.5]), np.empty(2, np.int32)).slots.tolist()
    [0, 1]
    """

    @classmethod
    def build(cls, low: Int64s, high: Int64s, *, domain: int, length: int) -> Self:
        """Cut the queries ``[low, high)`` into constructs of at most `length`, a power of two."""
        levels = checked_levels(low, high, domain, length)
        return cls(domain, levels, *lci_lists(low, high, levels, domain))

    def search(self, values: Floats, out: Int32s) -> Matches:
        """Return the queries that contain each value; `out` needs one place or more."""
        ends = np.empty(values.size, np.int64)
        out = search_lci(values, self.levels, self.offsets, self.query_ids, out, ends)
        return Matches(slots=out, begin=0, ends=ends)

    @property
    def constructs(self) -> int:
        """How many are defined (paper: N), with those past the domain's end that none can use."""
        return self.domain * (1 + self.levels)

    def covering(self, value: float) -> int:
        """Return how many constructs cover the value (paper: C).

        Table 1 has ``2 * length - 1`` for any value, but it is fewer below ``length - 1``: no
        construct begins before 0.
        """
        return sum(min(1 << level, int(value) + 1) for level in range(self.levels + 1))


@dataclass(frozen=True, slots=True)
class ContainmentIntervals(_Lists):
    """A binary tree of intervals over each segment of `length` values: few pieces, few lists.

    Examples
    --------
    >>> index = ContainmentIntervals.build(np.array([1, 2]), np.array([8, 15]), domain=16, length=8)
    >>> index.constructs, index.covering(9.5), index.pieces
    (30, 4, 8)
    >>> index.search(np.array([3.5]), np.empty(2, np.int32)).slots.tolist()
    [0, 1]
    """

    @classmethod
    def build(cls, low: Int64s, high: Int64s, *, domain: int, length: int) -> Self:
        """Cut the queries ``[low, high)`` into constructs of at most `length`, a power of two."""
        levels = checked_levels(low, high, domain, length)
        return cls(domain, levels, *containment_lists(low, high, levels, domain))

    def search(self, values: Floats, out: Int32s) -> Matches:
        """Return the queries that contain each value; `out` needs one place or more."""
        ends = np.empty(values.size, np.int64)
        out = search_integer_cei(values, self.levels, self.offsets, self.query_ids, out, ends)
        return Matches(slots=out, begin=0, ends=ends)

    @property
    def constructs(self) -> int:
        """How many are defined (paper: N); the domain is expanded to a multiple of `length`."""
        length = 1 << self.levels
        return -(-self.domain // length) * (2 * length - 1)

    def covering(self, value: float) -> int:
        """Return how many constructs cover the value (paper: C)."""
        return self.levels + 1


def _log2(L: int) -> int:
    return L.bit_length() - 1


def band_pieces_cei(i: int, L: int) -> int:
    """Return the CEIs of lengths ``(i*L, (i+1)*L]``, i > 0, from each of L starts (Lemmas 5, 6)."""
    return L * (L + 3) // 2 + L * L * _log2(L) + (i - 1) * L * L


def octave_pieces_cei(j: int, L: int) -> int:
    """Return the CEIs of lengths ``(L/2**j, 2*L/2**j]``, j > 0, from each of L starts (Lemma 7)."""
    part, parts = L >> j, 1 << j
    return parts * (part * (part + 3) // 2 + part * part * _log2(part)) - parts // 2


def total_pieces_cei(beta: int, L: int) -> int:
    """Return the CEIs for all lengths ``(0, beta*L]`` from each of the L starts in a segment.

    Theorem 2, which holds from ``beta = 1``. At 0 the sum is empty, but the printed form is
    ``-L**2 + 1.5*L*log2(L) + 1``, which is below 0 from ``L = 4``.
    """
    if beta == 0:
        return 0
    k = _log2(L)
    first = 2 * L * L * k + 3 * L * k - 3 * L * L + 3 * L + 2
    others = (beta - 1) * (3 * L + 2 * L * L * k - L * L) + L * L * beta * (beta - 1)
    return (first + others) // 2


def band_pieces_lci(i: int, L: int) -> int:
    """Return the LCIs for all lengths ``(i*L, (i+1)*L]`` from one start (Lemmas 8 and 9)."""
    return 1 + L * _log2(L) // 2 + i * L


def total_pieces_lci(beta: int, L: int) -> int:
    """Return the LCIs for all lengths ``(0, beta*L]`` from one start (Theorem 3)."""
    return beta + beta * L * _log2(L) // 2 + beta * (beta - 1) // 2 * L


def mean_pieces_ui(W: int) -> float:
    """Return the mean UIs of a query whose length is uniform in 1 .. W (Table 2)."""
    return (1 + W) / 2


def mean_pieces_bounds_lci(W: int, L: int) -> tuple[float, float]:
    """Return bounds of the mean LCIs of a query whose length is uniform in 1 .. W (Table 2).

    The lower one is exact where W is a multiple of L.
    """
    return total_pieces_lci(W // L, L) / W, total_pieces_lci(W // L + 1, L) / W


def mean_pieces_bounds_cei(W: int, L: int) -> tuple[float, float]:
    """Return bounds of the mean CEIs of a query with uniform start, length in 1 .. W (Table 2).

    The lower one is exact where W is a multiple of L; it is 0 where W is below L, which the paper
    leaves out (see `total_pieces_cei`).
    """
    return total_pieces_cei(W // L, L) / (W * L), total_pieces_cei(W // L + 1, L) / (W * L)


def storage_bytes(constructs: int, queries: int, mean_pieces: float) -> float:
    """Return the paper's storage cost: a pointer a construct, an ID and a pointer a piece."""
    return 4 * constructs + 8 * queries * mean_pieces
