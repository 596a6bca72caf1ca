"""Text in blocks of whole lines, from files and pipes."""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Iterator
from typing import BinaryIO

from everquery.sources.formats import BLOCK_BYTES, LOOK_SECONDS, Format

More = Callable[[int], tuple[bytes, bool] | None]
"""Takes a number of bytes; returns so many, or those that are at hand, and whether they are the
last. None if nobody wants them any more."""


def of_file(file: BinaryIO) -> More:
    """Return what reads a file to its end."""

    def more(room: int) -> tuple[bytes, bool]:
        data = file.read(room)
        return data, len(data) < room

    return more


def of_pipe(descriptor: int, stop: Callable[[], bool]) -> More:
    """Return what reads a pipe as it is filled, until told to stop."""

    def more(room: int) -> tuple[bytes, bool] | None:
        data = bytearray()
        while len(data) < room:
            # Wait for the first bytes only: what is there is a batch.
            if not data:
                while not select.select([descriptor], [], [], LOOK_SECONDS)[0]:
                    if stop():
                        return None
            elif not select.select([descriptor], [], [], 0)[0]:
                break
            chunk = os.read(descriptor, room - len(data))
            if not chunk:
                return bytes(data), True
            data += chunk
        return bytes(data), False

    return more


def blocks_of_lines(more: More, form: Format, *, done: int = 0) -> Iterator[tuple[bytes, int]]:
    """Yield whole lines as they come, and how many bytes have been read with them.

    Of a file, where a block ends depends only on where it begins: who goes on behind a block gets
    the blocks that would have come.

    Parameters
    ----------
    done : int
        How many bytes are behind us already.
    """
    rest, ended = b"", False
    while not ended:
        read = more(BLOCK_BYTES - len(rest) if len(rest) < BLOCK_BYTES else BLOCK_BYTES)
        if read is None:
            return
        data, ended = read
        whole = rest + data
        cut = len(whole) if ended else end_of_lines(whole, form)
        block, rest = whole[:cut], whole[cut:]
        done += len(block)
        if block.strip():
            yield block, done


def end_of_lines(data: bytes, form: Format) -> int:
    """Return where the last whole line ends; in CSV a line break may be inside quotes."""
    cut = data.rfind(b"\n") + 1
    while form == "csv" and cut and data.count(b'"', 0, cut) % 2:
        cut = data.rfind(b"\n", 0, cut - 1) + 1
    return cut
