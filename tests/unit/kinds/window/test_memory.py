"""What `explain` says of the memory of windows."""

import numpy as np
import pyarrow as pa

import everquery as eq
from everquery.kinds.window import memory

STREAM = eq.Stream("s", attributes=["x", "y"])


def engine_with(**options):
    engine = eq.Engine(STREAM)
    engine.register(eq.Window("w", "l1", "x", per="y", last=1_000, **options))
    rng = np.random.default_rng(1)
    engine.process(pa.table({"x": rng.normal(0, 5, 600), "y": np.arange(600.0)}))
    return engine


def test_an_approximate_window_says_what_an_exact_one_would_hold():
    assert "with epsilon=0, it would hold about 600 entries" in str(
        engine_with(epsilon=0.3).explain("w")
    )


def test_an_exact_window_says_what_an_approximate_one_would_hold():
    assert "with epsilon=0.01, it would hold about 600 entries" in str(
        engine_with(epsilon=0).explain("w")
    )


def test_a_number_of_events_that_can_not_be_is_left_out_13(monkeypatch):
    engine = engine_with(epsilon=0.3)
    # As after the restore of a forged snapshot.
    monkeypatch.setattr(memory, "_exact_entries", lambda *_: np.inf)
    assert "it would hold" not in str(engine.explain("w"))
