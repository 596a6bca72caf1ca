"""A JSON array as JSON lines, so that both are read in one way."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from everquery.errors import UnreadableFileError
from everquery.sources.formats import BATCH_ROWS, BOM, first_line, opened


def array_as_lines(path: Path, first: int = 0) -> Iterator[tuple[bytes, int, int]]:
    """Yield the elements of a file's array as blocks of lines, how many are out, and of how many.

    The file is read whole: where an array ends is known at its end only.

    Parameters
    ----------
    first : int
        How many elements to leave out.

    Raises
    ------
    UnreadableFileError
        If it is no array.
    """
    try:
        with opened(path) as file:
            elements = json.loads(file.read().removeprefix(BOM))
    except (ValueError, RecursionError) as error:
        raise UnreadableFileError(
            f"{path} begins as a JSON array, but is not JSON ({first_line(error)}); give a whole"
            " array, or one object a line"
        ) from None
    for at in range(first, len(elements), BATCH_ROWS):
        block = elements[at : at + BATCH_ROWS]
        lines = "".join(json.dumps(element) + "\n" for element in block)
        yield lines.encode(), at + len(block), len(elements)
