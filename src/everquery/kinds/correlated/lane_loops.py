"""Loops over many lanes: their lists by key, and their places in the pool."""

from __future__ import annotations

from everquery.core.arrays import Array, Int32s, Int64s
from everquery.core.jit import kernel


@kernel
def link_lanes(begin: int, end: int, key: Int32s, after: Int32s, heads: Int32s) -> None:
    """Put new lanes in front of those of their keys."""
    for lane in range(begin, end):
        if key[lane] >= 0:
            after[lane] = heads[key[lane]]
            heads[key[lane]] = lane


@kernel
def list_jobs(
    keys: Int32s, starts: Int64s, heads: Int32s, after: Int32s, group: Int32s, live: Int64s,
    jobs: Int64s,
) -> int:  # fmt: skip
    """Write the lanes of keys with the events of each; return how many there are.

    There may be more than there is room for: then no more is written.
    """
    n = 0
    for i in range(keys.size):
        if starts[i] == starts[i + 1] or keys[i] >= heads.size:
            continue
        lane = heads[keys[i]]
        while lane >= 0:
            if live[group[lane]] > 0:
                if n < jobs.shape[0]:
                    jobs[n, 0] = lane
                    jobs[n, 1] = starts[i]
                    jobs[n, 2] = starts[i + 1]
                n += 1
            lane = after[lane]
    return n


@kernel
def move_sections(
    source: Array, target: Array, froms: Int64s, old: Int64s, tos: Int64s, new: Int64s,
    fixed: Int64s, sections: Int64s, used: Int64s,
) -> None:  # fmt: skip
    """Copy lanes to other places: a fixed part, then sections with other room than before."""
    for i in range(froms.size):
        for place in range(fixed[i]):
            target[tos[i] + place] = source[froms[i] + place]
        for section in range(sections[i]):
            begin = froms[i] + fixed[i] + section * old[i]
            end = tos[i] + fixed[i] + section * new[i]
            for place in range(used[i]):
                target[end + place] = source[begin + place]
