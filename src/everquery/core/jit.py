"""The one place that owns the JIT flags; where compiled loops are kept is in ``kernel_cache``.

Half of what Numba compiles by itself nobody needs. A piece that is compiled into its callers gets
optimized and becomes machine code there, so it is neither before, and there is no way to call it
from Python. And a constant among the arguments is no reason to compile a loop anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

import numba
from numba import types

from everquery.core.kernel_cache import KernelCache

Function = TypeVar("Function", bound=Callable[..., Any])


def part(function: Function) -> Function:
    """Compile a piece of a kernel into it: a call that passes many arrays costs 100 ns.

    Called from Python, it is interpreted.
    """
    compiled = _compile(function, forceinline=True, no_cpython_wrapper=True)
    if compiled is not function:
        _only_for_kernels(compiled)
    return cast("Function", compiled)


def kernel(function: Function) -> Function:
    """Compile a bare loop over arrays; it runs without the interpreter lock.

    Bad indices are not checked: specs and decoders validate before a kernel runs.
    """
    compiled = _compile(function, forceinline=False, no_cpython_wrapper=False)
    if compiled is not function:
        compiled._cache = KernelCache(function)
    return cast("Function", compiled)


def _compile(function: Callable[..., Any], **options: bool) -> Any:  # noqa: ANN401 - Numba's, untyped
    """Return what Numba makes of a function: the function where NUMBA_DISABLE_JIT is set."""
    jit: Any = numba.njit(nogil=True, error_model="numpy", no_cfunc_wrapper=True, **options)
    compiled = jit(function)
    if compiled is not function:
        _forget_constants(compiled)
    return compiled


def _forget_constants(compiled: Any) -> None:  # noqa: ANN401 - likewise
    """Compile once for all constants that other loops pass; their own copies know them anyway."""
    template = compiled.get_call_template

    def without_constants(arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:  # noqa: ANN401
        return template(
            tuple(map(types.unliteral, arguments)),
            {name: types.unliteral(kind) for name, kind in named.items()},
        )

    compiled.get_call_template = without_constants


def _only_for_kernels(compiled: Any) -> None:  # noqa: ANN401 - likewise
    """Keep what is compiled as it was typed, for callers to take in; Python finds none of it."""
    customize = compiled._compiler._customize_flags

    def without_machine_code(flags: Any) -> Any:  # noqa: ANN401
        flags = customize(flags)
        flags.no_compile = True
        return flags

    def add_overload(result: Any) -> None:  # noqa: ANN401
        library = result.library

        def finish() -> None:
            library._finalize_dynamic_globals()
            library._finalized = True

        library._optimize_final_module = lambda: None
        library._finalize_final_module = finish
        result = result._replace(entry_point=object())  # what callers know it by
        compiled.targetctx.insert_user_function(result.entry_point, result.fndesc, [library])
        compiled.overloads[tuple(result.signature.args)] = result

    compiled._compiler._customize_flags = without_machine_code
    compiled.add_overload = add_overload
    compiled._compile_for_args = lambda *_arguments, **_named: compiled.py_func
