"""What works beside the demo's job on Spark: who writes the market, and who changes queries."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Any

from everquery.cli.demo.registrar import Task
from everquery.cli.this_process import Clock
from everquery.sources.market_files import MarketFiles

PAUSE_SECONDS = 0.01
PATIENCE_SECONDS = 5.0


class Feeder(Thread):
    """Writes the market's files, never many ahead of the job.

    Parameters
    ----------
    market : MarketFiles
    is_ahead : function
        Tells whether there are enough events that the job has not processed.
    clock : function
    """

    def __init__(self, market: MarketFiles, *, is_ahead: Callable[[], bool], clock: Clock) -> None:
        super().__init__(name="everquery-market", daemon=True)
        self._market = market
        self._is_ahead = is_ahead
        self._clock = clock
        self._over = Event()
        self._written: deque[tuple[int, float]] = deque()  # events so far, and when

    def run(self) -> None:
        """Write until there is nothing more to write, or `stop`."""
        while not self._over.is_set() and not self._market.done:
            if self._is_ahead():
                self._over.wait(PAUSE_SECONDS)
                continue
            self._market.write()
            self._written.append((self._market.written, self._clock()))

    def taken(self, events: int) -> float | None:
        """Note how many events have been processed; return when the oldest new one was written."""
        oldest = None
        while self._written and self._written[0][0] <= events:
            _, when = self._written.popleft()
            oldest = when if oldest is None else oldest
        return oldest

    def stop(self) -> None:
        """Write no further file."""
        self._over.set()
        self.join()


class LiveChanges:
    """The second process, and what it tells.

    Parameters
    ----------
    task : Task
    log : Path
        Gets its errors.
    clock : function
    """

    def __init__(self, task: Task, *, log: Path, clock: Clock) -> None:
        self._clock = clock
        self.told: dict[str, Any] | None = None
        self.done = not task.plan.changes
        self._open: deque[tuple[int, float]] = deque()  # no effect yet: position, and when
        self._process: subprocess.Popen[str] | None = None
        if self.done:
            return
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "everquery.cli.demo.registrar", task.as_json()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        Thread(target=self._listen, name="everquery-registrar", daemon=True).start()

    def begin(self) -> None:
        """Let it change queries from now on."""
        if self._process is not None:
            assert self._process.stdin is not None
            print("go", file=self._process.stdin, flush=True)

    def _listen(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            if self.told is not None:  # the first line only says where it begins
                self._open.append((told["position"], self._clock()))
            self.told = told
        self.done = True

    @property
    def waiting(self) -> bool:
        """Whether changes have been made that have no effect yet."""
        return bool(self._open)

    def took_effect(self, position: int, now: float) -> list[float]:
        """Note the version of the query set of a batch; return how long changes took to get in."""
        seconds = []
        while self._open and self._open[0][0] <= position:
            seconds.append(now - self._open.popleft()[1])
        return seconds

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            try:
                self._process.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
