"""Where notices go: files, and lines of text."""

from everquery.sinks.files import (
    JsonLinesWriter,
    NoticeWriter,
    ParquetWriter,
    TextWriter,
    as_json_lines,
    as_text_lines,
    open_writer,
)

__all__ = [
    "JsonLinesWriter",
    "NoticeWriter",
    "ParquetWriter",
    "TextWriter",
    "as_json_lines",
    "as_text_lines",
    "open_writer",
]
