"""Live arrays in memory-mapped files, so that all workers of a host share one copy.

A file holds a shard as it was at one version, named by its token, and is never changed. Whoever has
to build the shard maps the file instead: milliseconds, not seconds, and pages that are not written
to are shared. They are mapped copy-on-write: what changes (flags, last values) becomes the
worker's own, page by page. A file is only ever a short cut; the store has everything, so it may
be lost at any time, and one that does not fit is as if it were not there.
"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from everquery.core.framing import DamagedError, NewerError, pieces, view
from everquery.sharding.head import Token
from everquery.sharding.live_graph import ForeignError, flatten, restore

_NAME = re.compile(r"[0-9a-f]{32}\.(0|[1-9]\d{0,9})", re.ASCII)
_NONCE = re.compile(r"[0-9a-f]{32}", re.ASCII)


def host_folder() -> Path | None:
    """Return the folder that the workers of this host share: in Spark's, which Spark removes.

    None where there is none, or where it is not this user's alone.
    """
    shared = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    if not shared:
        return None
    folder = Path(shared) / "everquery"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
    except OSError:
        return None
    return folder if found.st_uid == os.getuid() and not found.st_mode & 0o077 else None


def write(
    folder: Path, name: str, token: Token, live: object, given: Sequence[object] = ()
) -> None:
    """Write live objects to a file of their own, and remove those of earlier versions.

    Objects that can't be written are kept to oneself, without a file.

    Parameters
    ----------
    name : str
        The lineage and the number of a shard.
    given : objects that whoever reads the file has already
    """
    target = _path(folder, name, token)
    try:
        root, contents = flatten(live, given)
    except ForeignError:
        return
    header = {"holds": "live", "name": name, "token": token, "root": root}
    unfinished = target.with_suffix(f".{os.getpid()}")
    with unfinished.open("wb") as file:
        file.writelines(pieces(header, contents, summed=False))
    unfinished.replace(target)
    for other in folder.glob(f"{name}.*.arrays"):
        if other != target:
            other.unlink(missing_ok=True)  # a process that has it mapped keeps it


def read(
    folder: Path,
    name: str,
    token: Token,
    like: object,
    given: Sequence[object] = (),
) -> Any | None:  # noqa: ANN401 - what was written
    """Return live objects that share a file's memory; None if there is no such file.

    Parameters
    ----------
    like : new objects of the same classes, to be filled; not to be used if there is no file
    given : as in `write`
    """
    try:
        with _path(folder, name, token).open("rb") as file:
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        header, views = view(memoryview(content))
        if (header.get("holds"), header.get("name")) != ("live", name):
            return None
        if header.get("token") != list(token):
            return None
        return restore(header.get("root"), views, like, given)
    except (OSError, ValueError, DamagedError, NewerError):
        return None


def _path(folder: Path, name: str, token: Token) -> Path:
    """Return where a version's file is; a name that could lead elsewhere is an error."""
    version, nonce = token
    if not (_NAME.fullmatch(name) and type(version) is int and _NONCE.fullmatch(nonce)):
        raise ValueError(f"{name!r} and {token!r} name no file of live arrays")
    return folder / f"{name}.{version}.{nonce}.arrays"
