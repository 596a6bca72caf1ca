"""The demo from its first step to its summary, on either runtime."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console

from everquery.cli.demo.embedded import EmbeddedRun
from everquery.cli.demo.plan import Plan
from everquery.cli.demo.report import Summary, summarise
from everquery.cli.demo.run import Run
from everquery.cli.demo.spark import SparkRun
from everquery.cli.demo.view import View, open_view
from everquery.cli.this_process import Clock, interruptible
from everquery.errors import (
    EverqueryError,
    JavaMissingError,
    SparkMissingError,
    UnwritableFileError,
)


def run_embedded(plan: Plan, console: Console, *, clock: Clock, silent: bool) -> Summary:
    """Run the demo in this process, and return its summary."""
    run = EmbeddedRun(plan, clock=clock)
    with run.engine:
        interrupted = drive(run, open_view(run, console, silent=silent))
        return summarise(run, interrupted=interrupted)


def run_on_spark(
    plan: Plan, out: Path | None, console: Console, *, cores: int, clock: Clock, silent: bool
) -> Summary:
    """Run the demo on Spark, and return its summary."""
    _expect_spark()
    with ExitStack() as stack:
        folder = _folder(out, stack)
        run = SparkRun(plan, folder, keep=out is not None, cores=cores, clock=clock)
        try:
            interrupted = drive(run, open_view(run, console, silent=silent))
        except EverqueryError as error:
            stack.pop_all()  # the folder stays, and in it what Spark has to say
            if str(run.log) in str(error):
                raise
            raise type(error)(f"{error} (Spark's log: {run.log})") from error
        return summarise(run, interrupted=interrupted)


def drive(run: Run, view: View) -> bool:
    """Run until the plan is fulfilled or Ctrl-C is pressed; tell whether it was."""
    with interruptible() as pressed, view:
        try:
            for step in run.prepare():
                view.preparing(step)
                if pressed():
                    return True
            for done in run.run():
                view.running(done=done)
                if pressed():
                    return True
            return False
        finally:
            if run.closing is not None:
                view.preparing(run.closing)
            run.close()


def _expect_spark() -> None:
    try:
        from everquery.spark.java import require_java

        require_java()
    except (SparkMissingError, JavaMissingError) as error:
        raise type(error)(f"{error}; without Spark: everquery demo --engine embedded") from None


def _folder(out: Path | None, stack: ExitStack) -> Path:
    if out is None:
        return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="everquery-demo-")))
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UnwritableFileError(f"{out} is there already, and not empty; name a new folder")
    out.mkdir(parents=True, exist_ok=True)
    return out.resolve()
