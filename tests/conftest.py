"""Hypothesis profiles, chosen by HYPOTHESIS_PROFILE; one Spark session for all tests."""

import contextlib
import os

import numba
import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.long_tests import LONG, SLOW

_COMMON = {"deadline": None, "derandomize": True, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("quick", max_examples=15, **_COMMON)
settings.register_profile("fast", max_examples=60, **_COMMON)
settings.register_profile("balanced", max_examples=500, **_COMMON)
settings.register_profile(
    "expensive", max_examples=10_000, deadline=None, suppress_health_check=list(HealthCheck)
)
# Stops at the first failure as it was found, large as it may be.
settings.register_profile("unshrunk", max_examples=60, phases=[Phase.generate], **_COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))


def pytest_configure(config):
    """Without JIT the kernels run on NumPy scalars, which warn where the machine does not."""
    if numba.config.DISABLE_JIT:
        for what in ("overflow", "invalid value"):
            config.addinivalue_line("filterwarnings", f"ignore:{what} encountered:RuntimeWarning")


def pytest_collection_modifyitems(items):
    """Mark what is long or slow."""
    for item in items:
        name = item.nodeid.removeprefix("tests/")
        if name.startswith(LONG):
            item.add_marker(pytest.mark.long)
        if name.startswith(SLOW):
            item.add_marker(pytest.mark.slow)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Give all that starts Spark to one process, where groups are asked for.

    The groups that xdist knows by marks are lost with pytest 9.2: test ids do not change any more.
    """
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class SparkApart(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            on_spark = nodeid.startswith("tests/conformance/") and "[spark" in nodeid
            return "spark" if on_spark or nodeid.startswith("tests/spark/") else nodeid

    return SparkApart(config, log)


@pytest.fixture(scope="session")
def spark():
    """Return a local session in which a task is tried four times."""
    from everquery.spark import local_session, stop_session
    from everquery.spark.registry_source import RegistrySource
    from everquery.spark.session import LIGHT_JAVA
    from tests.servers.jars import JarsMissingError, jars

    # The connectors to Kafka come along where they can be had: there is only one session.
    connectors = {}
    with contextlib.suppress(JarsMissingError):
        connectors["spark.jars"] = ",".join(map(str, sorted(jars("connectors").glob("*.jar"))))
    session = local_session(
        "everquery-tests", cores=2, attempts=4, settings=connectors, java_options=LIGHT_JAVA
    )
    session.dataSource.register(RegistrySource)
    yield session
    stop_session(session)
