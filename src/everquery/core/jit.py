"""The one place that owns the JIT flags; where compiled loops are kept is in ``kernel_cache``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from numba.core.types import unliteral

from everquery.core.kernel_cache import KernelCache

Function = TypeVar("Function", bound=Callable[..., Any])
_plain: Any = unliteral  # Numba's, which is not typed


def part(function: Function) -> Function:
    """Compile a piece of a kernel into it: a call that passes many arrays costs 100 ns."""
    return _compile(function, forceinline=True)


def kernel(function: Function) -> Function:
    """Compile a bare loop over arrays; it runs without the interpreter lock.

    Bad indices are not checked: specs and decoders validate before a kernel runs.
    """
    return _compile(function, forceinline=False)


def callee(function: Function) -> Function:
    """Compile a piece that kernels call: once, where `part` compiles it into each of its callers.

    Python can't call it: what that takes is a good part of the time to compile.
    """
    return _compile(function, forceinline=False, no_cpython_wrapper=True)


def _compile(function: Function, **options: bool) -> Function:
    # Nobody calls a loop by its address, so it is not made callable by one.
    compile_with: Any = numba.njit  # its types lack some options
    compiled = compile_with(nogil=True, error_model="numpy", no_cfunc_wrapper=True, **options)(
        function
    )
    if compiled is not function:  # as it is where NUMBA_DISABLE_JIT is set
        compiled._cache = KernelCache(function)
        compiled.get_call_template = _of_plain_types(compiled.get_call_template)
    return cast("Function", compiled)


def _of_plain_types(resolve: Callable[..., Any]) -> Callable[..., Any]:
    """Let calls with constants share what is compiled: Numba would compile each constant anew.

    Where the callee is inlined, constants are seen all the same.
    """

    def resolve_plain(given: tuple[Any, ...], named: dict[str, Any]) -> Any:  # noqa: ANN401 - Numba's
        plain = tuple(_plain(each) for each in given)
        return resolve(plain, {name: _plain(each) for name, each in named.items()})

    return resolve_plain
