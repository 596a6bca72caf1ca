"""Notices of numbered batches, a file each: a batch that is done again replaces itself."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa

from everquery.errors import UnwritableFileError
from everquery.sinks.files import open_writer

_NAME = re.compile(r"batch-\d{12}\.(parquet|jsonl)")


class BatchFiles:
    """Writes the notices of each batch into a file of a folder: exactly once, for every reader.

    A file gets its name when it is complete. A batch that a crash interrupted is done again with
    the same number and the same notices, and so is its file.

    Parameters
    ----------
    folder : Path
        Named ``....parquet`` or ``....jsonl``, which says what the files hold.
    """

    def __init__(self, folder: Path) -> None:
        self._suffix = folder.suffix.lower()
        if self._suffix not in (".parquet", ".jsonl"):
            raise UnwritableFileError(
                f"{folder}: notices are written as .parquet or .jsonl; name the folder so"
            )
        if folder.exists() and not folder.is_dir():
            raise UnwritableFileError(f"{folder} is a file; name a folder for the batches")
        self._folder = folder

    def expect_new(self) -> None:
        """Raise if the folder has the notices of another run."""
        if self._folder.exists() and any(_NAME.fullmatch(p.name) for p in self._folder.iterdir()):
            raise UnwritableFileError(
                f"{self._folder} has notices already, and this run starts anew; name another"
                " folder, or give the checkpoint of the run that wrote them"
            )

    def write(self, notices: pa.Table, number: int) -> None:
        """Write the notices of a batch; without any there is no file."""
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"batch-{number:012}{self._suffix}"
        if not notices.num_rows:
            path.unlink(missing_ok=True)
            return
        unfinished = path.with_name(f".{path.name}{self._suffix}")
        with open_writer(unfinished) as writer:
            writer.write(notices)
        unfinished.replace(path)
