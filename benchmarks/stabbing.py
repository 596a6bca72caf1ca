"""Check and time interval indexes on one workload: the inner loop of the range subjects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from benchmarks.harness import Timing, race
from benchmarks.peers import Stabbed
from benchmarks.workloads import Intervals

MOST_MATCHES = 5_000_000  # written in one timed pass, so that buffers stay below 100 MB
Builder = Callable[[Intervals], Stabbed]


@dataclass(frozen=True)
class Stabbing:
    """What a contestant needs for one workload."""

    ns: float
    spread: float
    nbytes: int | None
    values: int


def values_for(work: Intervals, *, slow: bool, slow_values: int) -> int:
    """Return how many values a contestant searches."""
    per_value = max(1.0, float((work.high - work.low).sum()) / work.domain)
    most = min(work.values.size, int(MOST_MATCHES / per_value))
    return min(slow_values, most) if slow else most


def stab(
    work: Intervals,
    builders: Mapping[str, Builder],
    *,
    rounds: int = 7,
    budget_s: float = 0.5,
    slow_values: int = 2_000,
) -> dict[str, Stabbing]:
    """Build all, compare their matches with brute force, then time them in turns."""
    indexes = {name: build(work) for name, build in builders.items()}
    calls = {}
    counts = {}
    for name, index in indexes.items():
        counts[name] = values_for(work, slow=index.slow, slow_values=slow_values)
        prepared = index.prepare(work.values[: counts[name]])
        work.check(name, *index.lists(index.search(prepared)))
        calls[name] = _bound(index, prepared)
    timings = race(calls, rounds=rounds, budget_s=budget_s)
    return {
        name: _stabbing(timings[name], counts[name], index.nbytes())
        for name, index in indexes.items()
    }


def _bound(index: Stabbed, prepared: object) -> Callable[[], object]:
    return lambda: index.search(prepared)


def _stabbing(timing: Timing, values: int, nbytes: int | None) -> Stabbing:
    return Stabbing(timing.best / values * 1e9, timing.spread, nbytes, values)
