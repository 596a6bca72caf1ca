"""Ports and processes of servers."""

import contextlib
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterable


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_until(
    done: Callable[[], bool],
    what: str,
    *,
    seconds: float = 120,
    processes: Iterable[subprocess.Popen[bytes]] = (),
) -> None:
    """Return when `done` says so; fail if a process ends before, or if it takes too long."""
    give_up = time.monotonic() + seconds
    while not done():
        for process in processes:
            assert process.poll() is None, f"{what}: the process ended with {process.returncode}"
        assert time.monotonic() < give_up, f"{what}: not within {seconds:.0f} s"
        time.sleep(0.05)


def end(*processes: subprocess.Popen[bytes], seconds: float = 30) -> None:
    """End processes that lead groups of their own, with all they started.

    They get so many seconds to end by themselves; none means that they are killed at once.
    """
    if seconds:
        for process in processes:
            _signal(process, signal.SIGTERM)
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        _signal(process, signal.SIGKILL)  # what is left of the group
        process.wait()


def end_with_parent() -> None:
    """Let this process and its group end when the test that started it is no more."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)
