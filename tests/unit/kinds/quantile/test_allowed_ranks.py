"""What is known of the ranks of a value, against a look at every tuple, and what it costs."""

import numpy as np
import pytest

from everquery.kinds.quantile import allowed_ranks
from everquery.kinds.quantile.allowed_ranks import surely


def looked_up(values, r_minus, r_plus, value, n):
    """Return what `surely` does, from a look at every tuple."""
    equal = [i for i, each in enumerate(values) if each == value]
    if equal:
        first, last = equal[0], equal[-1]
        return r_plus[first], r_minus[last], r_minus[first], r_plus[last]
    above = min((r_plus[i] for i, each in enumerate(values) if each > value), default=n + 1)
    below = max((r_minus[i] + 1 for i, each in enumerate(values) if each < value), default=1)
    return above, below, below, above


@pytest.mark.parametrize("different", [1, 2, 5, 1000])
def test_ranks_of_a_value(different):
    rng = np.random.default_rng(different)
    for size in (1, 2, 3, 40):
        values = np.sort(rng.integers(0, different, size).astype(float))
        r_minus = np.cumsum(rng.integers(1, 4, size))
        r_plus = np.maximum.accumulate(r_minus + rng.integers(0, 3, size))
        n = int(r_plus[-1]) + 1
        for value in (*values, *(values + 0.5), -np.inf, np.inf):
            found = surely(values, r_minus, r_plus, 0, size, value, n)
            assert found == looked_up(values, r_minus, r_plus, value, n)


class Counted:
    """Values that count how often one is read."""

    def __init__(self, values):
        self.values, self.reads = values, 0

    def __getitem__(self, place):
        self.reads += 1
        return self.values[place]


@pytest.mark.parametrize("value", [0.0, 1.0, 2.0])
def test_equal_values_are_not_walked_over(value, monkeypatch):
    for name in ("first_not_below", "first_above"):
        compiled = getattr(allowed_ranks, name)
        monkeypatch.setattr(allowed_ranks, name, getattr(compiled, "py_func", compiled))
    values, ranks = Counted(np.repeat([0.0, 1.0], 50_000)), np.arange(1, 100_001)
    getattr(surely, "py_func", surely)(values, ranks, ranks, 0, ranks.size, value, ranks.size)
    assert values.reads < 100
