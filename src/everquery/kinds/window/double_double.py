"""Sums that do not drift: a number is the sum of two floats, the second what the first rounds off.

An exact window adds what comes and subtracts what goes, for ever. With plain floats the rounding
of each step would stay in the sum, and a window over constant values would seem to move.
"""

from __future__ import annotations

from everquery.core.jit import part

SPLITTER = 134_217_729.0  # 2**27 + 1
NOISE = 2.0**-90  # what differs by less than this share differs by rounding alone


@part
def two_sum(a: float, b: float) -> tuple[float, float]:
    """Return a sum, and what it rounds off."""
    total = a + b
    other = total - a
    return total, (a - (total - other)) + (b - other)


@part
def two_product(a: float, b: float) -> tuple[float, float]:
    """Return a product, and what it rounds off; factors beyond 2**995 overflow."""
    product = a * b
    scaled = SPLITTER * a
    a_high = scaled - (scaled - a)
    a_low = a - a_high
    scaled = SPLITTER * b
    b_high = scaled - (scaled - b)
    b_low = b - b_high
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


@part
def added(high: float, low: float, more: float, more_low: float) -> tuple[float, float]:
    """Return the sum of two such numbers."""
    total, rest = two_sum(high, more)
    low_total, low_rest = two_sum(low, more_low)
    total, rest = two_sum(total, rest + low_total)
    return two_sum(total, rest + low_rest)


@part
def multiplied(high: float, low: float, other: float, other_low: float) -> tuple[float, float]:
    """Return the product of two such numbers."""
    product, rest = two_product(high, other)
    return two_sum(product, rest + (high * other_low + low * other))


@part
def divided(high: float, low: float, by: float) -> float:
    """Return the nearest float of such a number divided by a float."""
    quotient = high / by
    product, rest = two_product(quotient, by)
    return quotient + ((high - product) - rest + low) / by
