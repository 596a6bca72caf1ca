import numpy as np
import pyarrow as pa
import pytest

import everquery as eq


@pytest.fixture
def stream():
    return eq.Stream("trades", key="symbol", time="ts", attributes=["price"], keep="all")


@pytest.fixture
def batch():
    """Return a function that makes batches: so many events from a time on."""

    def make(n, first):
        times = np.arange(first, first + n)
        return pa.table(
            {"symbol": pa.array([f"k{t % 3}" for t in times.tolist()], pa.string()),
             "ts": times, "price": (times * 7 % 50).astype(float)}
        )  # fmt: skip

    return make
