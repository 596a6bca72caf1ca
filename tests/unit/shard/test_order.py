"""The order of notices."""

import numpy as np
import pyarrow as pa
import pytest

import everquery as eq

STREAM = eq.Stream("s", key="k", attributes=["x"])


def batch(**columns):
    return pa.table(columns)


@pytest.fixture
def engine():
    with eq.Engine(STREAM) as engine:
        yield engine


def test_one_event_of_very_many_notices_is_in_order(engine):
    n = 60_000
    ids = [f"q{i}" for i in np.random.default_rng(0).permutation(n)]
    engine.register_table(
        pa.table({"id": ids, "x_lo": np.zeros(n), "x_hi": np.arange(1.0, n + 1)}), kind="range"
    )
    assert engine.process(batch(k=["a"], x=[0.5]))["query_id"].to_pylist() == ids
