"""The Spark runtime: standing queries over streaming DataFrames, and over files and topics."""

from importlib import import_module
from typing import TYPE_CHECKING

from everquery.spark import extra as extra  # first: it says what is not installed

if TYPE_CHECKING:
    from everquery.spark.event_source import EventSource
    from everquery.spark.failures import cause_of, wait_for
    from everquery.spark.files import read_files
    from everquery.spark.invoking import invoke
    from everquery.spark.kafka_source import read_kafka
    from everquery.spark.metrics import JobMetrics
    from everquery.spark.network.watching import Watched, watch_network
    from everquery.spark.past import dry_run
    from everquery.spark.session import local_session, session_log, spark_settings, stop_session
    from everquery.spark.watching import watch
else:
    _HOMES = {
        "EventSource": "event_source",
        "JobMetrics": "metrics",
        "Watched": "network.watching",
        "cause_of": "failures",
        "dry_run": "past",
        "invoke": "invoking",
        "local_session": "session",
        "read_files": "files",
        "read_kafka": "kafka_source",
        "session_log": "session",
        "spark_settings": "session",
        "stop_session": "session",
        "wait_for": "failures",
        "watch": "watching",
        "watch_network": "network.watching",
    }

    def __getattr__(name: str) -> object:
        """Load what is asked for: Spark starts processes that need only some of it, and wait."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = found = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        return found


__all__ = [
    "EventSource",
    "JobMetrics",
    "Watched",
    "cause_of",
    "dry_run",
    "invoke",
    "local_session",
    "read_files",
    "read_kafka",
    "session_log",
    "spark_settings",
    "stop_session",
    "wait_for",
    "watch",
    "watch_network",
]
