"""Where notices go: files, and lines of text."""

from everquery.sinks.files import (
    BackgroundWriter,
    CsvWriter,
    JsonLinesWriter,
    NoticeWriter,
    ParquetWriter,
    TextWriter,
    open_letters,
    open_writer,
)
from everquery.sinks.lines import as_json_lines, as_text_lines

__all__ = [
    "BackgroundWriter",
    "CsvWriter",
    "JsonLinesWriter",
    "NoticeWriter",
    "ParquetWriter",
    "TextWriter",
    "as_json_lines",
    "as_text_lines",
    "open_letters",
    "open_writer",
]
