"""Brute-force answers, strategies and asserts: for our tests, and for those of users."""

from everquery.kinds.quantile.asserts import assert_true_quantiles
from everquery.testing.asserts import (
    assert_same_notices,
    assert_unique_ids,
    by_key,
    notices_of,
)
from everquery.testing.brute_force import BruteForce
from everquery.testing.notice import Notice

__all__ = [
    "BruteForce",
    "Notice",
    "assert_same_notices",
    "assert_true_quantiles",
    "assert_unique_ids",
    "by_key",
    "notices_of",
]
