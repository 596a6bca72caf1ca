"""What the demo shows while it runs: a live view on a terminal, lines elsewhere, or nothing."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.panel import Panel

from everquery.cli.demo_job import Beat, DemoJob
from everquery.cli.numbers import megabytes, percent, rate, sparkline
from everquery.cli.panels import (
    Screen,
    bar,
    frame,
    in_thirds,
    latest_notices,
    live_queries,
    panel,
    width_within_third,
)
from everquery.cli.this_process import resident_bytes

REFRESH_SECONDS = 0.125
LINE_SECONDS = 2.0
WARMING_UP = "preparing the loops: some seconds on the first run, then they are cached"


class View(Screen):
    """Is told of every step of the demo; this one shows nothing of it."""

    def __init__(self, job: DemoJob, console: Console, *, dark: bool = True) -> None:
        super().__init__(console, dark=dark)
        self.job = job
        self.console = console

    def warming_up(self) -> None:
        """Hear that the loops are about to be compiled."""

    def registering(self, done: int) -> None:
        """Hear that this many queries are registered."""

    def running(self, beat: Beat) -> None:
        """Hear that a batch has been processed."""


class Pace:
    """How fast things go: rates between looks that are some time apart."""

    def __init__(self, job: DemoJob, apart: float) -> None:
        self._job = job
        self._apart = apart
        self._last = job.clock(), job.tally.events, job.tally.all_notices
        self.events: list[float] = []
        self.notices: list[float] = []

    def due(self) -> bool:
        """Tell whether it is time to look again, and if so, look."""
        time, events, notices = self._last
        now = self._job.clock()
        if now - time < self._apart:
            return False
        tally = self._job.tally
        spent = max(now - time, 1e-9)
        self.events.append((tally.events - events) / spent)
        self.notices.append((tally.all_notices - notices) / spent)
        self._last = now, tally.events, tally.all_notices
        return True


class LineView(View):
    """Prints a line now and then, for logs and pipes."""

    _pace: Pace | None = None

    def warming_up(self) -> None:
        """Print a line."""
        self.console.print(WARMING_UP)

    def registering(self, done: int) -> None:
        """Print a line for every chunk."""
        self.console.print(f"registered {done:>11,} of {self.job.plan.queries:,} queries")

    def running(self, beat: Beat) -> None:
        """Print a line when the last one is old."""
        if self._pace is None:
            self._pace = Pace(self.job, LINE_SECONDS)
        if self._pace.due():
            tally = self.job.tally
            self.console.print(
                f"{tally.run_seconds:5.1f} s"
                f" {tally.events:>13,} events {_last(self._pace.events):>9}"
                f" {tally.all_notices:>12,} notices {_last(self._pace.notices):>9}"
                f"  FL {percent(beat.fluctuation)}",
                soft_wrap=True,
            )


class LiveView(View):
    """Redraws a few panels several times a second."""

    def __init__(self, job: DemoJob, console: Console) -> None:
        super().__init__(job, console, dark=False)
        self._pace: Pace | None = None

    def warming_up(self) -> None:
        """Draw a frame."""
        self.draw(frame(self.job.plan, "warming up", WARMING_UP))

    def registering(self, done: int) -> None:
        """Draw a bar."""
        count = f"{done:,} of {self.job.plan.queries:,} queries"
        shown = bar(done / self.job.plan.queries, count)
        self.draw(frame(self.job.plan, "registering", shown))

    def running(self, beat: Beat) -> None:
        """Draw everything, when the last drawing is old."""
        if self._pace is None:
            self._pace = Pace(self.job, REFRESH_SECONDS)
        if self._pace.due():
            self.draw(self.drawing(beat, self._pace))

    def drawing(self, beat: Beat, pace: Pace) -> RenderableType:
        """Return the whole view."""
        width = width_within_third(self.console)
        panels = in_thirds(
            self._events(beat, pace, width), self._notices(pace, width), self._queries()
        )
        doing = f"fluctuation {percent(beat.fluctuation)}"
        head = frame(self.job.plan, doing, bar(*self._progress()))
        return Group(head, panels, latest_notices(beat.notices))

    def _progress(self) -> tuple[float, str]:
        plan, tally = self.job.plan, self.job.tally
        if plan.seconds is not None:
            limit = f"{tally.run_seconds:.1f} of {plan.seconds:g} s"
            done = tally.run_seconds / plan.seconds
            if plan.events is None or done >= tally.events / plan.events:
                return done, limit
        if plan.events is not None:
            return tally.events / plan.events, f"{tally.events:,} of {plan.events:,} events"
        return 0.0, f"{tally.run_seconds:.1f} s"

    def _events(self, beat: Beat, pace: Pace, width: int) -> Panel:
        rows = {
            "in all": f"{self.job.tally.events:,}",
            "now": _last(pace.events),
            "a batch": f"{beat.seconds * 1e3:.1f} ms",
        }
        return panel("events", rows, sparkline(pace.events, width), "yellow")

    def _notices(self, pace: Pace, width: int) -> Panel:
        rows = {event: f"{count:,}" for event, count in self.job.tally.notices.items()}
        rows["now"] = _last(pace.notices)
        return panel("notices", rows, sparkline(pace.notices, width), "green")

    def _queries(self) -> Panel:
        tally = self.job.tally
        rows = live_queries(self.job.plan, tally.registered, tally.dropped, tally.ended)
        rows["memory"] = megabytes(resident_bytes())
        return panel("queries", rows, "", "magenta")


def _last(rates: list[float]) -> str:
    return rate(rates[-1])
