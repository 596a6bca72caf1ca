"""Exact sums against fractions."""

import math
from fractions import Fraction

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from everquery.core.jit import kernel
from everquery.kinds.correlated.exact_sums import LIMBS, add_exactly, add_up, nearest

floats = st.floats(allow_nan=False, allow_infinity=False)


@kernel
def sum_of(values, scratch):
    add_up(values, 0, values.size, scratch)
    return nearest(scratch, 0, 0)


@kernel
def sum_without(values, gone, scratch):
    for i in range(gone):
        add_exactly(scratch, 0, -values[i])
    return nearest(scratch, 0, 0)


def rounded(values):
    total = sum(map(Fraction, values), Fraction(0))
    try:
        return float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf


@given(st.lists(floats, max_size=20), st.data())
@example([1e308, 1e308, -1e308, 5e-324], None)
@example([1.0, 2.0**-53, 5e-324], None)
@example([1.0, 2.0**-53], None)
@example([-1.0, -(2.0**-53), -(2.0**-54)], None)
@example([1.7976931348623157e308, 9.9792015476736e291], None)
@example([5e-324] * 3, None)
def test_sums_are_rounded_once(values, data):
    scratch = np.zeros(LIMBS, np.int64)
    array = np.array(values, np.float64)
    assert sum_of(array, scratch) == rounded(values)
    gone = data.draw(st.integers(0, len(values))) if data else len(values) // 2
    assert sum_without(array, gone, scratch) == rounded(values[gone:])
