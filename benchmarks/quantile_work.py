"""Streams and query sets of continuous-quantiles, Section 5 and Table 1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.papers.rank_intervals import rank_intervals
from everquery.core.arrays import Array, Floats, Int64s

EPSILON = 0.005  # of a summary
BLOCK = 20_000  # elements of semisort that are in no order
VOCABULARY = 100_000
FINE = (0.005, 0.02)  # epsilon of queries from Section 5.2 on
GRID = 10_000  # values of a Zipf distribution: on a finer one nearly all queries are points
STREAMS = ("uniform", "normal", "semisort")


def stream(kind: str, n: int, draw: np.random.Generator) -> Floats:
    """Return `n` elements: uniform, normal, semisort, or words by their place in the alphabet.

    The blocks of semisort ascend and have no order within. Words stand for the paper's news, which
    cannot be had: a vocabulary that is used with Zipf's frequencies, in an alphabet by lot.
    """
    if kind == "uniform":
        return draw.random(n)
    if kind == "normal":
        return draw.normal(size=n)
    if kind == "semisort":
        return np.arange(n) // BLOCK + draw.random(n)
    alphabet = draw.permutation(VOCABULARY).astype(np.float64)
    words: Floats = alphabet[zipf(VOCABULARY, n, draw) - 1]
    return words


def zipf(values: int, n: int, draw: np.random.Generator) -> Int64s:
    """Return `n` numbers of 1 .. `values`, each as likely as its inverse."""
    reach = np.cumsum(1.0 / np.arange(1, values + 1))
    numbers: Int64s = 1 + np.searchsorted(reach, draw.random(n) * reach[-1])
    return numbers


@dataclass(frozen=True)
class Queries:
    """Quantile queries as intervals of ranks."""

    low: Floats
    high: Floats
    epsilon: float  # of the summary that they are asked of

    def __len__(self) -> int:
        return self.low.size


def draw_queries(
    n: int, draw: np.random.Generator, *, is_zipf: bool = False, fine: bool = True
) -> Queries:
    """Return queries with phi in (0, 1], and an epsilon that is below phi.

    Epsilon is in `FINE` or, as in Sections 5.1 and 5.6, anywhere in (0, 1), and the finest query is
    as fine as the summary.
    """
    phi, epsilon = np.empty(0), np.empty(0)
    while phi.size < n:
        if is_zipf:
            new = zipf(GRID, n, draw) / GRID, zipf(GRID, n, draw) / GRID
        else:
            new = 1.0 - draw.random(n), draw.random(n)
        spread = FINE[0] + (FINE[1] - FINE[0]) * new[1] if fine else new[1]
        kept = (spread > 0) & (spread < new[0])
        phi, epsilon = np.append(phi, new[0][kept]), np.append(epsilon, spread[kept])
    phi, epsilon = phi[:n], epsilon[:n]
    summary = EPSILON if fine else float(epsilon.min())
    return Queries(*rank_intervals(phi, epsilon, summary_epsilon=summary), summary)


def uncontained(n: int, draw: np.random.Generator) -> Queries:
    """Return queries of which none contains another: lower and upper ends are paired in order."""
    queries = draw_queries(n, draw)
    return Queries(np.sort(queries.low), np.sort(queries.high), queries.epsilon)


def arrivals(n: int, elements: int, draw: np.random.Generator) -> Array:
    """Return queries that come at any element: see `run_changing`."""
    at = np.sort(draw.integers(1, elements + 1, n))
    return np.stack([at, np.arange(n), np.zeros(n, np.int64)], axis=1)


def batches(n: int, count: int, elements: int, draw: np.random.Generator) -> Array:
    """Return batches of queries that come at once; while one is there, the last one leaves.

    The first comes with the first element, the others at any; queries leave one by one.
    """
    begin = np.sort(np.append(draw.integers(2, elements, count - 1), [1, elements + 1]))
    batch = np.arange(n) * count // n
    comes = np.stack([begin[batch], np.arange(n), np.zeros(n, np.int64)], axis=1)
    leaves = np.flatnonzero(batch < count - 1)
    since, until = begin[batch[leaves] + 1], begin[batch[leaves] + 2]
    at = since + (draw.random(leaves.size) * (until - since)).astype(np.int64)
    goes = np.stack([at, leaves, np.ones(leaves.size, np.int64)], axis=1)
    both = np.concatenate([comes, goes])
    changes: Array = both[np.argsort(both[:, 0], kind="stable")]
    return changes
