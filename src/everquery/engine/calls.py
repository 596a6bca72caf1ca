"""Calls that happen whole: Ctrl-C waits until they are done.

A signal that Python turns into an exception can strike between any two steps of a computation, and
would leave half of it behind. So while a call runs, an interrupt is only noted. It is raised at the
beginning of the next call, before that has changed anything, or by itself a moment later: the
notices of the call that it struck are not lost.
"""

from __future__ import annotations

# What `signal` wraps in enumerations, which cost more than a registration does.
import _signal  # type: ignore[import-not-found]
import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

_SIGINT = int(signal.SIGINT)
LATER_SECONDS = 0.05  # long enough for a caller to take what a call has returned

Handler = Callable[[int, FrameType | None], Any]


class _Postponed:
    """An interrupt that has been noted and not raised yet; there is one at most in a process."""

    def __init__(self) -> None:
        self._timer: threading.Timer | None = None  # while an interrupt waits
        self._lock = threading.Lock()

    def note(self) -> None:
        """Let an interrupt happen a little later."""
        with self._lock:
            if self._timer is None:
                self._timer = threading.Timer(LATER_SECONDS, self._strike)
                self._timer.daemon = True
                self._timer.start()

    def take(self) -> bool:
        """Tell whether an interrupt waits, and let it wait no longer."""
        if self._timer is None:
            return False
        with self._lock:
            timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        return timer is not None

    def _strike(self) -> None:
        with self._lock:
            if self._timer is not threading.current_thread():
                return  # somebody has taken it, and another may wait by now
            self._timer = None
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


_postponed = _Postponed()


def _in_main_thread() -> bool:
    return threading.get_ident() == threading.main_thread().ident


class WholeCall:
    """A lock that one thread at a time has, and during which Ctrl-C waits.

    It may be entered again by the thread that has it. In threads other than the main one, which
    Python does not interrupt, it is only a lock.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._depth = 0
        self._handler: Handler | None = None
        self._struck = False
        self._in_main = False  # whether the main thread has it

    def __enter__(self) -> None:
        in_main = _in_main_thread()
        if in_main:
            if not self._handler:
                self._hold_off()
            self._depth += 1
        self._lock.acquire()
        self._in_main = in_main

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        in_main = self._in_main
        self._lock.release()
        if in_main:
            self._depth -= 1
            if not self._depth and self._handler is not None:
                handler, self._handler = self._handler, None
                _signal.signal(_SIGINT, handler)  # first: what is noted strikes by it
                struck, self._struck = self._struck, False
                if struck:
                    _postponed.note()

    def _hold_off(self) -> None:
        if _postponed.take():
            signal.raise_signal(signal.SIGINT)  # nothing has changed yet
        handler = _signal.getsignal(_SIGINT)
        if callable(handler):
            self._handler = handler
            _signal.signal(_SIGINT, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._struck = True
