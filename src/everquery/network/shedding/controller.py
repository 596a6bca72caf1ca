"""When load is shed, and when it is taken back: with patience both ways, last in, first out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from everquery.network.analysis.load import Load
from everquery.network.shedding.steps import Greedy, Offer, Step, kept_at

MARGIN = 0.95  # of what may be used: a step goes only if this suffices without it
SLACK = 0.85  # of what may be used: below this the last step is made smaller
MOST = 0.25  # of what may be used: shed at once for what waits
NUDGE = 0.05  # of what may be used: shed if outputs are late although all seems to fit


@dataclass
class Controller:
    """The stack of steps of a run.

    Parameters
    ----------
    greedy : Greedy
    allowed : float
        Seconds of work a second that may be used: capacity times headroom.
    patience, calm : int
        So many intervals of trouble before load is shed, and of peace before it is taken back.
    recovery : float
        Seconds in which rows that wait are to be worked off.
    """

    greedy: Greedy
    allowed: float
    patience: int = 2
    calm: int = 5
    recovery: float = 5.0
    steps: list[Step] = field(default_factory=list)
    bad: int = 0
    good: int = 0

    def prepare(self, load: Load) -> list[Step]:
        """Return the steps for rates that are expected, before anything runs."""
        found = self.greedy.steps(load, self.steps, load.flowing().total - self.allowed)
        self.steps += found
        return found

    def tick(
        self, load: Load, waiting: float, *, late: bool, offers: Callable[[], Iterable[Offer]]
    ) -> tuple[list[Step], list[Step]]:
        """Return the steps to take out and those to put in, at the end of an interval.

        Parameters
        ----------
        waiting : float
            The seconds of work that waits.
        late : bool
            Whether outputs are in trouble.
        offers : function
            Returns the intervals of values that may be shed; asked only if load must go.
        """
        self.bad = self.bad + 1 if late else 0
        self.good = 0 if late else self.good + 1
        coming = load.flowing(kept_at(self.steps)).total
        backlog = waiting / self.recovery
        if self.bad >= self.patience:
            added = self.greedy.steps(load, self.steps, self._need(coming, backlog), offers())
            self.steps += added
            self.bad = 0  # rows on their way are late still: what was done needs time to show
            return [], added
        if self.good >= self.calm and self.steps:
            return self._less(load, coming + backlog, backlog)
        return [], []

    def _need(self, coming: float, backlog: float) -> float:
        """Return the work a second that must go.

        What comes must fit. What waits is shed with it, where it waits at the same places; only
        what is left of it when all that comes fits is a need of its own.
        """
        least = NUDGE * self.allowed
        if coming > self.allowed:
            return coming - self.allowed + least
        return min(max(coming + backlog - self.allowed, least), MOST * self.allowed)

    def _less(self, load: Load, present: float, waiting: float) -> tuple[list[Step], list[Step]]:
        """Take the last step back, or make it smaller, as far as the machine holds."""
        without = load.flowing(kept_at(self.steps[:-1])).total + waiting
        if without > MARGIN * self.allowed and present > SLACK * self.allowed:
            return [], []
        removed = [self.steps.pop()]
        added = self.greedy.steps(load, self.steps, without - MARGIN * self.allowed)
        if removed[0].intervals and added:  # values that were shed stay better than others
            self.steps += removed
            return [], []
        self.steps += added
        return removed, added
