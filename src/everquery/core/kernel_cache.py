"""Numba's cache of one function, kept in everquery's folders.

A loop is loaded from the first folder that has it, and written to the first that takes it. Where
none does it is compiled again by every process, and the first time a warning says so.
"""

from __future__ import annotations

import functools
import hashlib
import pickle
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numba
from numba.core.compiler import CompileResult
from numba.core.runtime.nrt import rtsys
from numba.core.serialize import dumps

from everquery.core.kernel_folders import PACKAGE, VARIABLE, digest_of_sources, folders

# Now, not at the first call: by then other sources than the imported ones may be installed.
_DIGEST = digest_of_sources()
FOLDERS = folders(_DIGEST)

# Numba's, which are not typed: a compiled function to a tuple's bytes, and from the tuple.
_pack: Any = dumps
_rebuild: Any = CompileResult._rebuild
_runtime: Any = rtsys

REMEDY = (
    "let someone who may write to the installation run `everquery warm-up`,"
    f" or set {VARIABLE} to a folder that only you can write to"
)


class Traffic:
    """What this process has loaded and written so far.

    Attributes
    ----------
    used : dict of Path to None
        The folders that loops came from or went to, in the order of their first use.
    unwritten : str
        Why a loop could not be written anywhere; empty if all could.
    """

    def __init__(self) -> None:
        self.used: dict[Path, None] = {}
        self.unwritten = ""


TRAFFIC = Traffic()


class KernelCache:
    """What a dispatcher of Numba's asks for compiled code, and gives it to.

    Has the methods of Numba's own ``FunctionCache`` that a dispatcher calls.

    Parameters
    ----------
    function : the Python function that is compiled
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        code = function.__code__
        self._name = f"{function.__module__}.{function.__qualname__}-{code.co_firstlineno}"
        self._stamp = _stamp(code.co_filename)
        # What a closure holds is in no file.
        self._folders = FOLDERS if self._stamp and not function.__closure__ else ()

    @property
    def cache_path(self) -> str | None:
        """The folder that is looked at first, for Numba's statistics."""
        return str(self._folders[0].path) if self._folders else None

    def load_overload(self, signature: Any, target: Any) -> Any:  # noqa: ANN401 - Numba's, untyped
        """Return the compiled function for these types of arguments, or None."""
        name = self._file(signature, target.codegen())
        for folder in self._folders:
            data = folder.read(name)
            if data is not None:
                _log("loaded from", folder.path / name)
                TRAFFIC.used.setdefault(folder.path)
                # All that machine code needs. Numba's own cache also loads all that Numba can
                # compile, which takes 0.2 s; who has to compile something does that first.
                _runtime.initialize(target)
                return _rebuild(target, *pickle.loads(data))
        return None

    def save_overload(self, signature: Any, compiled: Any) -> None:  # noqa: ANN401 - likewise
        """Write a compiled function to the first folder that takes it."""
        if compiled.lifted or compiled.library.has_dynamic_globals:
            return  # holds addresses of this process
        name = self._file(signature, compiled.codegen)
        data = _pack(compiled._reduce())
        reasons = []
        for folder in self._folders:
            try:
                folder.write(name, data)
            except OSError as error:
                reasons.append(str(error))
                continue
            _log("saved to", folder.path / name)
            TRAFFIC.used.setdefault(folder.path)
            return
        _tell_unwritten(_all(reasons))

    def flush(self) -> None:
        """Do nothing: what is compiled anew is written over what was there."""

    def _file(self, signature: Any, codegen: Any) -> str:  # noqa: ANN401 - likewise
        """Return the name of the file: one for each signature and processor.

        Numba numbers its files, and two processes may give two signatures the same number.
        """
        key = repr((self._stamp, signature, codegen.magic_tuple()))
        return f"{self._name}-{hashlib.sha256(key.encode()).hexdigest()[:32]}"


def hopeless() -> str:
    """Return why compiled loops neither are in any folder nor can be; empty if there is a way."""
    reasons = []
    for folder in FOLDERS:
        try:
            folder.try_to_write()
        except OSError as error:
            reasons.append(str(error))
        else:
            return ""
    for folder in FOLDERS:
        with suppress(OSError):
            folder.check()
            return ""
    return _all(reasons)


def _all(reasons: list[str]) -> str:
    return "; ".join(reasons) or "everquery's sources are not in files"


@functools.cache
def _stamp(file: str) -> str | None:
    """Return what tells the source of a kernel: the digest, and its own file if it is another's."""
    if _DIGEST is None or Path(file).is_relative_to(PACKAGE):
        return _DIGEST
    try:
        return f"{_DIGEST} {file} {hashlib.sha256(Path(file).read_bytes()).hexdigest()}"
    except OSError:
        return None


def _tell_unwritten(reason: str) -> None:
    if not TRAFFIC.unwritten:
        TRAFFIC.unwritten = reason
        warnings.warn(
            f"compiled loops can't be kept, so every process compiles them again ({reason});"
            f" {REMEDY}",
            RuntimeWarning,
            stacklevel=2,
        )


def _log(what: str, path: Path) -> None:
    config: Any = numba.config  # a module whose settings are made at run time
    if config.DEBUG_CACHE:
        print(f"[cache] data {what} {str(path)!r}")
