"""A JSON array as JSON lines, so that both are read in one way."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from everquery.errors import UnreadableFileError
from everquery.sources.formats import BATCH_ROWS, BOM, first_line


def array_as_lines(path: Path) -> Iterator[tuple[bytes, float]]:
    """Yield the elements of a file's array as blocks of lines, and which share of them is out.

    The file is read whole: where an array ends is known at its end only.

    Raises
    ------
    UnreadableFileError
        If it is no array.
    """
    try:
        elements = json.loads(path.read_bytes().removeprefix(BOM))
    except (ValueError, RecursionError) as error:
        raise UnreadableFileError(
            f"{path} begins as a JSON array, but is not JSON ({first_line(error)}); give a whole"
            " array, or one object a line"
        ) from None
    for first in range(0, len(elements), BATCH_ROWS):
        block = elements[first : first + BATCH_ROWS]
        lines = "".join(json.dumps(element) + "\n" for element in block)
        yield lines.encode(), (first + len(block)) / len(elements)
