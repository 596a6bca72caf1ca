"""Attacks in processes of their own: a crash, a hang or a huge allocation is a failure with a seed.

``attack(make_input, mutate, judge, n, seed)`` makes an input once in each worker, changes it in
``n`` ways, one for each seed, and judges what comes of each. The functions are those of a module,
so that a worker, which is a fresh Python, can import them. To see one failure alone, call
``judge(mutate(make_input(), random.Random(seed)))``. A long run has ``EVERQUERY_ATTACK=100000``;
``EVERQUERY_ATTACK_SEED=10000000`` begins with other seeds, and ``EVERQUERY_ATTACK_WORKERS=1`` has
one worker at a time.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import random
import resource
import select
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HANG_SECONDS = 10.0
START_SECONDS = 180.0  # where kernels are compiled for the first time
GROWTH_BYTES = 1 << 30
ROOT = Path(__file__).parents[2]
MEMORY = Path("/dev/shm")  # where a file waits for no disk


@dataclass
class Outcome:
    """How an attack went.

    Attributes
    ----------
    counts : how often `judge` said what
    failures : seeds, and what happened: what `judge` raised, or how the worker ended
    """

    counts: Counter[str] = field(default_factory=Counter)
    failures: dict[int, str] = field(default_factory=dict)

    def check(self) -> None:
        """Raise with the first failures, if there is one."""
        if self.failures:
            shown = "\n".join(
                f"seed {seed}: {what}" for seed, what in sorted(self.failures.items())[:5]
            )
            raise AssertionError(
                f"{len(self.failures)} failures ({dict(self.counts)} besides)\n{shown}"
            )


def rounds(few: int) -> int:
    """Return how many mutations to make: few, or EVERQUERY_ATTACK for a long run."""
    return int(os.environ.get("EVERQUERY_ATTACK", few))


def attack(
    make_input: Callable[..., Any],
    mutate: Callable[[Any, random.Random], Any],
    judge: Callable[[Any], str],
    n: int,
    seed: int,
    *,
    arguments: tuple[str, ...] = (),
    workers: int | None = None,
    hang_seconds: float = HANG_SECONDS,
    growth_bytes: int = GROWTH_BYTES,
) -> Outcome:
    """Try `n` mutations with the seeds from `seed` on.

    Parameters
    ----------
    make_input : function
        Called once in each worker, with `arguments`; it may warm up what takes long.
    mutate : function of the input and a random generator
        Returns what is judged, and leaves the input as it is.
    judge : function of that
        Returns a word for what came of it, and raises if that is wrong.
    """
    functions = [f"{each.__module__}:{each.__qualname__}" for each in (make_input, mutate, judge)]
    outcome = Outcome()
    seed += int(os.environ.get("EVERQUERY_ATTACK_SEED", "0"))
    waiting = list(range(seed, seed + n))[::-1]
    workers = workers or int(os.environ.get("EVERQUERY_ATTACK_WORKERS", "2"))
    pool = [_Worker(functions, arguments, growth_bytes) for _ in range(min(workers, n))]
    try:
        while waiting or any(worker.seed is not None for worker in pool):
            for i, worker in enumerate(pool):
                if worker.seed is None and waiting:
                    worker.give(waiting.pop(), hang_seconds)
                if worker.seed is not None and worker.is_over(outcome):
                    worker.end()
                    pool[i] = _Worker(functions, arguments, growth_bytes)
            asked = [worker.answers for worker in pool if worker.seed is not None]
            is_one_idle = bool(waiting) and len(asked) < len(pool)
            select.select(asked, [], [], 0.0 if is_one_idle else 0.5)
    finally:
        for worker in pool:
            worker.end()
    return outcome


class _Worker:
    """A process that judges one mutation after the other."""

    def __init__(self, functions: list[str], arguments: tuple[str, ...], growth: int) -> None:
        command = [sys.executable, "-m", __name__, json.dumps([functions, arguments, growth])]
        path = os.pathsep.join([str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - `end` closes it
        self._folder = tempfile.TemporaryDirectory(
            prefix="everquery-attack-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None
        )
        environment = {**os.environ, "PYTHONPATH": path, "TMPDIR": self._folder.name}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors,
            cwd=ROOT, env=environment, bufsize=0,
        )  # fmt: skip
        self.answers = self._process.stdout
        self.seed: int | None = None
        self._hang_seconds = 0.0
        self._deadline = time.monotonic() + START_SECONDS
        self._ready = False
        self._read = b""

    def give(self, seed: int, hang_seconds: float) -> None:
        self.seed, self._hang_seconds = seed, hang_seconds
        if self._ready:
            self._deadline = time.monotonic() + hang_seconds
        with contextlib.suppress(BrokenPipeError):  # it has died, and `is_over` will see
            self._process.stdin.write(b"%d\n" % seed)

    def is_over(self, outcome: Outcome) -> bool:
        """Take an answer, if there is one; tell whether the worker can't go on."""
        while self.seed is not None:
            line = self._line()
            if line is None:
                if time.monotonic() < self._deadline:
                    return False
                outcome.failures[self.seed] = "it hangs"
                return True
            if not self._ready:
                assert line == b"ready", f"a worker did not start: {self._said()}"
                self._ready = True
                self._deadline = time.monotonic() + self._hang_seconds
            elif not line:
                outcome.failures[self.seed] = (
                    f"the process died with {self._process.wait()}: {self._said()}"
                )
                return True
            else:
                self._take(json.loads(line), outcome)
        return False

    def _take(self, told: dict[str, str], outcome: Outcome) -> None:
        if told["failure"]:
            outcome.failures[self.seed] = told["failure"]
        else:
            outcome.counts[told["word"]] += 1
        self.seed = None

    def _line(self) -> bytes | None:
        """Return a line that was answered; None if there is none yet, nothing at the end."""
        while b"\n" not in self._read:
            if not select.select([self.answers], [], [], 0)[0]:
                return None
            more = os.read(self.answers.fileno(), 65_536)
            if not more:
                return b""
            self._read += more
        line, _, self._read = self._read.partition(b"\n")
        return line

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self.answers.close()
        self._errors.close()
        self._folder.cleanup()

    def _said(self) -> str:
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")[-3_000:]


def _work(functions: list[str], arguments: list[str], growth: int) -> None:
    """Judge the mutations whose seeds come on standard input."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever prints does not answer
    make_input, mutate, judge = map(_function, functions)
    given = make_input(*arguments)
    judge(given)  # unchanged: it must be right, and all that is compiled is compiled now
    before = _peak()
    # Address space is reserved by the gigabyte; what is really taken is looked at below.
    most = _address_space() + 4 * growth
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    answers.write("ready\n")
    for line in sys.stdin:
        failure = word = ""
        try:
            word = judge(mutate(given, random.Random(int(line))))
        except BaseException:
            failure = traceback.format_exc()[-3_000:]
        if not failure and _peak() - before > growth:
            failure, before = f"it took {(_peak() - before) / 1e6:,.0f} MB", _peak()
        answers.write(json.dumps({"word": word, "failure": failure}) + "\n")


def _function(name: str) -> Callable[..., Any]:
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1_024


def _address_space() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize()


if __name__ == "__main__":
    _work(*json.loads(sys.argv[1]))
