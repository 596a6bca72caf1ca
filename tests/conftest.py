"""Hypothesis profiles: fast (default), balanced, expensive; chosen by HYPOTHESIS_PROFILE."""

import os

import numba
import numpy as np
import pytest
from hypothesis import HealthCheck, settings

_COMMON = {"deadline": None, "derandomize": True, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("fast", max_examples=60, **_COMMON)
settings.register_profile("balanced", max_examples=500, **_COMMON)
settings.register_profile(
    "expensive", max_examples=10_000, deadline=None, suppress_health_check=list(HealthCheck)
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))


@pytest.fixture(autouse=True, scope="session")
def _wrap_like_machine_integers():
    """Without JIT the hashes run on NumPy scalars, which warn where machine integers wrap."""
    with np.errstate(over="ignore" if numba.config.DISABLE_JIT else "warn"):
        yield
