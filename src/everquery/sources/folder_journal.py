"""Which files have been found, in which order: noted before the first of their events is read.

A number of sections then says exactly which events are meant, today and after a crash. Files in
folders are taken in the order of their names, those that come later behind them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from everquery.errors import UnreadableFileError
from everquery.sources.formats import KNOWN_NAMES, is_known
from everquery.sources.sections import Section, sections_of


class FolderJournal:
    """The sections of some files and folders, in a file that only grows.

    Parameters
    ----------
    path : Path
        Of the journal.
    inputs : sequence of Path
        Files, and folders whose files of a known suffix are taken.

    Attributes
    ----------
    sections : list of Section
    """

    def __init__(self, path: Path, inputs: Sequence[Path]) -> None:
        self._path = path
        self._inputs = list(inputs)
        self._seen: set[str] = set()
        self._looks: dict[Path, tuple[int, int]] = {}
        self.sections: list[Section] = []
        self._load()

    def _load(self) -> None:
        if not self._path.exists():
            return
        text = self._path.read_bytes()
        whole = text[: text.rfind(b"\n") + 1]  # a crash may have cut the last line
        if whole != text:
            with self._path.open("rb+") as file:
                file.truncate(len(whole))
        for line in whole.splitlines():
            self.sections.append(Section(**json.loads(line)))
            self._seen.add(self.sections[-1].path)

    def look(self, *, finished: bool) -> None:
        """Note the files that are new.

        Parameters
        ----------
        finished : bool
            Whether to leave out files that have changed since the last look: who writes them may
            not be done.
        """
        fresh = [path for path in files_of(self._inputs) if str(path.resolve()) not in self._seen]
        for path in fresh:
            if finished and not self._is_finished(path):
                continue
            found = list(sections_of(path.resolve()))
            self._append(found)
            self._seen.add(str(path.resolve()))

    def _is_finished(self, path: Path) -> bool:
        try:
            status = path.stat()
        except OSError:
            return False  # gone again
        look = status.st_size, status.st_mtime_ns
        same = self._looks.get(path) == look
        self._looks[path] = look
        return same and status.st_size > 0

    def _append(self, found: list[Section]) -> None:
        lines = "".join(json.dumps(asdict(section)) + "\n" for section in found)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(lines)
            file.flush()
            os.fsync(file.fileno())
        self.sections += found


def files_of(inputs: Sequence[Path]) -> Iterator[Path]:
    """Yield the files, and those in folders by name; hidden and unknown ones are left alone."""
    for path in inputs:
        if path.is_dir():
            yield from (each for each in in_folder(path) if is_known(each))
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
