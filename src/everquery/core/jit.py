"""The one place that owns the JIT flags; where compiled loops are kept is in ``kernel_cache``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

from everquery.core.kernel_cache import KernelCache

Function = TypeVar("Function", bound=Callable[..., Any])


def part(function: Function) -> Function:
    """Compile a piece of a kernel into it: a call that passes many arrays costs 100 ns."""
    return _compile(function, forceinline=True)


def kernel(function: Function) -> Function:
    """Compile a bare loop over arrays; it runs without the interpreter lock.

    Bad indices are not checked: specs and decoders validate before a kernel runs.
    """
    return _compile(function, forceinline=False)


def _compile(function: Function, *, forceinline: bool) -> Function:
    compiled: Any = numba.njit(nogil=True, error_model="numpy", forceinline=forceinline)(function)
    if compiled is not function:  # as it is where NUMBA_DISABLE_JIT is set
        compiled._cache = KernelCache(function)
    return cast("Function", compiled)
