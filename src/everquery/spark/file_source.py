"""Files of events as a source of spans: its events never become rows of Spark.

Offsets are numbers of the sections in a journal, which notes files in the order in which they were
found, with their size and time of change. Workers read the sections themselves, and refuse a file
that is not what it was.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
)
from pyspark.sql.types import StructType

from everquery.errors import SparkError
from everquery.sources.folder_journal import FolderJournal
from everquery.spark.event_source import SpanSource, SpanStreamReader

NAME = "everquery_files"
LOOK_SHARE = 10  # of the time: a look that takes long is not repeated at once


class FileSource(SpanSource):
    """The streaming source ``everquery_files`` of spans; made by `read_files`."""

    @classmethod
    def name(cls) -> str:
        """Return the source's name."""
        return NAME

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return what hands out spans."""
        return FileStreamReader(self.options)


class FileStreamReader(SpanStreamReader):
    """Hands out the sections of a journal from offset to offset."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._inputs = [Path(name) for name in json.loads(options["inputs"])]
        self._path = Path(options["journal"])
        super().__init__(together=options["together"] == "True")
        self._most_bytes = int(options["maxBytes"])
        self._most_files = int(options["maxFiles"]) if options["maxFiles"] else None
        self._journal: FolderJournal | None = None
        self._target: int | None = None
        self._next_look = 0.0

    def initialOffset(self) -> dict[str, Any]:
        """Return the offset of a new query."""
        return {"section": 0, "journal": self._following().name}

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return how much a batch may have."""
        return ReadMaxBytes(self._most_bytes)

    def prepareForTriggerAvailableNow(self) -> None:
        """Note which files there are now."""
        journal = self._following()
        journal.look(finished=False)
        self._target = len(journal.sections)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return the end of the next batch."""
        journal = self._following()
        self._look(journal)
        first = self._number(start)
        last = len(journal.sections) if self._target is None else self._target
        if isinstance(limit, ReadAllAvailable):
            return self._offset(max(first, last))
        return self._offset(self._end(first, last))

    def _look(self, journal: FolderJournal) -> None:
        now = time.monotonic()
        if self._target is None and now >= self._next_look:
            journal.look(finished=True)
            self._next_look = now + LOOK_SHARE * (time.monotonic() - now)

    def _end(self, begin: int, last: int) -> int:
        """Return the end of a batch that begins with a section."""
        sections = self._following().sections
        end, size, files = begin, 0, set[str]()
        while end < last:
            size += sections[end].size
            files.add(sections[end].path)
            if end > begin and size > self._most_bytes:
                break
            if self._most_files is not None and len(files) > self._most_files:
                break
            end += 1
        return end

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return how much has been found."""
        return self._offset(len(self._following().sections))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the sections between two offsets."""
        sections = self._following().sections
        first, last = self._number(start), self._number(end)
        names = [asdict(section) for section in sections[first:last]]
        ahead = []
        if self._together:
            further = len(sections) if self._target is None else self._target
            ahead = [asdict(section) for section in sections[last : self._end(last, further)]]
        return self._divided(names, ahead, first)

    def _offset(self, section: int) -> dict[str, Any]:
        return {"section": section, "journal": self._following().name}

    def _number(self, offset: dict[str, Any]) -> int:
        """Return the number of a section; raise if it is none of this journal."""
        journal = self._following()
        number = int(offset["section"])
        if offset.get("journal", journal.name) != journal.name or number > len(journal.sections):
            raise SparkError(
                f"the checkpoint counts files by another journal than {self._path}, which notes"
                f" {len(journal.sections)} parts of files; put back the journal that the checkpoint"
                " was made with, or begin a new checkpoint"
            )
        return number

    def _following(self) -> FolderJournal:
        if self._journal is None:
            self._journal = FolderJournal(self._path, self._inputs)
        return self._journal
