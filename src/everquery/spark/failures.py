"""What made a streaming query fail, in everquery's own words.

Spark reports an error of a Python worker as text, deep within traces of Java and Python.
"""

from __future__ import annotations

import re

from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from everquery import errors
from everquery.errors import EverqueryError
from everquery.spark.java_process import java_deaths_explained

_OURS = re.compile(r"^(?:\w+(?:\.\w+)*\.)?(\w+): (.*)$", re.MULTILINE)


def wait_for(query: StreamingQuery, seconds: float | None = None) -> bool:
    """Wait until a query ends; return whether it has.

    Raises
    ------
    EverqueryError
        If that is why the query failed; with Spark's own error as its cause.
    JavaDiedError
        If Java has ended under the query.
    """
    try:
        with java_deaths_explained():
            if seconds is None:
                query.awaitTermination()
                return True
            return bool(query.awaitTermination(seconds))  # type: ignore[arg-type]  # Spark rounds
    except PySparkException as error:
        ours = cause_of(error)
        if ours is None:
            raise
        raise ours from error


def cause_of(error: BaseException) -> EverqueryError | None:
    """Return the error of everquery within one of Spark; None if it has none."""
    for name, message in reversed(_OURS.findall(str(error))):
        kind = getattr(errors, name, None)
        if isinstance(kind, type) and issubclass(kind, EverqueryError):
            return _made(kind, message)
    return None


def _made(kind: type[EverqueryError], message: str) -> EverqueryError:
    try:
        return kind(message)
    except TypeError:  # it takes more than words
        return EverqueryError(message)
