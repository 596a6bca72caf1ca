"""Tables of queries: bad rows have their reason."""

from decimal import Decimal

import pyarrow as pa
import pytest

import everquery as eq

STREAM = eq.Stream("s", key="k", attributes=["x"])


@pytest.fixture
def engine():
    with eq.Engine(STREAM) as engine:
        yield engine


def test_a_null_decimal_bound_is_no_limit(engine):
    bounds = pa.array([Decimal("0.5"), None, Decimal("0.1")])
    with pytest.raises(eq.InvalidTableError) as caught:
        engine.register_table(pa.table({"id": ["a", "b", "c"], "x_lo": bounds}), kind="range")
    assert caught.value.errors["row"].to_pylist() == [2]
