"""The progress bar of ``run`` and ``replay``."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from everquery.cli.event_job import EventJob, Input
from everquery.cli.numbers import rate
from everquery.sources.files import Piece


class EventView:
    """Shows how far a job is, on a terminal; elsewhere nothing.

    Parameters
    ----------
    job : EventJob
    console : Console
    wanted : bool
    """

    def __init__(self, job: EventJob, console: Console, *, wanted: bool) -> None:
        self._job = job
        self._done: dict[int, int] = {}
        totals = [source.total for source in job.inputs if source.unit == job.inputs[0].unit]
        known = len(totals) == len(job.inputs) and None not in totals
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[told]}"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not (wanted and console.is_terminal),
        )
        total = sum(total for total in totals if total is not None) if known else None
        self._task = self._progress.add_task("starting", total=total, told="")

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Take the bar away; the summary takes its place."""
        self._progress.stop()

    def update(self, source: Input, piece: Piece) -> None:
        """Hear that a batch has been processed."""
        if self._progress.disable:
            return
        self._done[id(source)] = max(piece.done, self._done.get(id(source), 0))
        tally = self._job.tally
        seconds = max(tally.seconds, 1e-9)
        notices = sum(tally.notices.values())
        self._progress.update(
            self._task,
            description=source.name,
            completed=sum(self._done.values()),
            told=f"{tally.events:,} events {rate(tally.events / seconds)},"
            f" {notices:,} notices {rate(notices / seconds)}",
        )
