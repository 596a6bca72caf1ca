"""What the demo shows while it runs: a live view on a terminal, lines elsewhere, or nothing."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType

from everquery.cli.demo.run import Run, Step
from everquery.cli.numbers import rate, sparkline
from everquery.cli.panels import (
    Screen,
    bar,
    frame,
    in_thirds,
    is_live,
    latest_notices,
    live_queries,
    panel,
    width_within_third,
)

REFRESH_SECONDS = 0.125
LINE_SECONDS = 2.0
HEIGHT = 10


class Pace:
    """How fast a run is: rates between looks that are some time apart.

    Parameters
    ----------
    run : Run
    apart : float
        Seconds.
    """

    def __init__(self, run: Run, apart: float) -> None:
        self._run = run
        self._apart = apart
        self._last: tuple[float, int, int] | None = None
        self.events: list[float] = []
        self.notices: list[float] = []

    def due(self) -> bool:
        """Tell whether it is time to look at a batch, and if so, look; the first always is."""
        now, tally = self._run.clock(), self._run.tally
        if self._last is not None:
            time, events, notices = self._last
            if now - time < self._apart:
                return False
            spent = max(now - time, 1e-9)
            self.events.append((tally.events - events) / spent)
            self.notices.append((tally.notices - notices) / spent)
        self._last = now, tally.events, tally.notices
        return True

    def now(self) -> tuple[str, str]:
        """Return the last rates of events and of notices; empty behind the first look."""
        return _last(self.events), _last(self.notices)


def _last(rates: list[float]) -> str:
    return rate(rates[-1]) if rates else ""


class View(Screen):
    """Is told of every step of a run; this one shows nothing of it."""

    def __init__(self, run: Run, console: Console, *, dark: bool = True) -> None:
        super().__init__(console, dark=dark)
        self.run = run
        self.console = console

    def preparing(self, step: Step) -> None:
        """Hear what is done next, or how far it is."""

    def running(self, *, done: bool) -> None:
        """Hear that a batch is done, or that none is yet."""


def open_view(run: Run, console: Console, *, silent: bool) -> View:
    """Return the view that suits a console."""
    if silent:
        return View(run, console)
    return (LiveView if is_live(console) else LineView)(run, console)


class LineView(View):
    """Prints a line now and then, for logs and pipes."""

    def __init__(self, run: Run, console: Console) -> None:
        super().__init__(run, console)
        self._pace = Pace(run, LINE_SECONDS)
        self._step, self._printed = "", 0.0

    def preparing(self, step: Step) -> None:
        """Print a line for each step, and for one that takes long now and then another."""
        if step.doing != self._step:
            self._print(step.words)
        elif step.queries is not None and self.run.clock() - self._printed >= LINE_SECONDS:
            self._print(f"{step.queries:,} queries are registered")
        self._step = step.doing

    def running(self, *, done: bool) -> None:
        """Print a line when the last one is old."""
        if not done or not self._pace.due():
            return
        tally, look = self.run.tally, self.run.look()
        events, notices = self._pace.now()
        self._print(
            f"{f'{tally.events:,} events {events}'.rstrip()},"
            f" {f'{tally.notices:,} notices {notices}'.rstrip()},"
            f" +{sum(tally.registered.values()):,} -{sum(tally.dropped.values()):,} queries,"
            f" {', '.join(f'{name} {value}' for name, value in look.events.items())}, {look.doing}"
        )

    def _print(self, line: str) -> None:
        self._printed = self.run.clock()
        self.console.print(f"{self._printed:6.1f} s  {line}", soft_wrap=True)


class LiveView(View):
    """Redraws a few panels several times a second."""

    def __init__(self, run: Run, console: Console) -> None:
        super().__init__(run, console, dark=False)
        self.pace = Pace(run, REFRESH_SECONDS)
        self._drawn: float | None = None

    def preparing(self, step: Step) -> None:
        """Draw a frame, with a bar where queries are counted."""
        inside: RenderableType = step.words
        if step.queries is not None:
            in_all = self.run.plan.queries
            inside = bar(step.queries / in_all, f"{step.queries:,} of {in_all:,} queries")
        self.draw(frame(self.run.plan, step.doing, inside))

    def running(self, *, done: bool) -> None:
        """Draw everything, when there is news or, behind the first batch, the drawing is old."""
        if done and self.pace.due():
            fresh = True
        else:
            now = self.run.clock()
            fresh = self._drawn is not None and now - self._drawn >= 2 * REFRESH_SECONDS
        if fresh:
            self._drawn = self.run.clock()
            self.draw(self.drawing())

    def drawing(self) -> RenderableType:
        """Return the whole view."""
        run, pace = self.run, self.pace
        recent = run.recent()  # first: it brings the tally up
        plan, tally, look = run.plan, run.tally, run.look()
        events, notices = pace.now()
        width = width_within_third(self.console)
        of_events = {"in all": f"{tally.events:,}", "now": events, **look.events}
        of_notices = {
            "in all": f"{tally.notices:,}",
            **{event: f"{count:,}" for event, count in tally.by_event.items()},
            "an event": f"{tally.notices / max(tally.events, 1):.3f}",
            "now": notices,
        }
        of_queries = live_queries(plan, tally.registered, tally.dropped, tally.ended)
        panels = in_thirds(
            panel("events", of_events, sparkline(pace.events, width), "yellow", height=HEIGHT),
            panel("notices", of_notices, sparkline(pace.notices, width), "green", height=HEIGHT),
            panel("queries", of_queries | look.queries, "", "magenta", height=HEIGHT),
        )
        head = frame(plan, look.doing, bar(*plan.progress(tally.events, tally.run_seconds)))
        return Group(head, panels, latest_notices(recent))
