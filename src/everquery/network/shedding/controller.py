"""When load is shed, and when it is taken back: with patience both ways, last in, first out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from everquery.network.analysis.load import Load
from everquery.network.shedding.steps import Greedy, Offer, Step, kept_at

MARGIN = 0.95  # of what may be used: a step goes only if this suffices without it
SLACK = 0.85  # of what may be used: below this the last step is made smaller
WAITS = 0.25  # of the recovery: what waits may take this long
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

    Attributes
    ----------
    steps : list of Step
    tried : bool
        Whether load was shed since the last time of peace.
    clears : bool
        Whether, at the end of the last interval, rows that wait were to be shed too.
    """

    greedy: Greedy
    allowed: float
    patience: int = 2
    calm: int = 5
    recovery: float = 5.0
    steps: list[Step] = field(default_factory=list)
    bad: int = 0
    good: int = 0
    tried: bool = False
    clears: bool = False

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
        self.clears = self.bad >= self.patience
        if self.clears:
            added = self.greedy.steps(load, self.steps, self._need(load), offers())
            self.steps += added
            self.bad = 0  # rows on their way are late still: what was done needs time to show
            return [], added
        if self.good >= self.calm:
            self.tried = False
            if self.steps:
                return self._less(load, waiting / self.recovery)
        return [], []

    def _need(self, load: Load) -> float:
        """Return the work a second that must go so that what comes fits, and a little more.

        Where it fits already, what waits is in the way: it is cleared. If outputs are late soon
        again, boxes cost more than is known, and a little more goes.
        """
        coming = load.flowing(kept_at(self.steps)).total
        need = coming - (1 - NUDGE) * self.allowed
        if need <= 0 and self.tried:
            need = NUDGE * self.allowed
        self.tried = True
        return need

    def bearable(self, load: Load) -> float:
        """Return the seconds of work that may wait: what delays no output much."""
        spare = self.allowed - load.flowing(kept_at(self.steps)).total
        return (max(spare, 0.0) + WAITS * self.allowed) * self.recovery

    def overloaded(self, load: Load) -> bool:
        """Tell whether more comes than may be used."""
        return load.flowing(kept_at(self.steps)).total > self.allowed

    def _less(self, load: Load, waiting: float) -> tuple[list[Step], list[Step]]:
        """Take back up to half of the steps, the last first, or make the last one smaller."""
        removed: list[Step] = []
        most = (len(self.steps) + 1) // 2
        while len(removed) < most and self._without_last(load, waiting) <= MARGIN * self.allowed:
            removed.append(self.steps.pop())
        present = load.flowing(kept_at(self.steps)).total + waiting
        if removed or present > SLACK * self.allowed or self.steps[-1].intervals:
            return removed, []
        need = self._without_last(load, waiting) - MARGIN * self.allowed
        removed = [self.steps.pop()]
        added = self.greedy.steps(load, self.steps, need)
        self.steps += added
        return removed, added

    def _without_last(self, load: Load, waiting: float) -> float:
        return load.flowing(kept_at(self.steps[:-1])).total + waiting
