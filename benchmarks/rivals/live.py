"""From registering one query until it is live, beside all that are there."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import numpy as np

from benchmarks.findings import Findings, Table
from benchmarks.harness import Stopwatch, check_count
from benchmarks.rivals.contest import Builder
from benchmarks.rivals.contestant import Contestant
from benchmarks.rivals.work import Borders, Events

TIMES = 30


def until_live(findings: Findings, work: Borders, builders: Sequence[Builder]) -> dict[str, float]:
    """Register borders one by one, each in front of the event that enters it.

    Returns the microseconds of each contestant: the call that registers, and how much longer the
    next call with one event takes than one with no change before it.
    """
    until: dict[str, float] = {}
    rows: list[list[str | float | None]] = []
    for build in builders:
        contestant = build(work)
        register, after, without = _play(contestant, work)
        contestant.close()
        until[contestant.name] = register + max(0.0, after - without)
        rows.append([contestant.name, until[contestant.name], register, after, without])
    findings.tables.append(
        Table(
            "rivals-live",
            f"From registering one border until it is live, {work.queries:,} there",
            ["", "us until live", "us to register", "us of the next event", "us of other events"],
            rows,
            f"Median of {TIMES}. Until live: the call that registers, and how much longer the next"
            " call with one event takes than one with no change before it. That event enters the"
            " new query, and everybody has to tell it.",
        )
    )
    return until


def _play(contestant: Contestant, work: Borders) -> tuple[float, float, float]:
    """Return the microseconds of a registration, of the next event, and of events without one."""
    watches = Stopwatch(), Stopwatch(), Stopwatch()
    key, far = 0, float(work.high.max()) + 10.0
    told = 0
    for number in range(TIMES + 3):
        register, after, without = watches if number >= 3 else (Stopwatch(),) * 3
        away = _event(contestant, key, far)  # above all boxes, those of the last turns too
        low = far + 10.0
        far = low + 10.0
        contestant.process(away)
        without(contestant.process, contestant.prepare(Events(np.array([low - 5]), _keys(key))))
        register(contestant.register, key, low, low + 5)
        inside = _event(contestant, key, low + 1)
        found = after(contestant.process, inside)
        told += contestant.count(found)
        contestant.process(_event(contestant, key, far))
    check_count(f"new queries that {contestant.name} told", TIMES + 3, told)
    register_us, after_us, without_us = (1e6 * median(w.timing.samples) for w in watches)
    return register_us, after_us, without_us


def _keys(key: int) -> np.ndarray:
    return np.array([key], np.int64)


def _event(contestant: Contestant, key: int, value: float) -> object:
    return contestant.prepare(Events(np.array([value]), _keys(key)))
