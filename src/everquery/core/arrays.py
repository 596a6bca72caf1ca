"""Array types and the few array helpers that all structures share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from everquery.core.jit import kernel

Bools = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float64]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Uint64s = npt.NDArray[np.uint64]
Array = npt.NDArray[Any]

# The upper end of a range without upper limit: `bound <= value` is false for every value, +inf
# included. Every comparison in the kernels is written in that direction.
BEYOND = np.nan


@kernel
def grow(array: Array) -> Array:
    """Return a copy with room for as much again.

    By a loop: Numba compiles a copy between slices with a check of shapes that costs seconds.
    """
    larger = np.empty(2 * array.size + 1, array.dtype)
    for i in range(array.size):
        larger[i] = array[i]
    return larger


def resized(array: Array, size: int, fill: float = 0) -> Array:
    """Return a copy whose last axis has `size` places, the new ones filled with `fill`."""
    larger = np.full((*array.shape[:-1], size), fill, array.dtype)
    larger[..., : array.shape[-1]] = array
    return larger


def move_columns(before: Sequence[Array], after: Sequence[Array], slots: Int32s) -> None:
    """Copy columns by slot to where each slot stands from now on; those that become 0 are left out.

    Parameters
    ----------
    before, after : the columns, and room for them
    slots : int32
        The new slot of each present one.
    """
    kept = np.flatnonzero(slots[: before[0].size])
    for old, new in zip(before, after, strict=True):
        new[slots[kept]] = old[kept]


def total_bytes(*arrays: Array) -> int:
    """Return how many bytes the arrays take."""
    return sum(int(array.nbytes) for array in arrays)
