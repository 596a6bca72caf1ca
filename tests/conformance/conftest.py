"""The runtimes under test; every test of this folder runs on each of them."""

import pytest

import everquery as eq
from tests.conformance.sharded import ShardedRunner


@pytest.fixture(params=["embedded", "sharded"], scope="session")
def new_runner(request):
    """Return what makes a fresh runner of a stream."""
    return {"embedded": eq.Engine, "sharded": ShardedRunner}[request.param]
