"""The settings of Spark under which standing queries are fast, and a local session with them."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from everquery.errors import SparkError
from everquery.spark.java import require_java
from everquery.spark.java_process import has_died, java_log, silence_accumulators, start_java

STOP_SECONDS = 30
LOG = "spark.log"  # in the folder of a session
SOCKET_PATH_BYTES = 103  # what all systems allow
SOCKET_NAME_BYTES = len("/.01234567-0123-0123-0123-0123456789ab.sock")

QUERY_SETTINGS: Mapping[str, str] = {
    # The stateful operator takes no other store, and a batch writes only what it changed.
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # The default one asks a shell for the rights of each file: tens of milliseconds a trigger.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing."
        "FileSystemBasedCheckpointFileManager"
    ),
    # Events come in batches of this many rows into Python; packed, they leave as few. Without a
    # limit in bytes Spark need not add up a batch's size for each of its rows, which takes as much
    # as handing them over does. So it is the number of rows that bounds the memory, also where the
    # rows are blobs of half a megabyte to a few (`packing.BLOB_BYTES`, `stages.NOTICES_BYTES`).
    "spark.sql.execution.arrow.maxRecordsPerBatch": "2048",
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    # Times mean the same on every machine.
    "spark.sql.session.timeZone": "UTC",
}
"""Settings that a session can be given while it runs; a query takes them when it starts."""

START_SETTINGS: Mapping[str, str] = {
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.worker.reuse": "true",
    # Workers are forked from a process that has loaded all they need.
    "spark.python.daemon.module": "everquery.spark.daemon",
    # No task of a batch is worth waiting for its favourite executor.
    "spark.locality.wait": "0s",
}
"""Settings that a session has from its start."""

LOCAL_SETTINGS: Mapping[str, str] = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""Settings of a session within one process: nothing that others can reach, and no chatter."""

LIGHT_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options for a session that does not last: its first minute takes half of the processor time."""

_LOG = """\
rootLogger.level = error
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""

_folders: dict[SparkSession, Path] = {}  # of the local sessions that run


def spark_settings() -> dict[str, str]:
    """Return the settings to start a Spark session with, on a cluster as well as locally.

    Examples
    --------
    >>> from everquery.spark import spark_settings
    >>> spark_settings()["spark.python.unix.domain.socket.enabled"]
    'true'
    """
    return {**QUERY_SETTINGS, **START_SETTINGS}


def local_session(
    name: str = "everquery",
    *,
    cores: int = 2,
    partitions: int | None = None,
    attempts: int = 4,
    settings: Mapping[str, str] | None = None,
    java_options: str = "",
    log: Path | None = None,
) -> SparkSession:
    """Start Spark within this process, with the settings that suit standing queries.

    Parameters
    ----------
    name : str
        Of the application.
    cores : int
        How many tasks run at a time.
    partitions : int, optional
        Into how many partitions state is divided; as many as cores, unless given. With one, the
        worker that has the shards reads the events of `read_files` itself: the fastest way up to
        a few cores.
    attempts : int
        How often a task is tried before its query fails.
    settings : mapping, optional
        Further settings; they win.
    java_options : str
        Further options of Java, such as `LIGHT_JAVA`.
    log : Path, optional
        What Java and the Python workers would write to standard error is added to this file.
        Without, to a file of the session's own (`session_log`), which is removed with the session
        unless Java dies.

    Raises
    ------
    JavaMissingError
        If there is no Java of version 17 or newer.
    SparkError
        If Spark runs in this process already, or does not start.
    """
    if SparkContext._active_spark_context is not None:
        raise SparkError(
            "Spark runs in this process already, with its own settings; use that session, or"
            " stop it first (everquery.spark.stop_session)"
        )
    java = require_java()
    folder = Path(tempfile.mkdtemp(prefix="everquery-spark-"))
    logs = folder / "log4j2.properties"
    logs.write_text(_LOG)
    log = folder / LOG if log is None else log
    chosen = {
        "spark.app.name": name,
        "spark.master": f"local[{cores},{attempts}]",
        **spark_settings(),
        **LOCAL_SETTINGS,
        "spark.sql.shuffle.partitions": str(partitions or cores),
        "spark.local.dir": str(folder),
        **_sockets(folder),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.driver.extraJavaOptions": (
            # What Java itself says goes to standard error as well, and so to the log.
            f"-XX:+DisplayVMOutputToStderr -Djava.io.tmpdir={folder}"
            f" -Dlog4j2.configurationFile={logs.as_uri()} {java_options}"
        ),
        **(settings or {}),
    }
    surroundings = {
        "JAVA_HOME": str(java),
        "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": None,  # it would win over the folder above
    }
    try:
        with _environment(surroundings):
            start_java(SparkConf().setAll(list(chosen.items())), log)
            session = SparkSession.builder.config(map=dict(chosen)).getOrCreate()
    except Exception as error:
        _remove(folder, but=log)
        first_line = str(error).strip().split("\n")[0]
        raise SparkError(f"Spark does not start: {first_line}{_said_in(log)}") from error
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    silence_accumulators(session.sparkContext)
    _folders[session] = folder
    atexit.register(_stop_if_running, session)
    return session


def stop_session(session: SparkSession) -> None:
    """Stop Spark and its Java process, and remove what a local session left on disk."""
    atexit.unregister(_stop_if_running)
    gateway = SparkContext._gateway
    log = java_log() if has_died() else None
    if has_died():
        _forget(session)
    else:
        session.stop()
    if gateway is not None:
        gateway.shutdown()
        process = gateway.proc
        process.stdin.close()  # its end tells Java that Python is gone
        process.wait(STOP_SECONDS)
        SparkContext._gateway = SparkContext._jvm = None
    folder = _folders.pop(session, None)
    if folder is not None:
        _remove(folder, but=log)


def session_log(session: SparkSession) -> Path | None:
    """Return the file to which Java and the Python workers of a local session write."""
    return java_log() if session in _folders else None


def _forget(session: SparkSession) -> None:
    """Do what is left of stopping a session whose Java is gone."""
    context = session.sparkContext
    context._jsc = None  # there is nothing to be told
    context.stop()
    SparkSession._instantiatedSession = SparkSession._activeSession = None


def _remove(folder: Path, *, but: Path | None) -> None:
    """Remove a session's folder; a log in it may stay."""
    if but is None or but.parent != folder or not but.exists():
        shutil.rmtree(folder, ignore_errors=True)
        return
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        elif path != but:
            path.unlink(missing_ok=True)


def _said_in(log: Path) -> str:
    """Return the last of what Java said in front of its end, and where the rest is."""
    try:
        lines = log.read_text(errors="replace").strip().split("\n")
    except OSError:
        return ""
    told = "; ".join(line.strip() for line in lines[-3:] if line.strip())
    return f" ({told}). Its log: {log}"


def _stop_if_running(session: SparkSession) -> None:
    if session in _folders:
        stop_session(session)


def _sockets(folder: Path) -> dict[str, str]:
    """Return the settings for Unix sockets in a folder; none where their names were too long."""
    if len(os.fsencode(folder)) + SOCKET_NAME_BYTES > SOCKET_PATH_BYTES:
        return {"spark.python.unix.domain.socket.enabled": "false"}
    return {"spark.python.unix.domain.socket.dir": str(folder)}


@contextmanager
def _environment(variables: Mapping[str, str | None]) -> Iterator[None]:
    """Set environment variables for a while; None takes one away."""
    before = {name: os.environ.get(name) for name in variables}
    try:
        _set(variables)
        yield
    finally:
        _set(before)


def _set(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
