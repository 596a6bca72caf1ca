"""Which files have been found, in which order: noted before the first of their events is read.

A number of sections then says exactly which events are meant, today and after a crash. Files in
folders are taken in the order of their names, those that come later behind them.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

from everquery.errors import UnreadableFileError
from everquery.sources.formats import KNOWN_NAMES, explained, is_known
from everquery.sources.sections import Section, sections_of

SETTLED_SECONDS = 0.5  # for which a text has not changed, so that it is taken to be finished

_PARQUET_END = b"PAR1"


class FolderJournal:
    """The sections of some files and folders, in a file that only grows: a line for each of them.

    Several programs may follow one journal: each reads what others have noted before it looks.

    Parameters
    ----------
    path : Path
        Of the journal.
    inputs : sequence of Path
        Files, and folders whose files of a known suffix are taken.

    Attributes
    ----------
    sections : list of Section
    name : str
        Drawn when the journal was begun; numbers of sections are of no other journal.
    """

    def __init__(self, path: Path, inputs: Sequence[Path]) -> None:
        self._path = path
        self._inputs = list(inputs)
        self._seen: set[str] = set()
        self._looks: dict[Path, tuple[tuple[int, int], float]] = {}  # and since when it is so
        self._read = 0  # bytes of the journal
        self.sections: list[Section] = []
        self.name = ""
        with explained(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        with self._alone() as file:
            if not self.name and not self.sections:
                self.name = uuid4().hex
                self._write(file, {"journal": self.name})

    @contextmanager
    def _alone(self) -> Iterator[BinaryIO]:
        """Have the journal to oneself, up to date."""
        with explained(self._path), self._path.open("rb+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if file.seek(0, os.SEEK_END) < self._read:
                raise UnreadableFileError(
                    f"{self._path} has been cut while it was followed: which files were read is"
                    " unknown after the next start; put back the journal as it was"
                )
            file.seek(self._read)
            text = file.read()
            whole = text[: text.rfind(b"\n") + 1]
            for line in whole.splitlines():
                self._note(line)
            self._read += len(whole)
            if whole != text:  # a crash has cut the last line
                file.truncate(self._read)
                file.seek(self._read)
            yield file

    def _note(self, line: bytes) -> None:
        try:
            found = json.loads(line)
            if isinstance(found, dict):
                self.name = found["journal"]
                return
            sections = [Section(**section) for section in found]
        except (ValueError, TypeError, KeyError) as error:
            raise UnreadableFileError(
                f"{self._path} is no journal of files, or it is damaged: {line[:80]!r}; put back"
                " the journal as it was, or begin with a new one and a new checkpoint"
            ) from error
        self.sections += sections
        self._seen.update(section.path for section in sections)

    def _write(self, file: BinaryIO, noted: dict[str, str] | list[dict[str, Any]]) -> None:
        """Write a line: all sections of a file, or none if there is a crash."""
        text = json.dumps(noted).encode() + b"\n"
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
        self._read += len(text)

    def look(self, *, finished: bool) -> None:
        """Note the files that are new.

        Parameters
        ----------
        finished : bool
            Whether to leave out files that have changed in the last half second: who writes them
            may not be done. Empty files are left out in any case.
        """
        if not self._new_files():
            return
        with self._alone() as file:
            for path in self._new_files():
                if not (self._is_finished(path) if finished else not _is_empty(path)):
                    continue
                found = list(sections_of(path.resolve()))
                self._write(file, [asdict(section) for section in found])
                self.sections += found
                self._seen.add(str(path.resolve()))

    def _new_files(self) -> list[Path]:
        return [path for path in files_of(self._inputs) if str(path.resolve()) not in self._seen]

    def _is_finished(self, path: Path) -> bool:
        """Tell whether a file has its end, if it is Parquet; else whether it is as it was."""
        try:
            status = path.stat()
            if not status.st_size:
                return False
            if (ended := _ends_as_parquet(path)) is not None:
                return ended
        except OSError:
            return False  # gone again
        look, now = (status.st_size, status.st_mtime_ns), time.monotonic()
        before, since = self._looks.get(path, (None, now))
        self._looks[path] = look, since if look == before else now
        return look == before and now - since >= SETTLED_SECONDS


def _is_empty(path: Path) -> bool:
    return path.exists() and not path.stat().st_size


def _ends_as_parquet(path: Path) -> bool | None:
    """Tell whether a file has the end that is written last; None if it does not begin as one."""
    with path.open("rb") as file:
        if file.read(len(_PARQUET_END)) != _PARQUET_END:
            return None
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - len(_PARQUET_END)))
        return size > 2 * len(_PARQUET_END) and file.read() == _PARQUET_END


def files_of(inputs: Sequence[Path]) -> Iterator[Path]:
    """Yield the files, and those in folders by name; hidden and unknown ones are left alone."""
    for path in inputs:
        if path.is_dir():
            yield from (each for each in in_folder(path) if is_known(each) and not each.is_dir())
        else:
            yield path


def in_folder(path: Path) -> list[Path]:
    """Return what is in a folder by name, without what is hidden or begins with ``_``."""
    return sorted(each for each in path.iterdir() if not each.name.startswith((".", "_")))


def first_file(inputs: Sequence[Path], *, wait: Callable[[], bool] | None) -> Path:
    """Return the first file that has anything in it.

    Parameters
    ----------
    inputs : sequence of Path
    wait : function, optional
        Called while there is none; it waits, and tells whether to look again.

    Raises
    ------
    UnreadableFileError
        If there is none.
    """
    while True:
        for path in files_of(inputs):
            if not path.exists() or path.stat().st_size:
                return path
        if wait is None or not wait():
            raise UnreadableFileError(
                f"there is no file of events in {', '.join(map(str, inputs))};"
                f" known are {KNOWN_NAMES}"
            )
