"""Files of events in sections that are read apart from each other.

A runtime that reads on several cores, and reads again after a crash, needs pieces that it can name.
`everquery.sources.section_events` reads them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from everquery.errors import UnreadableFileError
from everquery.sources.blocks import end_of_lines
from everquery.sources.formats import Format, explained, format_of, packing_of

SECTION_BYTES = 32 << 20
WHOLE = ("arrow", "json")  # formats that are read from the beginning to the end


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a file.

    Attributes
    ----------
    path : str
    form : {"parquet", "arrow", "csv", "jsonl", "json"}
    begin, end : int
        Row groups of Parquet, bytes of lines; of other files the whole.
    size : int
        About how many bytes it is.
    file_bytes, changed : int
        The size of the file, and when it was changed last, in nanoseconds: as they were when it was
        found. -1 where that was not noted.
    """

    path: str
    form: Format
    begin: int
    end: int
    size: int
    file_bytes: int = -1
    changed: int = -1

    def check_unchanged(self) -> None:
        """Raise if the file is not the one that was found."""
        if self.changed < 0:
            return
        try:
            status = Path(self.path).stat()
        except OSError as error:
            raise UnreadableFileError(
                f"{self.path} is to be read, and it is gone ({error.strerror}); put it back as it"
                " was, with its time of change"
            ) from error
        if (status.st_size, status.st_mtime_ns) != (self.file_bytes, self.changed):
            raise UnreadableFileError(
                f"{self.path} has changed since it was found: it had {self.file_bytes:,} bytes and"
                f" has {status.st_size:,}, or its time of change is another. Events that were read"
                " can't be read again from it; put it back as it was, with its time of change"
            )


def sections_of(path: Path) -> Iterator[Section]:
    """Yield the sections of a file, in order.

    Raises
    ------
    UnreadableFileError
        If it is of no known format, or damaged as far as can be seen.
    """
    form = format_of(path)
    with explained(path):
        status = path.stat()  # before anything is read: a later change is then found
    if form == "parquet":
        ranges = _row_groups(path)
    elif form in WHOLE or packing_of(path) is not None:
        ranges = iter([(0, status.st_size, status.st_size)])
    else:
        ranges = _lines(path, form)
    for begin, end, size in ranges:
        yield Section(str(path), form, begin, end, size, status.st_size, status.st_mtime_ns)


def _row_groups(path: Path) -> Iterator[tuple[int, int, int]]:
    """Yield begin, end and bytes of runs of row groups."""
    with explained(path):
        metadata = pq.read_metadata(path)
    begin = size = 0
    for group in range(metadata.num_row_groups):
        size += metadata.row_group(group).total_byte_size
        if size >= SECTION_BYTES or group == metadata.num_row_groups - 1:
            yield begin, group + 1, size
            begin, size = group + 1, 0


def _lines(path: Path, form: Format) -> Iterator[tuple[int, int, int]]:
    """Yield begin, end and bytes of runs of lines."""
    begin, data = 0, b""
    with explained(path), path.open("rb") as file:
        while True:
            more = file.read(SECTION_BYTES)
            data += more
            cut = end_of_lines(data, form) if more else len(data)
            if cut:
                yield begin, begin + cut, cut
                begin, data = begin + cut, data[cut:]
            if not more:
                return
