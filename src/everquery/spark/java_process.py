"""The Java process in which Spark runs: where its log is, and how it ended.

Python hears of its end as a connection that is refused.
"""

from __future__ import annotations

import logging
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway

from everquery.errors import JavaDiedError

END_SECONDS = 15.0  # from the first connection that is refused to the end of the process
TAIL_BYTES = 1 << 20

_NO_MEMORY = re.compile(r"OutOfMemoryError(?:: ([^\n]*))?")
_MORE_MEMORY = (
    "give it more memory (spark.driver.memory, or SPARK_DRIVER_MEMORY=4g in the environment),"
    " or let batches be smaller"
)


@dataclass(frozen=True, slots=True)
class Log:
    """The standard error of Java and of the Python workers; what came before `begin` is older."""

    path: Path
    begin: int


_logs: dict[int, Log] = {}  # by the process


def start_java(conf: SparkConf, log: Path) -> None:
    """Start the Java of the next session, with a file as standard error."""
    if SparkContext._gateway is not None:  # of a session before; its standard error is where it is
        return
    with log.open("ab") as file:
        begin = file.tell()
        gateway = launch_gateway(conf, {"stderr": file})  # type: ignore[no-untyped-call]
    SparkContext._ensure_initialized(gateway=gateway)
    if gateway.proc is not None:
        _logs[gateway.proc.pid] = Log(log, begin)


def silence_accumulators(context: SparkContext) -> None:
    """Let the server that hears of Spark's accumulators print no trace when Java is gone."""
    server = context._accumulatorServer
    tell = server.handle_error

    def handle_error(request: Any, address: Any) -> None:  # noqa: ANN401 - as in socketserver
        if not isinstance(sys.exception(), (EOFError, ConnectionError)):
            tell(request, address)

    vars(server)["handle_error"] = handle_error


def java_log() -> Path | None:
    """Return the log of the Java of this process; None if it has none of ours."""
    process = _process()
    log = None if process is None else _logs.get(process.pid)
    return None if log is None else log.path


def has_died() -> bool:
    """Tell whether the Java of this process has ended without being told to."""
    process = _process()
    return process is not None and process.poll() is not None


@contextmanager
def java_deaths_explained() -> Iterator[None]:
    """Say how Java ended where that is why something failed.

    Raises
    ------
    JavaDiedError
        With what failed as its cause.
    """
    with _silent_connections():
        try:
            yield
        except (OSError, Py4JError) as error:
            if not _is_of_connection(error):
                raise
            died = _death()
            if died is None:
                raise
            raise died from error


def _process() -> subprocess.Popen[bytes] | None:
    process: subprocess.Popen[bytes] | None = getattr(SparkContext._gateway, "proc", None)
    return process


def _is_of_connection(error: Exception) -> bool:
    if isinstance(error, OSError):
        return isinstance(error, ConnectionError)
    return not isinstance(error, Py4JJavaError) and "Trace:" not in str(error)


@contextmanager
def _silent_connections() -> Iterator[None]:
    """Let py4j print no traces of connections that broke: what they raise is told otherwise."""

    def other(record: logging.LogRecord) -> bool:
        return "while sending" not in record.getMessage()

    loggers = [
        logging.getLogger(name) for name in ("root", "py4j.clientserver", "py4j.java_gateway")
    ]
    for logger in loggers:
        logger.addFilter(other)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(other)


def _death() -> JavaDiedError | None:
    process = _process()
    if process is None:
        return None
    try:
        code = process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        return None
    log = _logs.get(process.pid)
    reason = None if log is None else _out_of_memory(log)
    what = f"was killed by {_signal(-code)}" if code < 0 else f"has ended with exit code {code}"
    if reason is not None:
        what += f", after an OutOfMemoryError ({reason}); {_MORE_MEMORY}"
    elif code == -signal.SIGKILL:
        what += ", as the system does where memory is short"
    where = "" if log is None else f". Its log: {log.path}"
    return JavaDiedError(f"Java, in which Spark runs, {what}{where}")


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _out_of_memory(log: Log) -> str | None:
    """Return of which memory a log says that it ran out."""
    try:
        with log.path.open("rb") as file:
            file.seek(max(log.begin, log.path.stat().st_size - TAIL_BYTES))
            found = _NO_MEMORY.search(file.read().decode(errors="replace"))
    except OSError:
        return None
    return None if found is None else (found[1] or "of no kind that it tells").strip()
