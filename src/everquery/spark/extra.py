"""Check that the extra `spark` is installed, and say how to get it; imported before all else."""

from __future__ import annotations

from importlib.util import find_spec

from everquery.errors import SparkMissingError

NEEDED = ("pyspark", "pandas", "prometheus_client", "google.protobuf")


def missing() -> list[str]:
    """Return which of the needed packages are not installed."""
    absent = []
    for name in NEEDED:
        try:
            found = find_spec(name) is not None
        except ModuleNotFoundError:  # the package above it is not there
            found = False
        if not found:
            absent.append(name)
    return absent


if missing():
    raise SparkMissingError(
        f"the Spark runtime needs {', '.join(missing())}: pip install 'everquery[spark]'"
    )
