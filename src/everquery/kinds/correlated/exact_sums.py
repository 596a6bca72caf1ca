"""Sums of float64 numbers without any rounding, and their nearest float64.

A sum is a fixed-point number that holds every float64 exactly: `LIMBS` digits of 32 bits, each in
an int64, so that a billion of them may be added before carries are passed on. Numbers can be taken
out again without a trace, which no sum of floats allows.
"""

from __future__ import annotations

import math

import numpy as np

from everquery.core.arrays import Floats, Int64s
from everquery.core.jit import callee

LIMBS = 68
_BIAS = 1_088  # the place of 2**0; the least float64 is 2**-1074
_DIGIT = (1 << 32) - 1
_FAR = 64  # halved so often, no sum is beyond all float64


@callee
def add_exactly(sums: Int64s, at: int, value: float) -> None:
    """Add a finite number to the sum that begins at `at`; adding -1 takes 1 out."""
    if value == 0.0:
        return
    mantissa, exponent = math.frexp(value)
    bits = int(mantissa * 9007199254740992.0)  # 2**53
    place = exponent - 53 + _BIAS
    sign = 1
    if bits < 0:
        bits = -bits
        sign = -1
    if place < 0:  # those bits are 0: there is no smaller float64
        bits = bits >> -place
        place = 0
    limb = at + (place >> 5)
    shift = place & 31
    low = (bits & _DIGIT) << shift
    high = (bits >> 32) << shift
    sums[limb] += sign * (low & _DIGIT)
    sums[limb + 1] += sign * ((low >> 32) + (high & _DIGIT))
    sums[limb + 2] += sign * (high >> 32)


@callee
def _carry(sums: Int64s, at: int) -> None:
    """Make all digits but the last one 0 to 2**32 - 1."""
    carried = 0
    for i in range(at, at + LIMBS - 1):
        total = sums[i] + carried
        carried = total >> 32
        sums[i] = total & _DIGIT
    sums[at + LIMBS - 1] += carried


@callee
def nearest(sums: Int64s, at: int, halved: int) -> float:
    """Return the float64 nearest to a sum, the even one of two; infinity beyond all.

    Parameters
    ----------
    halved : how often the sum is halved before; of a sum beyond all float64
    """
    _carry(sums, at)
    negative = sums[at + LIMBS - 1] < 0
    if negative:
        for i in range(at, at + LIMBS):
            sums[i] = -sums[i]
        _carry(sums, at)
    top = at + LIMBS - 1
    while top >= at and sums[top] == 0:
        top -= 1
    result = 0.0
    if top >= at:
        size = 0
        while size < 32 and sums[top] >> size > 0:
            size += 1
        # The 62 bits from the highest on, and whether there are any below.
        first = sums[top]
        second = sums[top - 1] if top - 1 >= at else 0
        third = sums[top - 2] if top - 2 >= at else 0
        bits = (first << (62 - size)) | ((second << 30) >> size) | (third >> (size + 2))
        rest = third & ((1 << (size + 2)) - 1) if size < 30 else third
        if size >= 30:
            bits = (first << (62 - size)) | (second >> (size - 30))
            rest = third | (second & ((1 << (size - 30)) - 1))
        i = top - 3
        while rest == 0 and i >= at:
            rest = sums[i]
            i -= 1
        kept = bits >> 9
        dropped = bits & 511
        if dropped > 256 or (dropped == 256 and (rest != 0 or kept & 1 == 1)):
            kept += 1
        exponent = 32 * (top - at) + size - 1 - _BIAS - halved
        if exponent > 1_023 or (exponent == 1_023 and kept == 9007199254740992):
            result = np.inf
        else:
            result = math.ldexp(float(kept), int(exponent - 52))
    if negative:
        for i in range(at, at + LIMBS):
            sums[i] = -sums[i]
        return -result
    return result


@callee
def average_of(sums: Int64s, at: int, n: int) -> float:
    """Return the float64 nearest to a sum, divided by `n`; also where the sum is beyond all."""
    none = n * 0  # a literal would be a type of its own, to compile for
    total = nearest(sums, at, none)
    if abs(total) < np.inf:
        return total / n
    return nearest(sums, at, none + _FAR) / n * 2.0**_FAR


@callee
def add_up(values: Floats, begin: int, end: int, sums: Int64s) -> None:
    """Let a sum be that of some values. Cost: a pass over them."""
    for i in range(LIMBS):
        sums[i] = 0
    for i in range(begin, end):
        add_exactly(sums, begin * 0, values[i])
