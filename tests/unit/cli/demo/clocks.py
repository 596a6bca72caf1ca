"""Clocks that go as often as they are asked."""

from itertools import count


def steady_clock(step=1.0):
    """Return a clock that says a step more each time it is asked."""
    ticks = count()
    return lambda: next(ticks) * step
