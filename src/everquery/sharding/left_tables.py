"""What a worker leaves in a file for another process of its host.

Spark copies what goes from one Python process to the next several times, in Java. What is left in a
file is written once, and mapped by whoever picks it up.

A table is for the next process of the same task, and gone when it is picked up. A blob is for a
later stage, whose tasks may be tried again: it stays until its batch is done.
"""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.ipc

from everquery.sharding.host_files import host_folder

LEAST_BYTES = 1 << 16  # smaller ones are as well sent
STALE_SECONDS = 600.0

_left: dict[Path, float | None] = {}  # by this process, each with when its task was seen to be over


def leave(table: pa.Table) -> str | None:
    """Write a table to a file, and return its name; None where it should be sent.

    So it is if it is small, or if there is no folder that the processes of this host share.
    """
    if table.nbytes < LEAST_BYTES or (folder := host_folder()) is None:
        return None
    path = folder / f"{uuid4().hex}.table"
    try:
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table)
    except OSError:  # no room: the other way may do
        path.unlink(missing_ok=True)
        return None
    _left[path] = None
    return path.name


def pick_up(name: str) -> pa.Table:
    """Return a table that was left, and remove its file."""
    folder = host_folder()
    if folder is None or Path(name).name != name:
        raise FileNotFoundError(f"no table was left under the name {name!r}")
    path = folder / name
    with pa.memory_map(str(path)) as file, pa.ipc.open_stream(file) as reader:
        table = reader.read_all()
    path.unlink(missing_ok=True)  # it stays mapped
    return table


def clear_up(now: float) -> None:
    """Remove what this process has left long ago and nobody has picked up; called before a task.

    Who picks up a table may do so after this process was given its next task: Spark hands on the
    names when the last one has come.

    Parameters
    ----------
    now : float
        Seconds of any clock that only goes on.
    """
    for path, over in list(_left.items()):
        if not path.exists():
            del _left[path]
        elif over is None:
            _left[path] = now
        elif now - over >= STALE_SECONDS:
            path.unlink(missing_ok=True)
            del _left[path]


def leave_blob(blob: bytes, job: str, batch: int) -> str | None:
    """Write a blob to a file, and return its name; None where it should be sent."""
    if len(blob) < LEAST_BYTES or (folder := host_folder()) is None:
        return None
    path = folder / f"{job}.{batch}.{uuid4().hex}.blob"
    try:
        path.write_bytes(blob)
    except OSError:
        path.unlink(missing_ok=True)
        return None
    return path.name


def blob_of(name: str) -> pa.Buffer:
    """Return a blob that was left; its file stays."""
    folder = host_folder()
    if folder is None or Path(name).name != name:
        raise FileNotFoundError(f"no blob was left under the name {name!r}")
    with pa.memory_map(str(folder / name)) as file:
        return file.read_buffer()


def clear_blobs(job: str, batch: int) -> None:
    """Remove the blobs of a job's batches before one, which are done."""
    folder = host_folder()
    for path in () if folder is None else folder.glob(f"{job}.*.blob"):
        if int(path.name.split(".")[1]) < batch:
            path.unlink(missing_ok=True)
