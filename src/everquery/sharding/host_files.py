"""Live arrays in memory-mapped files, so that all workers of a host share one copy.

A file holds a shard as it was at one version, named by its token, and is never changed. Whoever has
to build the shard maps the file instead: milliseconds, not seconds, and pages that are not written
to are shared. They are mapped copy-on-write: what changes (flags, last values) becomes the
worker's own, page by page. A file is only ever a short cut; the cells have everything, so it may
be lost at any time.
"""

from __future__ import annotations

import mmap
import os
import pickle
from pathlib import Path
from typing import Any

ALIGNED = 64  # bytes; as wide as anything that loops read at once

Token = tuple[int, str]


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


def write(folder: Path, name: str, token: Token, live: object) -> None:
    """Write live arrays to a file of their own, and remove those of earlier versions."""
    buffers: list[Any] = []
    # Pickles run code: `host_folder` gives only what nobody else can write to.
    head = pickle.dumps(live, protocol=5, buffer_callback=lambda b: buffers.append(b.raw()))
    sizes = [len(head), *(len(buffer) for buffer in buffers)]
    target = _path(folder, name, token)
    unfinished = target.with_suffix(f".{os.getpid()}")
    with unfinished.open("wb") as file:
        file.write(len(sizes).to_bytes(8, "little"))
        file.writelines(size.to_bytes(8, "little") for size in sizes)
        for part in (head, *buffers):
            file.write(bytes(-file.tell() % ALIGNED))
            file.write(part)
    unfinished.replace(target)
    for other in folder.glob(f"{name}.*.arrays"):
        if other != target:
            other.unlink(missing_ok=True)  # who has it mapped keeps it


def read(folder: Path, name: str, token: Token) -> Any | None:  # noqa: ANN401 - what was written
    """Return live arrays that share a file's memory; None if there is no such file."""
    try:
        with _path(folder, name, token).open("rb") as file:
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    except (OSError, ValueError):
        return None
    view = memoryview(content)
    count = int.from_bytes(view[:8], "little")
    sizes = [int.from_bytes(view[8 * i : 8 * i + 8], "little") for i in range(1, count + 1)]
    at = 8 * (count + 1)
    parts = []
    for size in sizes:
        at += -at % ALIGNED
        parts.append(view[at : at + size])
        at += size
    return pickle.loads(parts[0], buffers=parts[1:])


def _path(folder: Path, name: str, token: Token) -> Path:
    version, nonce = token
    return folder / f"{name}.{version}.{nonce}.arrays"
