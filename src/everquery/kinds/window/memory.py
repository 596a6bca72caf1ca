"""What a group of windows holds, and what it would hold otherwise: exactly, or within an error."""

from __future__ import annotations

import math

import numpy as np

from everquery.kinds.window.chances import sample_size
from everquery.kinds.window.families import (
    COUNT,
    DISTINCT,
    EVENT_SAMPLES,
    FAMILY,
    L1,
    L2,
    MAX,
    MEASURES,
    MIN,
    RESTS,
    SKETCHES,
    SUM,
    VALUE_SAMPLES,
    family_of,
    layout_of,
)
from everquery.kinds.window.store import Store

ERROR = 0.01  # of which exact windows say what they would hold
LOOKED_AT = 100  # lanes; of the others as much is expected

WHAT = {
    VALUE_SAMPLES: "a sample of its values",
    EVENT_SAMPLES: "a sample of its events",
    SKETCHES: "events, and sketches of them",
}


def entry_bytes(layout: int) -> int:
    """Return how many bytes an entry takes."""
    return 8 * (1 + MEASURES[layout] + RESTS[layout])


def held_by(store: Store, group: int) -> str:
    """Return what a group of queries holds."""
    here = store.group_of_lanes() == group
    entries = int(store.lanes.used[: store.used][here].sum())
    what = WHAT.get(store.layout, "buckets of events")
    if store.name.exact:
        what = "every event of its window"
    held = f"{entries:,} entries of {store.entry_bytes()} bytes in {np.count_nonzero(here):,} lanes"
    return f"{what}, {held}, shared by {int(store.queries[group]):,} queries"


def held_otherwise(store: Store, group: int, statistic: int) -> tuple[str, ...]:
    """Return what it would hold if it were exact; or, if it is, within an error of 1%."""
    lanes = np.flatnonzero(store.group_of_lanes() == group)
    if not lanes.size or store.changed or statistic in (MIN, MAX):
        return ()
    looked_at = lanes[:: -(-lanes.size // LOOKED_AT)].tolist()
    counts = [_exact_entries(store, lane, group, statistic) for lane in looked_at]
    if store.name.exact:
        family = family_of(statistic, exact=False, positive=False)
        counts = [_entries_within(ERROR, statistic, n) for n in counts]
        size, how = entry_bytes(layout_of(family, exact=False)), f"with epsilon={ERROR}"
    else:
        size, how = entry_bytes(FAMILY[statistic]), "with epsilon=0"
    entries = sum(counts) / len(counts) * lanes.size
    if not math.isfinite(entries):  # of a snapshot that nobody wrote
        return ()
    return (f"{how}, it would hold about {round(entries):,} entries of {size} bytes",)


def _exact_entries(store: Store, lane: int, group: int, statistic: int) -> float:
    if store.name.exact:
        return float(store.lanes.used[lane])
    window = store.groups.longest[group]
    value, _, _, n, _ = store.ask(lane, statistic, window, None)
    if statistic == DISTINCT:
        return float(value)
    if n < 0:  # nobody counts the events that a sample is of
        n = min(float(window), store.pools.base[lane, 0])
    return float(n)


def _entries_within(error: float, statistic: int, n: float) -> float:
    """Return how many entries a lane of `n` has: by the formulas of docs/windows.md."""
    if statistic in (DISTINCT, L1):
        size = sample_size(error)
        return n if n <= size else size * (1 + math.log(n / size))
    if statistic == L2:
        return n  # as long as a bucket of events takes less room than a sketch
    double = 2 * error if statistic in (COUNT, SUM) else error
    return n if double * n <= 1 else min(n, (1 + math.log(double * n)) / double)
