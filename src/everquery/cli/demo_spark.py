"""The demo on Spark: from the first step to the summary."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rich.console import Console

from everquery.cli.demo_job import Plan
from everquery.cli.spark_demo import SparkDemo
from everquery.cli.spark_demo_report import summarise
from everquery.cli.spark_demo_view import SparkView, open_view
from everquery.cli.this_process import Clock, interruptible
from everquery.errors import (
    EverqueryError,
    JavaMissingError,
    SparkMissingError,
    UnwritableFileError,
)


def run_on_spark(
    plan: Plan, out: Path | None, console: Console, *, cores: int, clock: Clock, silent: bool
) -> dict[str, Any]:
    """Run the demo, and return its summary."""
    _expect_spark()
    with ExitStack() as stack:
        demo = SparkDemo(plan, _folder(out, stack), cores=cores, clock=clock)
        try:
            interrupted = _run(demo, open_view(demo, console, silent=silent))
        except EverqueryError as error:
            stack.pop_all()  # the folder stays, and in it what Spark has to say
            if str(demo.log) in str(error):
                raise
            raise type(error)(f"{error} (Spark's log: {demo.log})") from error
        return summarise(demo, interrupted=interrupted)


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


def _run(demo: SparkDemo, view: SparkView) -> bool:
    """Run until the plan is fulfilled or Ctrl-C is pressed; tell whether it was."""
    with interruptible() as pressed, view:
        try:
            return _steps(demo, view, pressed)
        finally:
            view.stopping()
            demo.close()


def _steps(demo: SparkDemo, view: SparkView, pressed: Callable[[], bool]) -> bool:
    for step, queries in demo.prepare():
        view.preparing(step, queries)
        if pressed():
            return True
    for batch in demo.run():
        view.running(batch)
        if pressed():
            return True
    return False
