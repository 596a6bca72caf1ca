"""The folders that compiled loops are kept in, and whose machine code is trusted.

Numba's cache looks only at the file of the function that it compiles, and uses only a folder that
it can write. Here a folder is named by a digest of all that the machine code depends on, and one
that can only be read is good for reading. Code is loaded from these folders, so one that somebody
else may write to is refused.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path

import llvmlite
import numba
import numpy as np

from everquery.core.user_folders import cache_folder

VARIABLE = "EVERQUERY_CACHE_DIR"
PACKAGE = Path(__file__).parent.parent

_JIT = b"everquery.core.jit import"
_IMPORTS = re.compile(rb"^from (everquery\.[\w.]+) import", re.MULTILINE)
_CHECKSUM = hashlib.sha256().digest_size
_OTHERS_WRITE = 0o022


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of compiled loops, one file each; it is made when the first is written.

    Parameters
    ----------
    path : Path
    mode : int
        The permissions of folders that are made.
    inside : Path or None
        A folder around it which others must not write to either.
    """

    path: Path
    mode: int
    inside: Path | None = None

    def read(self, name: str) -> bytes | None:
        """Return what was written; None if it is not there, damaged, or not to be trusted."""
        try:
            self.check()
            with (self.path / name).open("rb") as file:
                _check(os.fstat(file.fileno()), self.path / name)
                data = file.read()
        except OSError:
            return None
        checksum, data = data[:_CHECKSUM], data[_CHECKSUM:]
        return data if hashlib.sha256(data).digest() == checksum else None

    def write(self, name: str, data: bytes) -> None:
        """Write a file, in one step for all who read it; OSError if that is not possible."""
        self._make()
        self.check()
        draft = self.path / f".{uuid.uuid4().hex}"
        try:
            with open(draft, "xb", opener=_open_for_one_writer) as file:
                file.write(hashlib.sha256(data).digest() + data)
            draft.replace(self.path / name)
        except OSError:
            draft.unlink(missing_ok=True)
            raise

    def try_to_write(self) -> None:
        """Write and remove a file; OSError if that is not possible."""
        name = f".{uuid.uuid4().hex}"
        self.write(name, b"")
        (self.path / name).unlink()

    def _make(self) -> None:
        missing = [each for each in (self.path, *self.path.parents) if not each.exists()]
        for each in reversed(missing):
            each.mkdir(self.mode, exist_ok=True)

    def check(self) -> None:
        """Raise OSError if the folder is not there, or is not to be trusted."""
        for folder in (self.path, self.inside):
            if folder is not None:
                _check(folder.stat(), folder)


def _open_for_one_writer(path: str, flags: int) -> int:
    return os.open(path, flags, 0o644)  # whatever the umask lets others do


def _check(status: os.stat_result, path: Path) -> None:
    """Raise PermissionError if somebody else may have written there.

    Root, and who owns the installation, could change everquery itself.
    """
    if not hasattr(os, "geteuid"):
        return  # Windows: homes and installations are guarded by lists of their own
    if status.st_uid not in {0, os.geteuid(), PACKAGE.stat().st_uid}:
        raise PermissionError(f"{path} belongs to another user")
    if status.st_mode & _OTHERS_WRITE:
        raise PermissionError(f"others may write to {path}")


def digest_of_sources() -> str | None:
    """Return a digest of all that compiled loops depend on, besides the processor; None if unknown.

    That is their sources, and the versions of what compiles. Numba tells processors apart itself.
    """
    sources = kernel_sources()
    if not sources:
        return None  # in a zip file, or compiled: nothing tells one version from the next
    versions = (sys.version, numba.__version__, llvmlite.__version__, np.__version__)
    digest = hashlib.sha256(repr(versions).encode())
    for path in sorted(sources):
        digest.update(hashlib.sha256(sources[path]).digest())
    return digest.hexdigest()[:16]


def kernel_sources() -> dict[Path, bytes]:
    """Return the files with kernels, and those that they import: kernels use their constants."""
    texts = {path: path.read_bytes() for path in PACKAGE.rglob("*.py")}
    found = {path for path, text in texts.items() if _JIT in text}
    waiting = list(found)
    while waiting:
        for name in _IMPORTS.findall(texts[waiting.pop()]):
            path = _file_of(name.decode())
            if path in texts and path not in found:
                found.add(path)
                waiting.append(path)
    return {path: texts[path] for path in found}


def _file_of(module: str) -> Path:
    """Return the file of a module of everquery, or that of a package's exports."""
    path = PACKAGE.joinpath(*module.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def folders(digest: str | None) -> tuple[Folder, ...]:
    """Return the folders in which loops are looked for, and to the first possible of which they go.

    That is the one in the environment alone, if there is one. Else the one beside the package, so
    that all its users share it, then one of this user alone.
    """
    if digest is None:
        return ()
    name = f"everquery-kernels-{digest}"
    if chosen := os.environ.get(VARIABLE):
        around = Path(chosen).absolute()
        return (Folder(around / name, 0o755, around),)
    beside = Folder(PACKAGE / "__pycache__" / name, 0o755)
    private = cache_folder()
    return (beside,) if private is None else (beside, Folder(private / name, 0o700, private))
