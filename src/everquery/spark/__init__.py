"""The Spark runtime: standing queries over streaming DataFrames."""

from everquery.spark import extra as extra  # first: it says what is not installed
from everquery.spark.event_source import EventSource
from everquery.spark.failures import cause_of, wait_for
from everquery.spark.file_source import read_files
from everquery.spark.kafka_source import read_kafka
from everquery.spark.metrics import JobMetrics
from everquery.spark.session import local_session, session_log, spark_settings, stop_session
from everquery.spark.watch import watch

__all__ = [
    "EventSource",
    "JobMetrics",
    "cause_of",
    "local_session",
    "read_files",
    "read_kafka",
    "session_log",
    "spark_settings",
    "stop_session",
    "wait_for",
    "watch",
]
