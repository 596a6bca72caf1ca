"""Timing, verification and the facts of the machine: what all subjects share."""

from __future__ import annotations

import gc
import os
import platform
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from everquery.core.arrays import Array

ROOT = Path(__file__).resolve().parent.parent
SEED = 20_240_607
TURN_S = 0.06
CALLS_A_TURN = 5
PEERS = ("intervaltree", "ncls", "superintervals", "rtree")


class UnequalResultsError(AssertionError):
    """Two contestants disagree: nothing is timed until they do not."""


@dataclass(frozen=True)
class Scale:
    """How large a run is: the papers' sizes, or tiny ones that only prove that it runs."""

    quick: bool

    def pick(self, full: Any, quick: Any) -> Any:  # noqa: ANN401 - a parameter of any type
        """Return the parameter for this scale."""
        return quick if self.quick else full

    def generator(self, *path: int) -> np.random.Generator:
        """Return a generator of its own for a workload, the same in every run."""
        return np.random.default_rng([SEED, *path])


@dataclass
class Timing:
    """Seconds of each round."""

    samples: list[float] = field(default_factory=list)

    @property
    def best(self) -> float:
        """The least disturbed round."""
        return min(self.samples)

    @property
    def median(self) -> float:
        """The usual round, for streams whose batches differ."""
        return median(self.samples)

    @property
    def spread(self) -> float:
        """How far the usual round is above the best, as a share of it."""
        return self.median / self.best - 1

    @property
    def total(self) -> float:
        """All rounds."""
        return sum(self.samples)


class Stopwatch:
    """Notes the seconds of each call, without garbage collection in between.

    A result is kept until the next call is done, so that freeing it is not timed and a peer that
    makes large arrays finds memory that is mapped already.
    """

    def __init__(self) -> None:
        self.timing = Timing()
        self._kept: Any = None

    def __call__(self, call: Callable[..., Any], *given: Any) -> Any:  # noqa: ANN401 - any call
        """Call and time it."""
        collecting = gc.isenabled()
        gc.disable()
        try:
            begin = time.perf_counter()
            found = call(*given)
            self.timing.samples.append(time.perf_counter() - begin)
        finally:
            if collecting:
                gc.enable()
        self._kept = found
        return found


def race(
    contestants: Mapping[str, Callable[[], Any]], *, rounds: int = 7, budget_s: float = 1.0
) -> dict[str, Timing]:
    """Time contestants in turns, so that a disturbance hits all of them.

    One call of each comes first and is not counted. In its turn a contestant is called until it has
    used `TURN_S`, and the best call counts: it finds its own data in the cache and not its rival's.
    Who has used up the budget sits out the rest, but not the first two rounds.
    """
    timings = {name: Timing() for name in contestants}
    watches = {name: Stopwatch() for name in contestants}
    for call in contestants.values():
        call()
    for turn in range(rounds):
        for name, call in contestants.items():
            samples = watches[name].timing.samples
            if turn >= 2 and sum(samples) >= budget_s:
                continue
            first = len(samples)
            while len(samples) < first + CALLS_A_TURN and sum(samples[first:]) < TURN_S:
                watches[name](call)
            timings[name].samples.append(min(samples[first:]))
    return timings


def check_equal(what: str, expected: Array, found: Array) -> None:
    """Raise unless two arrays are the same."""
    expected, found = np.asarray(expected), np.asarray(found)
    if expected.shape != found.shape or not np.array_equal(expected, found):
        raise UnequalResultsError(
            f"{what}: {found.size} results that sum to {found.sum()},"
            f" expected {expected.size} that sum to {expected.sum()}"
        )


def check_count(what: str, expected: int, found: int) -> None:
    """Raise unless two counts are the same."""
    if expected != found:
        raise UnequalResultsError(f"{what}: {found:,} results, expected {expected:,}")


@contextmanager
def one_core() -> Iterator[None]:
    """Keep this thread, and threads that it starts meanwhile, on one core."""
    if not hasattr(os, "sched_setaffinity"):  # not Linux
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def provenance(scale: Scale, seconds: float) -> dict[str, Any]:
    """Return what a result needs to be understood later; no paths, no host name."""
    commit, dirty = _commit()
    return {
        "machine": {
            "cpu": _cpu_model(),
            "cores": os.cpu_count(),
            "system": platform.system(),
            "python": platform.python_version(),
            **{name: version(name) for name in ("numba", "numpy", "pyarrow", *PEERS)},
        },
        "commit": commit,
        "uncommitted_changes": dirty,
        "seed": SEED,
        "quick": scale.quick,
        "seconds": round(seconds, 1),
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "")


def _commit() -> tuple[str, bool]:
    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    try:
        return git("rev-parse", "HEAD"), bool(git("status", "--porcelain", "--", "src"))
    except (OSError, subprocess.CalledProcessError):
        return "unknown", False
