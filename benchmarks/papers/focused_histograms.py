"""The paper's strategies for correlated aggregates, one tuple at a time, as it describes them.

Wholesale and piecemeal reallocation, each with uniform and quantile partitioning, over landmark and
sliding windows; and the "true" equi-depth and equi-width histograms that it compares them with.
They have no bounds: where buckets are split, the paper assumes that values are uniform.

Paper: correlated-aggregates, Figures 1, 3 and 11.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from everquery.core.arrays import Floats

STRATEGIES = (
    "wholesale-uniform",
    "wholesale-quantile",
    "piecemeal-uniform",
    "piecemeal-quantile",
)
INTERVALS = 10  # of a sliding window, with a local extreme each
SWAPS = 50  # tuples between two looks at whether buckets should be merged and split


@dataclass(frozen=True)
class Ask:
    """COUNT or SUM of y where ``x < factor * MIN(x)``, or where ``x > AVG(x)``.

    Attributes
    ----------
    to : str
        ``min`` or ``avg``.
    sums : bool
    factor : float
        Of the minimum.
    window : int or None
        The number of tuples that count; None for all.
    """

    to: str
    sums: bool
    factor: float = 1.0
    window: int | None = None

    def exact(self, x: Floats, y: Floats) -> float:
        """Return the true answer over the tuples so far."""
        if self.window is not None:
            x, y = x[-self.window :], y[-self.window :]
        picked = x < self.factor * x.min() if self.to == "min" else x > x.mean()
        return float(y[picked].sum() if self.sums else np.count_nonzero(picked))


def equi(ask: Ask, x: Floats, y: Floats, buckets: int, *, depth: bool) -> float:
    """Return the answer of a true equi-depth or equi-width histogram over the tuples so far."""
    if ask.window is not None:
        x, y = x[-ask.window :], y[-ask.window :]
    order = np.argsort(x)
    x, weight = x[order], (y[order] if ask.sums else np.ones(x.size))
    if depth:
        edges = x[np.linspace(0, x.size - 1, buckets + 1).astype(int)]
    else:
        edges = np.linspace(x[0], x[-1], buckets + 1)
    before = np.concatenate([[0.0], np.cumsum(weight)])
    at = before[np.searchsorted(x, edges, "right")]
    at[0] = 0.0
    edges, last = np.unique(edges, return_index=True)
    below = np.interp(ask.factor * x[0] if ask.to == "min" else x.mean(), edges, at[last])
    return float(below if ask.to == "min" else before[-1] - below)


class Focused:
    """One of the paper's strategies, over the tuples that `add` gives it."""

    def __init__(self, ask: Ask, buckets: int, strategy: str) -> None:
        self._ask = ask
        self._buckets = buckets
        reallocation, partitioning = strategy.split("-")
        self._wholesale, self._quantile = reallocation == "wholesale", partitioning == "quantile"
        self._edges: Floats = np.empty(0)
        self._weight: Floats = np.empty(0)  # of the buckets between them
        self._n, self._total, self._squares = 0, 0.0, 0.0
        self._recent: deque[tuple[float, float]] = deque()
        self._least = np.inf
        self._steps = 0
        self._first: list[tuple[float, float]] = []

    def add(self, x: float, y: float) -> None:
        """Take in a tuple; a sliding window gives up its oldest."""
        self._n, self._total, self._squares = self._n + 1, self._total + x, self._squares + x * x
        self._steps += 1
        outgoing = None
        if self._ask.window is not None:
            self._recent.append((x, y))
            if len(self._recent) > self._ask.window:
                outgoing = self._recent.popleft()
                self._n, self._total = self._n - 1, self._total - outgoing[0]
                self._squares -= outgoing[0] ** 2
        low, high = self._region(x)
        if len(self._first) < self._buckets:  # the first tuples are kept until there are enough
            self._first.append((x, y if self._ask.sums else 1.0))
            if len(self._first) == self._buckets:
                self._begin(low, high)
                for each, weight in self._first:
                    self._put(each, weight)
            return
        if self._ask.to == "min" and high <= self._edges[0]:
            self._begin(low, high)  # what was there can't count any more
        elif not self._fits(low, high):
            self._reallocate(low, high)
        self._put(x, y if self._ask.sums else 1.0)
        if outgoing is not None:
            self._put(outgoing[0], -(outgoing[1] if self._ask.sums else 1.0))
        if self._quantile and not self._wholesale and self._steps % SWAPS == 0:
            self._swap()

    def _region(self, x: float) -> tuple[float, float]:
        """Return the region of interest."""
        if self._ask.to == "min":
            if self._ask.window is None:
                self._least = min(self._least, x)
                return self._least, self._ask.factor * self._least
            values = [each for each, _ in self._recent]
            size = -(-len(values) // INTERVALS)
            local = [min(values[i : i + size]) for i in range(0, len(values), size)]
            self._least = min(local)
            return self._least, self._ask.factor * max(local)
        mean = self._total / self._n
        spread = np.sqrt(max(self._squares / self._n - mean * mean, 0.0))
        error = spread / np.sqrt(self._n if self._ask.window is None else self._ask.window)
        return mean - error, mean + error

    def _inner(self) -> tuple[int, int]:
        """Return which edges are those of the region: of an average, there is one to each side."""
        if self._ask.to == "min" and self._ask.window is None:
            return 0, self._edges.size - 1
        if self._ask.to == "min":
            return 0, self._edges.size - 2
        return 1, self._edges.size - 2

    def _fits(self, low: float, high: float) -> bool:
        first, last = self._inner()
        return bool(self._edges[first] == low and self._edges[last] == high)

    def _begin(self, low: float, high: float) -> None:
        high = high if high > low else np.nextafter(low, np.inf)
        if self._ask.to == "min" and self._ask.window is None:
            self._edges = np.linspace(low, high, self._buckets + 1)
        elif self._ask.to == "min":
            inner = np.linspace(low, high, self._buckets)
            self._edges = np.append(inner, np.nextafter(high, np.inf))
        else:
            inner = np.linspace(low, high, self._buckets - 1)
            self._edges = np.concatenate(
                [[np.nextafter(low, -np.inf)], inner, [np.nextafter(high, np.inf)]]
            )
        self._weight = np.zeros(self._edges.size - 1)

    def _reallocate(self, low: float, high: float) -> None:
        """Move the edges to a new region; weights are divided as if values were uniform."""
        if not high > low:
            return
        first, last = self._inner()
        edges = self._edges
        left, right = edges[:first], edges[last + 1 :]
        if left.size:
            low, left = max(low, np.nextafter(edges[0], np.inf)), edges[:1]
        if right.size:
            right = np.maximum(edges[-1:], np.nextafter(high, np.inf))
        inner = self._partition(low, high, last - first + 1)
        moved = np.concatenate([left, inner, right])
        if (np.diff(moved) <= 0).any():
            return
        before = np.concatenate([[0.0], np.cumsum(self._weight)])
        self._edges = moved
        at = np.interp(moved, edges, before)
        if self._ask.to == "min":
            at[0] = 0.0 if moved[0] <= edges[0] else at[0]
        self._weight = np.diff(at)

    def _partition(self, low: float, high: float, size: int) -> Floats:
        """Return the edges of the region, as reallocation and partitioning say."""
        if self._wholesale and not self._quantile:
            return np.linspace(low, high, size)
        if self._wholesale:
            return self._quantiles(low, high, size)
        kept = [float(edge) for edge in self._edges if low < edge < high]
        inner = [low, *kept[: size - 2], high]
        while len(inner) < size:
            gaps = np.diff(inner)
            widest = int(np.argmax(gaps))
            inner.insert(widest + 1, inner[widest] + gaps[widest] / 2)
        return np.array(inner)

    def _quantiles(self, low: float, high: float, size: int) -> Floats:
        shares = np.arange(1, size - 1) / (size - 1)
        if self._ask.to == "avg":
            middle = NormalDist(low + (high - low) / 2, max((high - low) / 2, 1e-300))
            inner = np.array([middle.inv_cdf(share) for share in shares]).clip(low, high)
        else:
            before = np.concatenate([[0.0], np.cumsum(np.maximum(self._weight, 0.0))])
            begin, end = np.interp([low, high], self._edges, before)
            inner = np.interp(begin + shares * (end - begin), before, self._edges)
        found = np.concatenate([[low], np.sort(inner.clip(low, high)), [high]])
        return found if (np.diff(found) > 0).all() else np.linspace(low, high, size)

    def _put(self, x: float, weight: float) -> None:
        if x < self._edges[0]:
            if self._ask.to == "min":
                return
            self._edges[0] = x
        if x > self._edges[-1]:
            if self._ask.to == "min" and self._ask.window is None:
                return
            self._edges[-1] = x
        bucket = int(np.searchsorted(self._edges, x, "right")) - 1
        self._weight[min(max(bucket, 0), self._weight.size - 1)] += weight

    def _swap(self) -> None:
        """Merge two neighbours and split a bucket, if weights become more equal."""
        first, last = self._inner()
        weight = self._weight[first:last]
        if weight.size < 3:
            return
        pairs = weight[1:] + weight[:-1]
        merged, split = int(np.argmin(pairs)), int(np.argmax(weight))
        if split in (merged, merged + 1) or pairs[merged] >= weight[split]:
            return
        middle = (self._edges[first + split] + self._edges[first + split + 1]) / 2
        edges = np.sort(np.append(np.delete(self._edges, first + merged + 1), middle))
        if (np.diff(edges) <= 0).any():
            return
        before = np.concatenate([[0.0], np.cumsum(self._weight)])
        self._weight = np.diff(np.interp(edges, self._edges, before))
        self._edges = edges

    def answer(self) -> float:
        """Return the estimate."""
        if self._edges.size == 0:
            x, y = (np.array(column) for column in zip(*self._first, strict=True))
            return Ask(self._ask.to, True, self._ask.factor).exact(x, y)
        before = np.concatenate([[0.0], np.cumsum(self._weight)])
        if self._ask.to == "min":
            return float(np.interp(self._ask.factor * self._least, self._edges, before))
        mean = self._total / self._n
        return float(before[-1] - np.interp(mean, self._edges, before))
