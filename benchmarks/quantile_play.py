"""Takes the ways to keep quantile queries answered through a stream: whole, or samples of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from benchmarks.harness import UnequalResultsError
from benchmarks.papers.cluster_tree import ClusterTree, with_room
from benchmarks.papers.quantile_clusters import Clusters
from benchmarks.quantile_paper import (
    ANSWERED,
    COUNTS,
    EVALUATED,
    FIRED,
    NOWHERE,
    SEEN,
    Summary,
    copy_of,
    new_summary,
    run_eager,
    run_summary,
    run_synchronous,
)
from benchmarks.quantile_triggers import (
    Triggers,
    fill_heap,
    hang_all,
    new_triggers,
    run_asynchronous,
    run_changing,
    run_changing_synchronous,
    set_triggers,
)
from benchmarks.quantile_work import Queries
from everquery.core.arrays import Array, Floats, Int32s, Int64s
from everquery.kinds.quantile.gk_summary import Summaries

POINTS = (0.0002, 0.002, 0.02, 0.1, 0.25, 0.5, 0.75, 0.99)  # of a stream, where it is sampled
BUDGET_S = 0.12  # for a sample
NUMBERS = 400_000  # of clusters, where queries come and go
ONE_KEY = np.zeros(1, np.int32)


@dataclass
class Played:
    """What each piece of a stream took, and what was counted until its end.

    Attributes
    ----------
    elements : until the end of each piece
    seconds : of each piece
    fired, evaluated, answered : triggers, evaluations of clusters, answers that changed
    answer : of each cluster at the end, if they are given
    """

    elements: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    fired: list[int] = field(default_factory=list)
    evaluated: list[int] = field(default_factory=list)
    answered: list[int] = field(default_factory=list)
    answer: Floats = field(default_factory=lambda: np.empty(0))

    @property
    def total(self) -> float:
        """Seconds of the whole stream."""
        return sum(self.seconds)

    def note(self, elements: int, seconds: float, counts: Int64s | None = None) -> None:
        """Add a piece."""
        counts = np.zeros(COUNTS, np.int64) if counts is None else counts
        self.elements.append(elements)
        self.seconds.append(seconds)
        self.fired.append(int(counts[FIRED]))
        self.evaluated.append(int(counts[EVALUATED]))
        self.answered.append(int(counts[ANSWERED]))

    def per_element(self, x: Sequence[float]) -> list[float | None]:
        """Return microseconds an element, on average from each x to the next."""
        spent = np.interp([0, *x], [0, *self.elements], np.cumsum([0, *self.seconds]))
        return [*(1e6 * np.diff(spent) / np.diff([0, *x])).tolist()]

    def around(self, x: Sequence[int]) -> list[float | None]:
        """Return microseconds an element, on average shortly before each x."""
        ends = np.maximum(x, self.elements[0])
        sides = np.interp(
            [0.8 * ends, ends], [0, *self.elements], np.cumsum([0, *self.seconds])
        )  # fmt: skip
        return [*(1e6 * np.diff(sides, axis=0)[0] / (0.2 * ends)).tolist()]


@dataclass
class Sampled:
    """Seconds and evaluations of an element, at some points of a stream."""

    at: list[int] = field(default_factory=list)
    each: list[float] = field(default_factory=list)
    evaluations: list[float] = field(default_factory=list)

    def take(self, at: int, end: int, run: Callable[[int, int], int]) -> None:
        """Run elements from `at` on until the budget is spent; `run` returns all evaluations."""
        run(at, at)  # compiled before it counts
        end = min(end, at + max(1_000, at))
        now, spent, size, found = at, 0.0, 1, 0
        while spent < BUDGET_S and now < end:
            until = min(now + size, end)
            begin = time.perf_counter()
            found = run(now, until)
            spent += time.perf_counter() - begin
            now, size = until, 2 * size
        done = now - at
        self.at.append(at)
        self.each.append(spent / done)
        self.evaluations.append(found / done)

    def per_element(self, x: Sequence[float]) -> list[float | None]:
        """Return microseconds of an element, halfway from each x to the next."""
        middle = (np.array([0, *x[:-1]]) + np.array(x)) / 2
        return [*(1e6 * self._along(middle, self.each)).tolist()]

    def total(self, elements: int) -> float:
        """Return the seconds of a whole stream."""
        return self._sum(elements, self.each)

    def evaluated(self, elements: int) -> float:
        """Return the evaluations of a whole stream."""
        return self._sum(elements, self.evaluations)

    def _sum(self, elements: int, each: list[float]) -> float:
        x = np.geomspace(1, elements, 1_000)
        return float(np.trapezoid(self._along(x, each), x))

    def _along(self, x: Floats, each: list[float]) -> Floats:
        """Return what an element takes at some places; on a straight line between logarithms."""
        logs = np.log(np.maximum(each, 1e-12))
        found: Floats = np.exp(np.interp(np.log(x), np.log(self.at), logs))
        return found


def chain(n: int) -> Int32s:
    """Return the clusters after each, in order."""
    after = np.arange(1, n + 1, dtype=np.int32)
    after[-1:] = NOWHERE
    return after


def pieces(n: int, size: int) -> list[slice]:
    """Return a stream in pieces."""
    return [slice(begin, min(begin + size, n)) for begin in range(0, n, size)]


def points_of(n: int) -> list[int]:
    """Return the elements before which a stream is sampled."""
    return sorted({max(1, int(share * n)) for share in POINTS})


def play_summary(values: Floats, epsilon: float, size: int) -> Played:
    """Keep the paper's summary alone."""
    played, summary = Played(), new_summary()
    run_summary(summary, epsilon, values[:0])
    for piece in pieces(values.size, size):
        begin = time.perf_counter()
        run_summary(summary, epsilon, values[piece])
        played.note(piece.stop, time.perf_counter() - begin)
    return played


def play_asynchronous(values: Floats, clusters: Queries, size: int) -> Played:
    """Take CASU through a stream with given clusters, in order."""
    played, summary = Played(), new_summary()
    triggers = set_triggers(len(clusters))
    ends = clusters.low, clusters.high
    run_asynchronous(summary, clusters.epsilon, values[:0], *ends, triggers)
    for piece in pieces(values.size, size):
        begin = time.perf_counter()
        run_asynchronous(summary, clusters.epsilon, values[piece], *ends, triggers)
        played.note(piece.stop, time.perf_counter() - begin, triggers.counts)
    played.answer = triggers.answer
    return played


def walk_points(values: Floats, epsilon: float) -> list[Summary]:
    """Return the paper's summary at the points of a stream."""
    summary, found = new_summary(), []
    before = 0
    for at in points_of(values.size):
        run_summary(summary, epsilon, values[before:at])
        found.append(copy_of(summary))
        before = at
    return found


def sample_synchronous(values: Floats, clusters: Queries) -> Sampled:
    """Sample CSU, or SU, on clusters or queries in order.

    It begins as right after all were evaluated; a call takes long, so with many queries what one
    takes is spread over the elements until the next.
    """
    sampled, after = Sampled(), chain(len(clusters))
    ends = clusters.low, clusters.high
    for summary in walk_points(values, clusters.epsilon):
        answer, counts = np.full(len(clusters), np.nan), np.zeros(COUNTS, np.int64)
        trigger = np.zeros(1)

        def run(
            begin: int, end: int, summary: Summary = summary, answer: Floats = answer,
            trigger: Floats = trigger, counts: Int64s = counts,
        ) -> int:  # fmt: skip
            run_synchronous(
                summary, clusters.epsilon, values[begin:end], *ends, 0, after, answer, trigger,
                counts,
            )  # fmt: skip
            return int(counts[EVALUATED])

        at = int(summary.state[SEEN])
        run(at, at)
        begin = time.perf_counter()
        run(at, at + 1)
        once, wait = time.perf_counter() - begin, float(trigger[0])
        if once > BUDGET_S / 20:
            sampled.at.append(at)
            sampled.each.append(once / (1 + int(wait)))
            sampled.evaluations.append(len(clusters) / (1 + int(wait)))
        else:
            counts[:] = 0
            sampled.take(at + 1, values.size, run)
    return sampled


def sample_eager(values: Floats, queries: Queries, most: int) -> Sampled:
    """Sample the evaluation of every query at every element; of `most` queries, for all."""
    sampled = Sampled()
    low, high = queries.low[:: len(queries) // most], queries.high[:: len(queries) // most]
    for summary in walk_points(values, queries.epsilon):
        answer, counts = np.full(low.size, np.nan), np.zeros(COUNTS, np.int64)

        def run(
            begin: int, end: int, summary: Summary = summary, answer: Floats = answer,
            counts: Int64s = counts,
        ) -> int:  # fmt: skip
            given = values[begin:end]
            run_eager(summary, queries.epsilon, given, low, high, answer, counts)
            return int(counts[EVALUATED])

        sampled.take(int(summary.state[SEEN]), values.size, run)
    sampled.each = [each * len(queries) / low.size for each in sampled.each]
    sampled.evaluations = [each * len(queries) / low.size for each in sampled.evaluations]
    return sampled


def sample_asynchronous(values: Floats, queries: Queries, draw: np.random.Generator) -> Sampled:
    """Sample CASU on very many queries.

    All are evaluated at a point, and each trigger set to a random share of what it would wait: as
    they are spread in a stream that has run for long.
    """
    sampled, ends = Sampled(), (queries.low, queries.high)
    for summary in walk_points(values, queries.epsilon):
        triggers, waits = set_triggers(len(queries)), np.empty(len(queries))
        hang_all(summary, queries.epsilon, *ends, triggers, waits)
        fill_heap(triggers, np.minimum(waits, values.size) * draw.random(waits.size))
        triggers.counts[:] = 0

        def run(
            begin: int, end: int, summary: Summary = summary, triggers: Triggers = triggers
        ) -> int:
            run_asynchronous(summary, queries.epsilon, values[begin:end], *ends, triggers)
            return int(triggers.counts[EVALUATED])

        sampled.take(int(summary.state[SEEN]), values.size, run)
    return sampled


def usual_wait(values: Floats, clusters: Queries) -> float:
    """Return what the median trigger waits at the end of a stream, as a share of its length."""
    summary, triggers = new_summary(), set_triggers(len(clusters))
    waits = np.empty(len(clusters))
    run_summary(summary, clusters.epsilon, values)
    hang_all(summary, clusters.epsilon, clusters.low, clusters.high, triggers, waits)
    return float(np.median(waits)) / values.size


def play_batches(values: Floats, clusters: Queries, size: int) -> Played:
    """Take our summary through a stream in batches; all clusters are evaluated after each."""
    played, summary = Played(), Summaries(clusters.epsilon)
    middle, counts = (clusters.low + clusters.high) / 2, np.zeros(COUNTS, np.int64)
    answer = np.full(middle.size, np.nan)
    first_time = Summaries(clusters.epsilon)
    first_time.update(ONE_KEY, np.array([0, 1_000]), np.resize(values, 1_000))
    first_time.query_many(0, middle)
    for piece in pieces(values.size, size):
        begin = time.perf_counter()
        given = values[piece]
        summary.update(ONE_KEY, np.array([0, given.size]), given)
        found = summary.query_many(0, middle * piece.stop)[0]
        counts[EVALUATED] += found.size
        counts[ANSWERED] += np.count_nonzero(found != answer)
        answer = found
        played.note(piece.stop, time.perf_counter() - begin, counts)
    played.answer = answer
    return played


def check_answers(what: str, ordered: Floats, clusters: Queries, played: Played) -> None:
    """Raise unless every cluster's answer at the end has a rank that the cluster allows."""
    n = ordered.size
    low = np.searchsorted(ordered, played.answer, "left") + 1
    high = np.searchsorted(ordered, played.answer, "right")
    least, most = (clusters.low - clusters.epsilon) * n, (clusters.high + clusters.epsilon) * n
    wrong = np.count_nonzero((high < least - 1e-6) | (low > np.maximum(most, 1) + 1e-6))
    if wrong:
        raise UnequalResultsError(f"{what}: {wrong:,} of {played.answer.size:,} answers are off")


@dataclass
class Changing:
    """Queries that come and go, in clusters of Algorithm 2, and what hangs on them."""

    queries: Queries
    changes: Array

    def __post_init__(self) -> None:
        self.tree = with_room(Clusters(epsilon=self.queries.epsilon).tree, NUMBERS)
        self.label = np.full(len(self.queries), NOWHERE, np.int32)
        self.begin = 0

    def play(self, values: Floats, size: int) -> tuple[Played, Sampled]:
        """Take CASU through a stream, and sample CSU on the way."""
        played, sampled = Played(), Sampled()
        summary, triggers = new_summary(), new_triggers(self.tree.low.size, 4 * NUMBERS)
        points = points_of(values.size)
        stops = sorted({*points, *range(0, values.size + 1, size), values.size})
        self._run(summary, values[:0], triggers)
        for start, stop in pairwise(stops):
            if start in points:
                self._sample(sampled, summary, values, start)
            begin = time.perf_counter()
            self._run(summary, values[start:stop], triggers)
            played.note(stop, time.perf_counter() - begin, triggers.counts)
        return played, sampled

    def _run(self, summary: Summary, values: Floats, triggers: Triggers) -> None:
        low, high, epsilon = self.queries.low, self.queries.high, self.queries.epsilon
        self.begin = run_changing(
            summary, epsilon, values, self.tree, low, high, self.changes, self.begin, self.label,
            triggers,
        )  # fmt: skip

    def _sample(self, sampled: Sampled, summary: Summary, values: Floats, at: int) -> None:
        tree, label = ClusterTree._make(column.copy() for column in self.tree), self.label.copy()
        here, begin_at = copy_of(summary), [self.begin]
        answer, trigger = np.full(tree.low.size, np.nan), np.zeros(1)
        counts = np.zeros(COUNTS, np.int64)

        def run(begin: int, end: int) -> int:
            begin_at[0] = run_changing_synchronous(
                here, self.queries.epsilon, values[begin:end], tree, self.queries.low,
                self.queries.high, self.changes, begin_at[0], label, answer, trigger, counts,
            )  # fmt: skip
            return int(counts[EVALUATED])

        sampled.take(at, values.size, run)


def play_changing_batches(values: Floats, queries: Queries, changes: Array, size: int) -> Played:
    """Take our clusters and summary through a stream, queries coming and going between batches.

    All are grouped anew when that is due. Numbers of queries are those of `changes`, which come in
    order.
    """
    played, summary = Played(), Summaries(queries.epsilon)
    clusters, counts = Clusters(epsilon=queries.epsilon), np.zeros(COUNTS, np.int64)
    for piece in pieces(values.size, size):
        here = changes[np.searchsorted(changes[:, 0], piece.start, "right") :]
        here = here[: np.searchsorted(here[:, 0], piece.stop, "right")]
        come, go = here[here[:, 2] == 0, 1], here[here[:, 2] == 1, 1]
        given = values[piece]
        begin = time.perf_counter()
        summary.update(ONE_KEY, np.array([0, given.size]), given)
        clusters.register(queries.low[come], queries.high[come])
        clusters.drop(go)
        job = clusters.due_recluster()
        if job is not None:
            clusters.install(job, job.run())
        low, high = clusters.intersections()
        middle = ((low + high) / 2)[clusters.order()]
        found = summary.query_many(0, middle * piece.stop)[0]
        counts[EVALUATED] += found.size
        played.note(piece.stop, time.perf_counter() - begin, counts)
    return played
