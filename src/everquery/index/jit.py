"""The one place that owns the JIT flags, and where compiled loops are cached.

Numba's cache looks only at the file of the function that it compiles: a kernel that calls a helper
in another file would keep the old helper. So the cache folder is named by a digest of all kernel
sources; a change anywhere compiles anew, and no stale machine code can run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])

_PACKAGE = Path(__file__).parent.parent


def _cache_folder() -> str:
    digest = hashlib.sha256()
    for source in sorted((*_PACKAGE.glob("index/*.py"), *_PACKAGE.glob("state/*.py"))):
        digest.update(source.read_bytes())
    name = f"everquery-kernels-{digest.hexdigest()[:16]}"
    beside = _PACKAGE / "__pycache__" / name
    try:
        beside.mkdir(parents=True, exist_ok=True)
    except OSError:  # a read-only installation
        return str(Path.home() / ".cache" / "everquery" / name)
    return str(beside)


_CACHE_FOLDER = _cache_folder()


def part(function: Function) -> Function:
    """Compile a piece of a kernel into it: a call that passes many arrays costs 100 ns."""
    return _compile(function, forceinline=True)


def kernel(function: Function) -> Function:
    """Compile a bare loop over arrays; it runs without the interpreter lock.

    Bad indices are not checked: specs and decoders validate before a kernel runs.
    """
    return _compile(function, forceinline=False)


def _compile(function: Function, *, forceinline: bool) -> Function:
    config: Any = numba.config  # a module whose settings are made at run time
    before = config.CACHE_DIR
    config.CACHE_DIR = _CACHE_FOLDER
    try:
        compiled = numba.njit(cache=True, nogil=True, error_model="numpy", forceinline=forceinline)(
            function
        )
    finally:
        config.CACHE_DIR = before
    return cast("Function", compiled)
