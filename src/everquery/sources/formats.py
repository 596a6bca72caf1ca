"""What a file holds, by its content, and what is said of one that can't be read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc

from everquery.errors import UnreadableFileError

Format = Literal["parquet", "arrow", "csv", "jsonl", "json"]
BATCH_ROWS = 100_000
BLOCK_BYTES = 8 << 20
LOOK_SECONDS = 0.1  # how often a reader that waits for input looks whether it is to stop
TITLES: dict[str, str] = {
    "parquet": "Parquet",
    "arrow": "Arrow IPC",
    "csv": "CSV",
    "jsonl": "JSON lines",
    "json": "a JSON array",
}
SUFFIXES: dict[str, Format] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}
TEXTS = ("csv", "jsonl", "json")
BOM = b"\xef\xbb\xbf"
_ARRAY = re.compile(rb"\[\s*([\[{\]\"\d-]|$)")  # a header of CSV may begin with a bracket, too
_PACKED = {b"\x1f\x8b": "gzip", b"PK": "zip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bzip2"}


@dataclass(slots=True)
class Unreadable:
    """Lines that could not be read.

    Attributes
    ----------
    count : int
    first : str
        Where the first one is and what is wrong with it.
    """

    count: int = 0
    first: str = ""

    def note(self, line: int, reason: str) -> None:
        """Count a line."""
        if not self.count:
            self.first = f"line {line:,}: {reason}"
        self.count += 1


def format_of(path: Path) -> Format:
    """Return what a file holds, by its content.

    Raises
    ------
    UnreadableFileError
        If it is empty, of no known format, or its name says something else.
    """
    with explained(path), path.open("rb") as file:
        head = file.read(4_096)
    if not head:
        raise UnreadableFileError(f"{path} is empty")
    found = _sniff(head)
    named = SUFFIXES.get(path.suffix.lower())
    if found is None:
        packed = next((name for magic, name in _PACKED.items() if head.startswith(magic)), None)
        what = f"it is packed with {packed}; unpack it first" if packed else "it is binary data"
        wanted = TITLES[named] if named else "Parquet, Arrow, CSV or JSON lines"
        raise UnreadableFileError(f"{path} is not {wanted}: {what}")
    if named is not None and named != found and not (named == "csv" and found in TEXTS):
        raise UnreadableFileError(
            f"{path} is not {TITLES[named]}, as its name says: its content looks like"
            f" {TITLES[found]}. Rename it if that is right"
        )
    return found if named is None else named


def _sniff(head: bytes) -> Format | None:
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        return "arrow"
    if b"\0" in head or any(head.startswith(magic) for magic in _PACKED if magic != b"PK"):
        return None
    if head.startswith(b"PK\x03\x04"):
        return None
    text = head.removeprefix(BOM).lstrip()
    if text.startswith(b"{"):
        return "jsonl"
    return "json" if _ARRAY.match(text) else "csv"


@contextmanager
def explained(path: Path | str) -> Iterator[None]:
    """Turn what Arrow and the system say of a file into one line of ours."""
    try:
        yield
    except pa.ArrowException as error:
        raise UnreadableFileError(f"{path} can't be read: {first_line(error)}") from error
    except OSError as error:
        raise UnreadableFileError(
            f"{path} can't be read: {error.strerror or first_line(error)}"
        ) from error
    except (MemoryError, UnicodeError, OverflowError) as error:
        # What a damaged file makes of lengths and names.
        raise UnreadableFileError(
            f"{path} can't be read: {type(error).__name__} {first_line(error)}"
        ) from error


def first_line(error: BaseException) -> str:
    """Return the first line of what an error says, or its name."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
