"""Lines of CSV as columns of text."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.csv

from everquery.errors import UnreadableFileError


def take_header(block: bytes, where: str) -> tuple[list[str], bytes]:
    """Return the names of the columns, and what is behind them."""
    _check_text(block, 1, where)
    found = re.search(rb"\r\n|\n|\r", block)
    end = found.end() if found else len(block)
    options = pa.csv.ReadOptions(use_threads=False)
    names = pa.csv.read_csv(io.BytesIO(block[:end]), read_options=options).column_names
    return [name.strip() for name in names], block[end:]


def csv_texts(
    block: bytes,
    header: list[str],
    wanted: list[str],
    skip: Callable[[tuple[int, str]], None],
    line: int,
    where: str,
) -> pa.Table:
    """Return the wanted columns of lines of CSV as strings, null where empty.

    Parameters
    ----------
    skip : function
        Hears of each record that is left out, because it has too few or too many columns: its
        number in this block, from 0, and the reason. Empty lines are no records.
    line : int
        The number of the block's first line.
    """
    _check_text(block, line, where)
    kinds = dict.fromkeys(wanted, pa.string())
    if not block.strip():
        return pa.schema(list(kinds.items())).empty_table()

    def left_out(row: Any) -> str:  # noqa: ANN401 - pyarrow's InvalidRow
        skip((row.number - 1, f"it has {row.actual_columns} columns, not {row.expected_columns}"))
        return "skip"

    return pa.csv.read_csv(
        io.BytesIO(block),
        read_options=pa.csv.ReadOptions(
            column_names=header, use_threads=False, block_size=max(len(block) + 1, 1 << 16)
        ),
        parse_options=pa.csv.ParseOptions(newlines_in_values=True, invalid_row_handler=left_out),
        convert_options=pa.csv.ConvertOptions(
            column_types=kinds,
            include_columns=wanted,
            null_values=[""],
            strings_can_be_null=True,
        ),
    )


def line_of(block: bytes, record: int) -> int:
    """Return the line, from 0, on which a record of CSV begins; values may hold line breaks."""
    records, quoted = -1, False
    for number, line in enumerate(block.split(b"\n")):
        if not quoted and line.strip(b"\r"):
            records += 1
            if records == record:
                return number
        quoted ^= bool(line.count(b'"') % 2)
    return 0


def _check_text(block: bytes, line: int, where: str) -> None:
    try:
        block.decode()
    except UnicodeDecodeError as error:
        at = line + block.count(b"\n", 0, error.start)
        raise UnreadableFileError(
            f"{where}: line {at:,} is not text in UTF-8 ({error.reason})"
        ) from None
