"""Where notices go: files, and lines of text."""

from everquery.sinks.files import (
    BackgroundWriter,
    JsonLinesWriter,
    NoticeWriter,
    ParquetWriter,
    TextWriter,
    open_writer,
)
from everquery.sinks.lines import as_json_lines, as_text_lines

__all__ = [
    "BackgroundWriter",
    "JsonLinesWriter",
    "NoticeWriter",
    "ParquetWriter",
    "TextWriter",
    "as_json_lines",
    "as_text_lines",
    "open_writer",
]
