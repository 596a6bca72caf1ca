"""The lists of a few boxes are those that the general way builds."""

import numpy as np
import pytest

from everquery.index.rows import NO_KEY, Rows, Shape
from everquery.kinds.border import region_segments
from everquery.kinds.border.region_segments import RegionSegments


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("attributes", [(0,), (0, 2)])
@pytest.mark.parametrize("n", [1, 2, 17, 64])
def test_a_few_rows_are_built_as_many_are(monkeypatch, n, attributes, keyed):
    draw = np.random.default_rng(n)
    low = draw.integers(0, 4, (len(attributes), n)).astype(float)
    high = low + draw.integers(1, 4, low.shape)
    high[draw.random(high.shape) < 0.3] = np.nan
    low[draw.random(low.shape) < 0.1] = -np.inf
    key = draw.integers(0, 5, n) if keyed else np.full(n, NO_KEY)
    slot = draw.permutation(n).astype(np.int32)
    rows = Rows(Shape(attributes, keyed), slot, key.astype(np.int32), low, high)
    few = RegionSegments.build(rows)
    monkeypatch.setattr(region_segments, "FEW", 0)
    many = RegionSegments.build(rows)
    assert few.rows.shape == many.rows.shape
    for name in ("attributes", "lane_key", "lane_start", "ends", "order", "maxima", "level_start"):
        np.testing.assert_array_equal(getattr(few, name), getattr(many, name), name)
        assert getattr(few, name).dtype == getattr(many, name).dtype
    for left, right in zip(few.rows.arrays(), many.rows.arrays(), strict=True):
        np.testing.assert_array_equal(left, right)
    np.testing.assert_array_equal(few.positions[0], many.positions[0])
