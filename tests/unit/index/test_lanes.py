"""Rows by lane: the order is that of one stable sort by key and value."""

import numpy as np
import pytest

from everquery.index.lanes import order_in_lanes, sort_into_lanes

SIZES = [0, 1, 2, 15, 16, 17, 31, 33, 64, 65, 100, 257]


def values_of(rng, n):
    chosen = np.array([-np.inf, -1.5, -0.0, 0.0, 1.0, 2.0, np.inf, np.nan])
    return np.where(rng.random(n) < 0.7, rng.choice(chosen, n), rng.uniform(-2, 3, n))


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("keys", [1, 3, 40, 10**6])
def test_rows_are_in_the_order_of_a_stable_sort(n, keys):
    rng = np.random.default_rng(n * keys)
    key = rng.integers(0, keys, n).astype(np.int32) if keys > 1 else np.full(n, -1, np.int32)
    value = values_of(rng, n)
    lanes = sort_into_lanes(key, value)
    assert lanes.order.tolist() == np.lexsort((value, key)).tolist()
    assert lanes.key.dtype == np.int32
    assert lanes.key.tolist() == np.unique(key).tolist()
    sizes = np.unique(key, return_counts=True)[1]
    assert lanes.start.tolist() == [0, *np.cumsum(sizes).tolist()]
    other = values_of(rng, n)
    by_lane = key[lanes.order]
    found = order_in_lanes(other, lanes.start)
    assert found.tolist() == np.lexsort((other, by_lane)).tolist()


def test_what_is_in_order_stays_and_what_is_given_is_not_changed():
    key = np.repeat(np.arange(5, dtype=np.int32), 40)
    value = np.tile(np.arange(40.0), 5)
    before = value.copy()
    assert sort_into_lanes(key, value).order.tolist() == list(range(200))
    assert (value == before).all()
    falling = value[::-1].copy()
    assert sort_into_lanes(key, falling).order.tolist() == np.lexsort((falling, key)).tolist()
