"""The demo in this process: from the first step to the summary."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from everquery.cli.demo_job import DemoJob, Plan
from everquery.cli.demo_report import summarise
from everquery.cli.demo_view import LineView, LiveView, View
from everquery.cli.panels import is_live
from everquery.cli.this_process import Clock, interruptible


def run_embedded(plan: Plan, console: Console, *, clock: Clock, silent: bool) -> dict[str, Any]:
    """Run the demo, and return its summary."""
    job = DemoJob(plan, clock=clock)
    with job.engine:
        interrupted = _run(job, _view(job, console, silent=silent))
        return summarise(job, interrupted=interrupted)


def _view(job: DemoJob, console: Console, *, silent: bool) -> View:
    if silent:
        return View(job, console)
    return (LiveView if is_live(console) else LineView)(job, console)


def _run(job: DemoJob, view: View) -> bool:
    """Run until the plan is fulfilled or Ctrl-C is pressed; tell whether it was."""
    with view:
        view.warming_up()
        try:
            job.warm_up()
        except KeyboardInterrupt:  # nothing has begun that could be left half done
            return True
        return _run_warm(job, view)


def _run_warm(job: DemoJob, view: View) -> bool:
    with interruptible() as pressed:
        for done in job.register():
            view.registering(done)
            if pressed():
                return True
        for beat in job.run():
            view.running(beat)
            if pressed():
                return True
    return False
