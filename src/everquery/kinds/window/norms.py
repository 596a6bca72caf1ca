"""The exact norm of a vector of sums."""

from __future__ import annotations

import numpy as np

from everquery.core.arrays import Floats
from everquery.core.jit import kernel
from everquery.kinds.window.double_double import added, multiplied


@kernel
def norm(power: int, total: Floats, begin: int, end: int) -> float:
    """Return the norm of the vector of sums by place in it, of some entries.

    Cost: a sort of the entries.
    """
    n = end - begin
    by = np.empty(n)
    for i in range(n):
        by[i] = total[begin + i, 1]
    order = np.argsort(by, kind="mergesort")
    whole = rest = 0.0
    one = one_low = 0.0
    for i in range(n + 1):
        if i > 0 and (i == n or by[order[i]] != by[order[i - 1]]):
            if power == 1:
                if one < 0:
                    one, one_low = -one, -one_low
            else:
                one, one_low = multiplied(one, one_low, one, one_low)
            whole, rest = added(whole, rest, one, one_low)
            one = one_low = 0.0
        if i < n:
            one, one_low = added(one, one_low, total[begin + order[i], 0], 0.0)
    return float(whole + rest if power == 1 else np.sqrt(whole + rest))
