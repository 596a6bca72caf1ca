"""Give freed memory back to the operating system after bulk work."""

from __future__ import annotations

import ctypes

import pyarrow as pa


def release_freed_memory() -> None:
    """Return pages that allocators hold but nothing uses.

    A bulk load frees large temporary arrays, and both Arrow's pool and the C library keep them for
    later: on a load of a million queries that is half as much again as the queries take.
    """
    pa.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # only the GNU library has it
    if trim is not None:
        trim(0)
