"""What the demo on Spark shows: a live view on a terminal, lines elsewhere, or nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from rich.console import Console, Group, RenderableType
from rich.panel import Panel

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
from everquery.cli.spark_demo import SparkDemo

if TYPE_CHECKING:
    from everquery.spark.metrics import Batch

LINE_SECONDS = 2.0
REFRESH_SECONDS = 0.25
STEPS = {
    "compile": "compiling the loops: some seconds on the first run, then they are cached",
    "register": "registering {queries:,} queries in {url}",
    "start": "waiting for Spark ({cores} cores, local mode)",
    "index": "starting the job: the first batch brings the queries to the shards and indexes them",
}
HEIGHT = 10


class SparkView(Screen):
    """Is told of every step of the demo; this one shows nothing of it."""

    def __init__(self, demo: SparkDemo, console: Console, *, dark: bool = True) -> None:
        super().__init__(console, dark=dark)
        self.demo = demo
        self.console = console
        self._last = demo.clock()

    def preparing(self, step: str, queries: int) -> None:
        """Hear what is done next, and how many queries there are."""

    def running(self, batch: Batch | None) -> None:
        """Hear of a batch that is done, or that none is yet."""

    def stopping(self) -> None:
        """Hear that the job is about to be stopped."""

    def _words(self, step: str) -> str:
        demo = self.demo
        return STEPS[step].format(queries=demo.plan.queries, url=demo.url, cores=demo.cores)

    def _due(self, seconds: float) -> bool:
        now = self.demo.clock()
        if now - self._last < seconds:
            return False
        self._last = now
        return True


def open_view(demo: SparkDemo, console: Console, *, silent: bool) -> SparkView:
    """Return the view that suits a console."""
    if silent:
        return SparkView(demo, console)
    return (SparkLiveView if is_live(console) else SparkLineView)(demo, console)


class SparkLineView(SparkView):
    """Prints a line now and then, for logs and pipes."""

    _step = ""

    def preparing(self, step: str, queries: int) -> None:
        """Print a line for each step."""
        if step != self._step:
            self._step = step
            self._print(self._words(step))

    def running(self, batch: Batch | None) -> None:
        """Print a line when the last one is old."""
        tally = self.demo.tally
        if batch is None or not self._due(LINE_SECONDS):
            return
        seconds = max(tally.run_seconds, 1e-9)
        changes = sum(tally.registered.values())
        self._print(
            f"batch {batch.number}: {tally.events:,} events {rate(tally.timed_events / seconds)},"
            f" {tally.notices:,} notices {rate(tally.timed_notices / seconds)},"
            f" {batch.queries or 0:,} queries (+{changes:,} -{sum(tally.dropped.values()):,}),"
            f" trigger {batch.seconds:.2f} s, lag {_last(tally.lags):.1f} s"
        )

    def stopping(self) -> None:
        """Print a line."""
        self._print("stopping")

    def _print(self, line: str) -> None:
        self.console.print(f"{self.demo.clock():6.1f} s  {line}", soft_wrap=True)


class SparkLiveView(SparkView):
    """Redraws a few panels several times a second."""

    def __init__(self, demo: SparkDemo, console: Console) -> None:
        super().__init__(demo, console, dark=False)
        self._latest = pa.table({})
        self._batch: Batch | None = None
        self._rates: tuple[list[float], list[float]] = ([], [])
        self._before = (0.0, 0, 0)

    def preparing(self, step: str, queries: int) -> None:
        """Draw a frame."""
        inside: RenderableType = self._words(step)
        if step == "register":
            share = queries / self.demo.plan.queries
            inside = bar(share, f"{queries:,} of {self.demo.plan.queries:,} queries")
        self.draw(frame(self.demo.plan, "preparing", inside))

    def running(self, batch: Batch | None) -> None:
        """Draw everything, when there is a new batch or the last drawing is old."""
        if batch is not None:
            self._batch = batch
            self._note_rates()
            self._latest = self.demo.latest() or self._latest
            self.demo.told.read_new()
        if batch is not None or self._due(REFRESH_SECONDS):
            self.draw(self.drawing())

    def stopping(self) -> None:
        """Draw a frame."""
        self.draw(frame(self.demo.plan, "stopping", "finishing the batch that runs"))

    def _note_rates(self) -> None:
        tally = self.demo.tally
        then, events, notices = self._before
        spent = self.demo.clock() - then
        if then:
            self._rates[0].append((tally.events - events) / spent)
            self._rates[1].append((tally.notices - notices) / spent)
        self._before = (self.demo.clock(), tally.events, tally.notices)

    def drawing(self) -> RenderableType:
        """Return the whole view."""
        if self._batch is None:
            return frame(self.demo.plan, "preparing", self._words("index"))
        width = width_within_third(self.console)
        panels = in_thirds(
            self._events(self._batch, width), self._notices(width), self._queries(self._batch)
        )
        head = frame(self.demo.plan, "on Spark", bar(*self._progress()))
        return Group(head, panels, latest_notices(self._latest))

    def _progress(self) -> tuple[float, str]:
        plan, tally = self.demo.plan, self.demo.tally
        if plan.events is not None:
            return tally.events / plan.events, f"{tally.events:,} of {plan.events:,} events"
        if plan.seconds:
            share = tally.run_seconds / plan.seconds
            return share, f"{min(tally.run_seconds, plan.seconds):.1f} of {plan.seconds:g} s"
        return 0.0, f"{tally.run_seconds:.1f} s"

    def _events(self, batch: Batch, width: int) -> Panel:
        tally = self.demo.tally
        rows = {
            "in all": f"{tally.events:,}",
            "now": rate(_last(self._rates[0])),
            "a batch": f"{batch.events:,}",
            "trigger": f"{batch.seconds * 1e3:,.0f} ms",
            "lag": f"{_last(tally.lags):.2f} s",
            "batches": f"{len(tally.batches):,}",
            "refused": f"{tally.refused:,}",
        }
        return panel("events", rows, sparkline(self._rates[0], width), "yellow", height=HEIGHT)

    def _notices(self, width: int) -> Panel:
        tally = self.demo.tally
        rows = {
            "in all": f"{tally.notices:,}",
            **{event: f"{count:,}" for event, count in self.demo.told.by_event.items()},
            "an event": f"{tally.notices / max(tally.events, 1):.3f}",
            "now": rate(_last(self._rates[1])),
        }
        return panel("notices", rows, sparkline(self._rates[1], width), "green", height=HEIGHT)

    def _queries(self, batch: Batch) -> Panel:
        tally = self.demo.tally
        rows = live_queries(self.demo.plan, tally.registered, tally.dropped, self.demo.ended())
        rows["log position"] = f"{batch.position:,}"
        rows["in effect"] = f"{_last(tally.effect_seconds):.2f} s"
        return panel("queries", rows, "", "magenta", height=HEIGHT)


def _last(values: list[float]) -> float:
    return values[-1] if values else 0.0
