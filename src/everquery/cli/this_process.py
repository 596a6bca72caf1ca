"""What the operating system knows of this process: its age, its memory, and Ctrl-C."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from types import FrameType

Clock = Callable[[], float]

_STAT = Path("/proc/self/stat")
_STATM = Path("/proc/self/statm")


def clock_since_start() -> Clock:
    """Return a clock of the seconds since this process started.

    Where the system does not tell when that was, the clock starts at 0 now.
    """
    zero = time.perf_counter() - _age()
    return lambda: time.perf_counter() - zero


def _age() -> float:
    if not _STAT.exists():
        return 0.0
    # Field 22; the second one, the name in parentheses, may hold spaces.
    ticks = int(_STAT.read_text().rpartition(")")[2].split()[19])
    started = ticks / os.sysconf("SC_CLK_TCK")
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - started)


def resident_bytes() -> int:
    """Return the memory that this process holds (its peak, where the system tells only that)."""
    if _STATM.exists():
        return int(_STATM.read_text().split()[1]) * resource.getpagesize()
    return peak_bytes()


def peak_bytes() -> int:
    """Return the most memory that this process has held."""
    unit = 1 if sys.platform == "darwin" else 1_024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


@contextmanager
def broken_off() -> Iterator[None]:
    """Let Ctrl-C break off at once what is inside, where that leaves nothing half done.

    For an `interruptible` block around it the key is pressed afterwards.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    broken = False
    try:
        yield
    except KeyboardInterrupt:
        broken = True
    finally:
        signal.signal(signal.SIGINT, before)
    if broken:
        signal.raise_signal(signal.SIGINT)


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Let Ctrl-C, or the signal TERM, ask for an end instead of breaking off in the middle.

    Yields a function that tells whether it was pressed. Pressed again, it raises as ever.
    """
    pressed = Event()

    def ask(_signal: int, _frame: FrameType | None) -> None:
        if pressed.is_set():
            raise KeyboardInterrupt
        pressed.set()

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield pressed.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
