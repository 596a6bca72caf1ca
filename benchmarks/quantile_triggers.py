"""The paper continuous-quantiles one element at a time: a trigger for each cluster (Algorithm 4).

Triggers are a min-heap of differences to the parent, so that one subtraction at the root counts an
element for all. An entry whose cluster has changed since stays until it fires and is dropped then.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from benchmarks.papers.cluster_tree import CHANGED, ClusterTree
from benchmarks.papers.online_clusters import place_query, take_query
from benchmarks.quantile_paper import (
    COUNTS,
    FIRED,
    FIRST,
    NOWHERE,
    REFORMED,
    SEEN,
    Summary,
    add_value,
    best_tuple,
    evaluate_all,
    find_tuple,
    let_go,
    note_answer,
)
from everquery.core.arrays import Array, Floats, Int32s, Int64s
from everquery.core.jit import kernel, part


class Triggers(NamedTuple):
    """Triggers in a heap, and what they watch, by cluster.

    Attributes
    ----------
    more : how much more than its parent an entry waits; of the root, how many elements it waits
    who, age : the cluster of each entry, and the cluster's age when it was made
    size : shape (1,), entries
    slot : the tuple that the cluster's trigger hangs on, or one merged into it; `NOWHERE` without
    present : the age of each cluster; entries of another age are void
    answer : a value
    counts : see `FIRED` and the words after it
    """

    more: Floats
    who: Int32s
    age: Int32s
    size: Int64s
    slot: Int32s
    present: Int32s
    answer: Floats
    counts: Int64s


def new_triggers(clusters: int, room: int) -> Triggers:
    """Return triggers of clusters still to come, `room` entries at most."""
    return Triggers(
        np.zeros(room), np.zeros(room, np.int32), np.zeros(room, np.int32), np.zeros(1, np.int64),
        np.full(clusters, NOWHERE, np.int32), np.zeros(clusters, np.int32),
        np.full(clusters, np.nan), np.zeros(COUNTS, np.int64),
    )  # fmt: skip


def fill_heap(triggers: Triggers, waits: Floats) -> None:
    """Let clusters 0, 1, ... fire after so many elements: entries in order are a heap."""
    order = np.argsort(waits, kind="stable")
    parent = (np.arange(waits.size) - 1) // 2
    ascending = waits[order]
    triggers.more[: waits.size] = ascending - np.where(parent < 0, 0.0, ascending[parent])
    triggers.who[: waits.size] = order
    triggers.size[0] = waits.size


def set_triggers(clusters: int) -> Triggers:
    """Return triggers of so many clusters that all fire with the first element."""
    triggers = new_triggers(clusters, clusters)
    fill_heap(triggers, np.zeros(clusters))
    return triggers


@part
def replace_root(triggers: Triggers, wait: float, who: int, age: int) -> None:
    """Put an entry in the place of the root, and let it sink."""
    more, size = triggers.more, triggers.size[0]
    node, parent, was = 0, 0.0, more[0]
    while True:
        left, right = 2 * node + 1, 2 * node + 2
        least, other = left, right
        if right < size and more[right] < more[left]:
            least, other = right, left
        up = was + more[least] if least < size else wait
        if wait <= up:
            if left < size:
                more[left] += was - wait
            if right < size:
                more[right] += was - wait
            break
        more[node] = up - parent
        triggers.who[node], triggers.age[node] = triggers.who[least], triggers.age[least]
        if other < size:
            more[other] += was - up
        node, parent, was = least, up, up
    more[node] = wait - parent
    triggers.who[node], triggers.age[node] = who, age


@part
def path_to(node: int) -> tuple[int, int]:
    """Return ``node + 1`` and how many steps it is below the root: its bits are the way down."""
    bits = 0
    while (node + 1) >> (bits + 1):
        bits += 1
    return node + 1, bits


@part
def push(triggers: Triggers, wait: float, who: int, age: int) -> None:
    """Add an entry: down the way to the new last place, whoever waits longer is carried on."""
    more, last = triggers.more, triggers.size[0]
    if last == more.size:
        raise MemoryError
    triggers.size[0] = last + 1
    way, bits = path_to(last)
    parent = 0.0
    for step in range(bits, 0, -1):
        node = (way >> step) - 1
        here = parent + more[node]
        if wait < here:
            more[node] -= here - wait
            for child in range(2 * node + 1, 2 * node + 3):
                if child < last:
                    more[child] += here - wait
            triggers.who[node], who = who, triggers.who[node]
            triggers.age[node], age = age, triggers.age[node]
            here, wait = wait, here
        parent = here
    more[last] = wait - parent
    triggers.who[last], triggers.age[last] = who, age


@part
def drop_root(triggers: Triggers) -> None:
    """Take the root out; the last entry goes in its place."""
    last = triggers.size[0] - 1
    triggers.size[0] = last
    if last == 0:
        return
    way, bits = path_to(last)
    wait = 0.0
    for step in range(bits, -1, -1):
        wait += triggers.more[(way >> step) - 1]
    replace_root(triggers, wait, triggers.who[last], triggers.age[last])


@part
def evaluate(
    summary: Summary, epsilon: float, low: float, high: float, cluster: int, triggers: Triggers
) -> float:
    """Find the best tuple from the one that the cluster hangs on; return how long it surely is."""
    old = triggers.slot[cluster]
    at = summary.state[FIRST] if old == NOWHERE else find_tuple(summary, old)
    best, longest = best_tuple(summary, low, high, epsilon, at)
    summary.hanging[best] += 1
    if old != NOWHERE:
        let_go(summary, triggers.slot[cluster])
    triggers.slot[cluster] = best
    note_answer(summary, best, cluster, triggers.answer, triggers.counts)
    return max(0.0, longest)


@part
def count_element(
    summary: Summary, epsilon: float, value: float, low: Floats, high: Floats, triggers: Triggers
) -> None:
    """Case 1 of Algorithm 4: an element arrives."""
    add_value(summary, epsilon, value)
    triggers.more[0] -= 1.0
    while triggers.size[0] > 0 and triggers.more[0] < 0.0:
        cluster, age = triggers.who[0], triggers.age[0]
        if triggers.present[cluster] != age:
            drop_root(triggers)
            continue
        triggers.counts[FIRED] += 1
        wait = evaluate(summary, epsilon, low[cluster], high[cluster], cluster, triggers)
        replace_root(triggers, wait, cluster, age)


@kernel
def run_asynchronous(
    summary: Summary, epsilon: float, values: Floats, low: Floats, high: Floats, triggers: Triggers
) -> None:
    """Evaluate each cluster when its own answer may have become wrong (CASU)."""
    for i in range(values.size):
        count_element(summary, epsilon, values[i], low, high, triggers)


@kernel
def hang_all(
    summary: Summary, epsilon: float, low: Floats, high: Floats, triggers: Triggers, waits: Floats
) -> None:
    """Evaluate clusters 0, 1, ..., in order, that hang nowhere yet; write what they wait."""
    at = summary.state[FIRST]
    for cluster in range(low.size):
        at, longest = best_tuple(summary, low[cluster], high[cluster], epsilon, at)
        summary.hanging[at] += 1
        triggers.slot[cluster] = at
        note_answer(summary, at, cluster, triggers.answer, triggers.counts)
        waits[cluster] = max(0.0, longest)


@part
def change_query(
    tree: ClusterTree, low: Floats, high: Floats, query: int, is_drop: bool, label: Int32s
) -> None:
    """Let a query come or go: Algorithm 2."""
    if is_drop:
        take_query(tree, label[query])
        label[query] = NOWHERE
    else:
        label[query] = place_query(tree, low[query], high[query])
        if label[query] == NOWHERE:
            raise MemoryError


@part
def hang_changed(summary: Summary, epsilon: float, tree: ClusterTree, triggers: Triggers) -> None:
    """Case 2 of Algorithm 4: evaluate clusters that queries have made or narrowed."""
    for i in range(tree.state[CHANGED]):
        cluster = tree.changed[i]
        tree.is_changed[cluster] = 0
        triggers.present[cluster] += 1
        if tree.members[cluster] > 0:
            low, high = tree.low[cluster], tree.high[cluster]
            wait = evaluate(summary, epsilon, low, high, cluster, triggers)
            push(triggers, wait, cluster, triggers.present[cluster])
        elif triggers.slot[cluster] != NOWHERE:
            let_go(summary, triggers.slot[cluster])
            triggers.slot[cluster] = NOWHERE
        triggers.counts[REFORMED] += 1
    tree.state[CHANGED] = 0


@kernel
def run_changing(
    summary: Summary, epsilon: float, values: Floats, tree: ClusterTree, low: Floats, high: Floats,
    changes: Array, begin: int, label: Int32s, triggers: Triggers,
) -> int:  # fmt: skip
    """CASU with queries that come and go; return the first change that is still to be made.

    Parameters
    ----------
    low, high, label : by query
    changes : int64, shape (changes, 3): after which element of the stream, query, 1 if it goes
    begin : the first change to be made
    """
    for i in range(values.size):
        count_element(summary, epsilon, values[i], tree.low, tree.high, triggers)
        n = summary.state[SEEN]
        while begin < len(changes) and changes[begin, 0] <= n:
            query, is_drop = changes[begin, 1], changes[begin, 2] == 1
            change_query(tree, low, high, query, is_drop, label)
            hang_changed(summary, epsilon, tree, triggers)
            begin += 1
    return begin


@part
def lowest_cluster(tree: ClusterTree) -> int:
    """Return the cluster with the lowest intersection, or `NOWHERE`."""
    node = tree.child[0]
    while node != NOWHERE and tree.child[2 * node + 1] != NOWHERE:
        node = tree.child[2 * node + 1]
    return int(node)


@kernel
def run_changing_synchronous(
    summary: Summary, epsilon: float, values: Floats, tree: ClusterTree, low: Floats, high: Floats,
    changes: Array, begin: int, label: Int32s, answer: Floats, trigger: Floats, counts: Int64s,
) -> int:  # fmt: skip
    """CSU with queries that come and go; see `run_changing` and `run_synchronous`."""
    for i in range(values.size):
        add_value(summary, epsilon, values[i])
        n = summary.state[SEEN]
        trigger[0] -= 1.0
        if trigger[0] < 0.0:
            first = lowest_cluster(tree)
            longest = evaluate_all(
                summary, epsilon, tree.low, tree.high, first, tree.after, answer, counts
            )
            trigger[0] = max(0.0, longest)
        while begin < len(changes) and changes[begin, 0] <= n:
            query, is_drop = changes[begin, 1], changes[begin, 2] == 1
            change_query(tree, low, high, query, is_drop, label)
            begin += 1
            for k in range(tree.state[CHANGED]):
                cluster = tree.changed[k]
                tree.is_changed[cluster] = 0
                if tree.members[cluster] > 0:
                    at = summary.state[FIRST]
                    low_end, high_end = tree.low[cluster], tree.high[cluster]
                    at, longest = best_tuple(summary, low_end, high_end, epsilon, at)
                    note_answer(summary, at, cluster, answer, counts)
                    trigger[0] = max(0.0, min(trigger[0], longest))
            tree.state[CHANGED] = 0
    return begin
