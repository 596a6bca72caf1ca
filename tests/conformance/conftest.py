"""The runtimes under test; every test of this folder runs on each of them."""

import pytest

import everquery as eq
from everquery.sharding import durable
from tests.conformance.sharded import ShardedRunner


@pytest.fixture(params=["embedded", "sharded"], scope="session")
def new_runner(request):
    """Return what makes a fresh runner of a stream."""
    return {"embedded": eq.Engine, "sharded": ShardedRunner}[request.param]


@pytest.fixture(scope="package", autouse=True)
def shared_files(tmp_path_factory):
    """Let shards of a few queries use files of the host too, and remove them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_LOCAL_DIRS", str(tmp_path_factory.mktemp("host")))
        patch.setattr(durable, "SHARED", 3)
        yield
