"""Work in another thread, a few steps ahead of the thread that wants its results."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from queue import Full, Queue
from threading import Event, Thread
from typing import TypeVar

T = TypeVar("T")

LOOK_SECONDS = 0.1  # how often a thread that is ahead looks whether anybody is left behind it


def ahead(items: Iterable[T], *, depth: int = 2) -> Generator[T, None, None]:
    """Yield items that another thread makes, up to `depth` of them before they are wanted.

    What an item raises is raised here, in its place. A consumer that stops early ends the thread
    behind the item that it is at, and the items' own iterator is closed.

    Examples
    --------
    >>> list(ahead(number**2 for number in range(4)))
    [0, 1, 4, 9]
    """
    made: Queue[tuple[T] | BaseException | None] = Queue(depth)
    left = Event()

    def put(thing: tuple[T] | BaseException | None) -> None:
        while not left.is_set():
            try:
                made.put(thing, timeout=LOOK_SECONDS)
            except Full:
                continue
            return

    def make() -> None:
        iterator = iter(items)
        try:
            for item in iterator:
                put((item,))
                if left.is_set():
                    break
            put(None)
        except BaseException as error:  # it belongs to the consumer
            put(error)
        finally:
            close = getattr(iterator, "close", None)
            if close is not None:
                close()

    thread = Thread(target=make, name="everquery-ahead", daemon=True)
    thread.start()
    try:
        while (thing := made.get()) is not None:
            if isinstance(thing, BaseException):
                raise thing
            yield thing[0]
    finally:
        left.set()
        thread.join()
