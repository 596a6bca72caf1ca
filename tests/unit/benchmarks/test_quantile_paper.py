"""The paper's own ways, against exact ranks after every element."""

import numpy as np
import pytest
from benchmarks.papers.quantile_clusters import Clusters
from benchmarks.papers.rank_intervals import group_intervals, rank_intervals
from benchmarks.quantile_paper import (
    COUNTS,
    EVALUATED,
    FIRST,
    NOWHERE,
    SEEN,
    SIZE,
    new_summary,
    run_eager,
    run_summary,
    run_synchronous,
)
from benchmarks.quantile_triggers import (
    drop_root,
    fill_heap,
    hang_all,
    new_triggers,
    push,
    replace_root,
    run_asynchronous,
    run_changing,
    run_changing_synchronous,
    set_triggers,
)

from everquery.kinds.quantile.gk_merge import capacity

EPSILON = 0.02
ELEMENTS = 400
DRAW = np.random.default_rng(7)
STREAMS = {
    "uniform": DRAW.random(ELEMENTS),
    "normal": DRAW.normal(size=ELEMENTS),
    "semisort": np.repeat(np.arange(8.0), ELEMENTS // 8) + DRAW.random(ELEMENTS),
    "sorted": np.arange(float(ELEMENTS)),
    "reversed": -np.arange(float(ELEMENTS)),
    "constant": np.ones(ELEMENTS),
    "few values": DRAW.integers(0, 5, ELEMENTS).astype(float),
}
STREAM = pytest.mark.parametrize("values", STREAMS.values(), ids=STREAMS)


def make_queries(n=60):
    phi = DRAW.uniform(0, 1, n)
    epsilon = DRAW.uniform(EPSILON, 0.08, n)
    phi[:4], epsilon[:4] = (0.5, 0.001, 1.0, 0.5), (EPSILON, EPSILON, EPSILON, 0.6)
    return phi, epsilon, *rank_intervals(phi, epsilon, summary_epsilon=EPSILON)


def check_answers(seen, answers, phi, epsilon):
    """A rank of each answer is as near as the query asks.

    But of so few elements that no whole rank may be near, one of the next two is enough; and no
    rank is below the first.
    """
    ranked = np.sort(seen)
    assert np.isin(answers, ranked).all()
    low = np.searchsorted(ranked, answers, "left") + 1
    high = np.searchsorted(ranked, answers, "right")
    off = np.maximum(np.maximum(low - phi * seen.size, phi * seen.size - high), 0)
    allowed = epsilon * seen.size + (2 * EPSILON * seen.size < 1)
    assert (off <= np.maximum(allowed, 1 - phi * seen.size) + 1e-9).all()


def chain(n):
    after = np.arange(1, n + 1, dtype=np.int32)
    after[-1] = NOWHERE
    return after


@STREAM
def test_gaps_stay_within_the_capacity_and_ranks_are_true(values):
    summary = new_summary(4096)
    for n in range(1, values.size + 1):
        run_summary(summary, EPSILON, values[n - 1 : n])
        slots = [summary.state[FIRST]]
        while summary.after[slots[-1]] != NOWHERE:
            slots.append(summary.after[slots[-1]])
        assert len(slots) == summary.state[SIZE]
        assert n == summary.state[SEEN]
        kept, minus, plus = (column[slots] for column in summary[:3])
        assert (np.diff(kept) >= 0).all()
        assert (minus[0], plus[0], minus[-1], plus[-1]) == (1, 1, n, n)
        assert (plus[1:] - minus[:-1]).max(initial=1) <= capacity(EPSILON, n)
        ranked = np.sort(values[:n])
        assert (np.searchsorted(ranked, kept, "left") + 1 <= plus).all()
        assert (np.searchsorted(ranked, kept, "right") >= minus).all()
    assert len(slots) <= 11 / (2 * EPSILON) * np.log2(2 * EPSILON * n)


@STREAM
def test_eager_answers(values):
    phi, epsilon, low, high = make_queries()
    summary, answer, counts = new_summary(4096), np.full(60, np.nan), np.zeros(COUNTS, np.int64)
    for n in range(1, values.size + 1):
        run_eager(summary, EPSILON, values[n - 1 : n], low, high, answer, counts)
        check_answers(values[:n], answer, phi, epsilon)
    assert counts[EVALUATED] == 60 * values.size


@STREAM
@pytest.mark.parametrize("method", ["a", "b", None])
def test_synchronous_answers(values, method):
    phi, epsilon, low, high = make_queries()
    cluster_of = np.arange(60)
    if method is None:  # SU: the ends in order, each on its own
        order = np.argsort(phi)
        phi, low, high = phi[order], np.sort(low), np.sort(high)
        epsilon = np.maximum(high - phi, phi - low) + EPSILON
    else:
        groups = group_intervals(low, high, method=method, epsilon=EPSILON)
        cluster_of, low, high = groups.cluster_of, groups.low, groups.high
    summary, answer, counts = new_summary(4096), np.full(60, np.nan), np.zeros(COUNTS, np.int64)
    trigger, after = np.zeros(1), chain(low.size)
    for n in range(1, values.size + 1):
        run_synchronous(
            summary, EPSILON, values[n - 1 : n], low, high, 0, after, answer, trigger, counts
        )
        check_answers(values[:n], answer[cluster_of], phi, epsilon)
    assert 0 < counts[EVALUATED] < low.size * values.size


@STREAM
@pytest.mark.parametrize("method", ["a", "b"])
def test_asynchronous_answers(values, method):
    phi, epsilon, low, high = make_queries()
    groups = group_intervals(low, high, method=method, epsilon=EPSILON)
    summary, triggers = new_summary(4096), set_triggers(groups.low.size)
    for n in range(1, values.size + 1):
        run_asynchronous(summary, EPSILON, values[n - 1 : n], groups.low, groups.high, triggers)
        check_answers(values[:n], triggers.answer[groups.cluster_of], phi, epsilon)
    assert triggers.size[0] == groups.low.size
    assert 0 < triggers.counts[EVALUATED] < groups.low.size * values.size


@STREAM
def test_triggers_may_begin_anywhere(values):
    phi, epsilon, low, high = make_queries()
    groups = group_intervals(low, high, method="a", epsilon=EPSILON)
    k = groups.low.size
    summary, triggers, waits = new_summary(4096), set_triggers(k), np.empty(k)
    run_summary(summary, EPSILON, values[:200])
    hang_all(summary, EPSILON, groups.low, groups.high, triggers, waits)
    fill_heap(triggers, np.minimum(waits, 1e9) * DRAW.random(k))
    for n in range(201, values.size + 1):
        run_asynchronous(summary, EPSILON, values[n - 1 : n], groups.low, groups.high, triggers)
        check_answers(values[:n], triggers.answer[groups.cluster_of], phi, epsilon)


@STREAM
@pytest.mark.parametrize("is_synchronous", [True, False])
def test_queries_come_and_go(values, is_synchronous):
    phi, epsilon, low, high = make_queries()
    come, go = np.sort(DRAW.integers(1, 200, 60)), DRAW.integers(200, 390, 60)
    both = np.concatenate(
        [np.c_[come, np.arange(60), np.zeros(60)], np.c_[go, np.arange(60), np.ones(60)]]
    )
    changes = both[np.argsort(both[:, 0], kind="stable")].astype(np.int64)
    clusters = Clusters()
    clusters.register(low, high)
    clusters.drop(np.arange(60))
    clusters.take_changed()
    tree, label = clusters.tree, np.full(60, NOWHERE, np.int32)
    summary, triggers = new_summary(4096), new_triggers(tree.low.size, 500)
    trigger, begin = np.full(1, np.inf), 0
    for n in range(1, values.size + 1):
        given = (summary, EPSILON, values[n - 1 : n], tree, low, high, changes, begin, label)
        if is_synchronous:
            begin = run_changing_synchronous(*given, triggers.answer, trigger, triggers.counts)
        else:
            begin = run_changing(*given, triggers)
        here = np.flatnonzero((come <= n) & (go > n))
        roots = [label[query] for query in here]
        for i, number in enumerate(roots):
            while tree.heir[number] != number:
                number = tree.heir[number]
            roots[i] = number
        check_answers(values[:n], triggers.answer[roots], phi[here], epsilon[here])
    assert begin == 120


def test_heap_of_differences():
    triggers = new_triggers(300, 300)
    waits = {}
    for turn in range(2000):
        choice = DRAW.integers(0, 4)
        if choice == 0 and waits:
            waits = {who: wait - 1 for who, wait in waits.items()}
            triggers.more[0] -= 1
        elif choice == 1 and waits:
            assert waits.pop(int(triggers.who[0])) == triggers.more[0]
            drop_root(triggers)
        elif choice == 2 and waits:
            del waits[int(triggers.who[0])]
            waits[turn] = int(triggers.more[0]) + int(DRAW.integers(0, 50))
            replace_root(triggers, float(waits[turn]), turn, 0)
        elif len(waits) < 300:
            waits[turn] = int(DRAW.integers(0, 50))
            push(triggers, float(waits[turn]), turn, 0)
        assert triggers.size[0] == len(waits)
        if waits:
            assert triggers.more[0] == min(waits.values())
