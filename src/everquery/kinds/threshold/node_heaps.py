"""One min-heap of entries for each node, all in flat arrays; entries know where they stand.

The heaps of range-thresholding, section 4: what a node has to count before it tells the row that
owns the entry. A heap has room for all entries of its node, so nothing ever moves between nodes.
Four children a place rather than two: half as many levels, and the four lie in a cache line.
"""

from __future__ import annotations

import numpy as np

from everquery.core.arrays import Int32s, Int64s
from everquery.core.jit import kernel, part

NEVER = np.iinfo(np.int64).max

# The columns of a node, int64: together, for one cache miss brings them all.
COUNT = 0  # the weight of the events in it
DUE = 1  # the count at which its first entry is due; NEVER without entries
BASE = 2  # the first slot of its heap
SIZE = 3  # the entries in its heap

# due : int64, shape (slots,), the count at which the entry in a slot is due
# entry : int32, shape (slots,), the entry in a slot
# slot : int32, shape (entries,), where the entry is; -1 if it is in no heap
Heaps = tuple[Int64s, Int32s, Int32s]


def new_heaps(node: Int32s, nodes: int) -> tuple[Int64s, Heaps]:
    """Return the columns of `nodes` nodes, and their empty heaps, for entries at these nodes."""
    columns = np.zeros((nodes, 4), np.int64)
    columns[:, DUE] = NEVER
    columns[1:, BASE] = np.cumsum(np.bincount(node, minlength=nodes)[:-1])
    heaps = (
        np.empty(node.size, np.int64),
        np.empty(node.size, np.int32),
        np.empty(node.size, np.int32),
    )
    return columns, heaps


@kernel
def fill_heaps(
    order: Int64s, row_start: Int64s, node: Int32s, key: Int64s, nodes: Int64s, heaps: Heaps
) -> None:
    """Put all entries into empty heaps, by ascending keys: a sorted list is a heap. O(entries).

    Parameters
    ----------
    order : int64, shape (rows,): the rows by ascending key
    row_start : int64, shape (rows + 1,): where each row's entries begin
    node : int32, shape (entries,)
    key : int64, shape (rows,): the key of all entries of a row
    """
    due, entry, slot = heaps
    for row in order:
        for e in range(row_start[row], row_start[row + 1]):
            u = node[e]
            at = nodes[u, BASE] + nodes[u, SIZE]
            nodes[u, SIZE] += 1
            nodes[u, DUE] = min(nodes[u, DUE], key[row])
            due[at] = key[row]
            entry[at] = e
            slot[e] = at


@part
def sift_up(heaps: Heaps, base: int, place: int, key: int, e: int) -> None:
    """Put entry `e` at `place` of the heap that begins at slot `base`, or above it."""
    due, entry, slot = heaps
    while place > 0:
        parent = (place - 1) >> 2
        if due[base + parent] <= key:
            break
        due[base + place] = due[base + parent]
        entry[base + place] = entry[base + parent]
        slot[entry[base + place]] = base + place
        place = parent
    due[base + place] = key
    entry[base + place] = e
    slot[e] = base + place


@part
def sift_down(heaps: Heaps, base: int, size: int, place: int, key: int, e: int) -> None:
    """Put entry `e` at `place` of the heap that begins at slot `base`, or below it."""
    due, entry, slot = heaps
    while True:
        child = 4 * place + 1
        if child >= size:
            break
        least = child
        for other in range(child + 1, min(child + 4, size)):
            if due[base + other] < due[base + least]:
                least = other
        if key <= due[base + least]:
            break
        due[base + place] = due[base + least]
        entry[base + place] = entry[base + least]
        slot[entry[base + place]] = base + place
        place = least
    due[base + place] = key
    entry[base + place] = e
    slot[e] = base + place


@part
def set_key(nodes: Int64s, heaps: Heaps, u: int, e: int, key: int) -> None:
    """Give entry `e` of node `u` another key; put it into the heap if it is in none."""
    due, _, slot = heaps
    base = nodes[u, BASE]
    at = slot[e]
    if at < 0:
        nodes[u, SIZE] += 1
        sift_up(heaps, base, nodes[u, SIZE] - 1, key, e)
    elif key < due[at]:
        sift_up(heaps, base, at - base, key, e)
    else:
        sift_down(heaps, base, nodes[u, SIZE], at - base, key, e)
    nodes[u, DUE] = due[base]


@part
def drop_first(nodes: Int64s, heaps: Heaps, u: int) -> None:
    """Take the first entry out of the heap of node `u`."""
    due, entry, slot = heaps
    base = nodes[u, BASE]
    last = base + nodes[u, SIZE] - 1
    nodes[u, SIZE] -= 1
    slot[entry[base]] = -1
    if last == base:
        nodes[u, DUE] = NEVER
        return
    sift_down(heaps, base, last - base, 0, due[last], entry[last])
    nodes[u, DUE] = due[base]
