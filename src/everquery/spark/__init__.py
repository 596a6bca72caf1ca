"""The Spark runtime: standing queries over streaming DataFrames."""

from everquery.spark import extra as extra  # first: it says what is not installed
from everquery.spark.failures import cause_of, wait_for
from everquery.spark.metrics import JobMetrics
from everquery.spark.session import local_session, session_log, spark_settings, stop_session
from everquery.spark.watch import watch

__all__ = [
    "JobMetrics",
    "cause_of",
    "local_session",
    "session_log",
    "spark_settings",
    "stop_session",
    "wait_for",
    "watch",
]
