"""Hypothesis profiles, chosen by HYPOTHESIS_PROFILE: fast (default), balanced and so on."""

import os

import numba
from hypothesis import HealthCheck, Phase, settings

_COMMON = {"deadline": None, "derandomize": True, "suppress_health_check": [HealthCheck.too_slow]}
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
