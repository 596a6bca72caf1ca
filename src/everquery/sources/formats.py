"""What a file holds, by its content, and what is said of one that can't be read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc

from everquery.errors import UnreadableFileError

Format = Literal["parquet", "arrow", "csv", "jsonl", "json"]
HEAD_BYTES = 4_096  # that are looked at to find out what a file holds
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
PACKINGS = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}  # unpacked as they are read
PACKED_SUFFIXES = (".gz", ".zst")
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
EITHER = ".json"  # an array, or lines
KNOWN_NAMES = f"{', '.join((*SUFFIXES, EITHER))}, and of text {' and '.join(PACKED_SUFFIXES)}"
TEXTS = ("csv", "jsonl", "json")
HALF_WRITTEN = "; the input ends within this line, so it may be half written"
BOM = b"\xef\xbb\xbf"
_TOO_EARLY = ("truncated", "footer", "end of file", "end of stream", "unexpected end")
_ARRAY = re.compile(rb"\[\s*([\[{\]\"\d-]|$)")  # a header of CSV may begin with a bracket, too
_OTHER_PACKINGS = {b"PK\x03\x04": "zip", b"BZh": "bzip2", b"\xfd7zXZ": "xz"}


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
    with explained(path), opened(path) as file:
        head = file.read(HEAD_BYTES)
    if not head:
        raise UnreadableFileError(f"{path} is empty")
    found = _sniff(head)
    named = SUFFIXES.get(_suffix(path))
    packing = packing_of(path)
    if packing is not None and found not in TEXTS:
        raise UnreadableFileError(
            f"{path} is packed with {packing}, and what is in it is no text; unpack it first"
        )
    if found is None:
        packed = next((n for magic, n in _OTHER_PACKINGS.items() if head.startswith(magic)), None)
        what = f"it is packed with {packed}; unpack it first" if packed else "it is binary data"
        wanted = TITLES[named] if named else "Parquet, Arrow, CSV or JSON lines"
        raise UnreadableFileError(f"{path} is not {wanted}: {what}")
    if named is not None and named != found and not (named == "csv" and found in TEXTS):
        raise UnreadableFileError(
            f"{path} is not {TITLES[named]}, as its name says: its content looks like"
            f" {TITLES[found]}. Rename it if that is right"
        )
    return found if named is None else named


def packing_of(path: Path) -> str | None:
    """Return how a file is packed, by its content; None for one that is not."""
    with explained(path), path.open("rb") as file:
        head = file.read(max(map(len, PACKINGS)))
    return next((name for magic, name in PACKINGS.items() if head.startswith(magic)), None)


def opened(path: Path) -> BinaryIO:
    """Return a file to be read from its beginning, unpacked."""
    packing = packing_of(path)
    if packing is None:
        return path.open("rb")
    unpacked: BinaryIO = pa.CompressedInputStream(pa.OSFile(str(path)), packing)
    return unpacked


def is_known(path: Path) -> bool:
    """Tell whether a file's name says that it holds events, packed or not."""
    return _suffix(path) in (*SUFFIXES, EITHER)


def _suffix(path: Path) -> str:
    """Return the suffix that says what a file holds."""
    name = path.name.lower()
    for packed in PACKED_SUFFIXES:
        name = name.removesuffix(packed)
    return Path(name).suffix


def _sniff(head: bytes) -> Format | None:
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        return "arrow"
    if b"\0" in head or any(head.startswith(magic) for magic in _OTHER_PACKINGS):
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
    except (pa.ArrowException, OSError) as error:
        reason = getattr(error, "strerror", None) or first_line(error)
        raise UnreadableFileError(f"{path} can't be read: {reason}{_cut(reason)}") from error
    except (MemoryError, UnicodeError, OverflowError) as error:
        # What a damaged file makes of lengths and names.
        raise UnreadableFileError(
            f"{path} can't be read: {type(error).__name__} {first_line(error)}"
        ) from error


def _cut(reason: str) -> str:
    """Return what to say of a file that ends too early."""
    if not any(word in reason.lower() for word in _TOO_EARLY):
        return ""
    return ". It is cut, or still being written: take it when it is whole"


def first_line(error: BaseException) -> str:
    """Return the first line of what an error says, or its name."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
