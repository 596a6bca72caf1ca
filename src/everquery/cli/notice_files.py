"""What is in the Parquet files that the demo's job writes, read once each."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from everquery.cli.demo.counts import count_words, ended_by_firing, none_by_event


@dataclass(frozen=True, slots=True)
class _File:
    """What a file tells: notices by event, and the thresholds that have ended with one."""

    events: dict[str, int]
    ended: frozenset[str]


class NoticeFiles:
    """The files of a folder, and what is in those that have been read.

    Parameters
    ----------
    folder : Path
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[Path, _File] = {}

    def read_new(self) -> None:
        """Read the files that are new; one that is being written is read the next time."""
        there = set(self._folder.glob("*.parquet"))
        for path in self._read.keys() - there:  # of a task that did not come to its end
            del self._read[path]
        for path in there - self._read.keys():
            try:
                self._read[path] = _read(path)
            except (OSError, pa.ArrowException):
                continue

    @property
    def by_event(self) -> dict[str, int]:
        """How many notices there are, by event."""
        counts: Counter[str] = Counter(none_by_event())
        for file in self._read.values():
            counts.update(file.events)
        return dict(counts)

    @property
    def ended(self) -> frozenset[str]:
        """The ids of the thresholds that have ended with a fire."""
        return frozenset().union(*(file.ended for file in self._read.values()))


def _read(path: Path) -> _File:
    events = pq.read_table(path, columns=["event"], read_dictionary=["event"])["event"]
    counts = count_words(events)
    if not counts.get("fire"):
        return _File(counts, frozenset())
    ids = pq.read_table(path, columns=["query_id"], read_dictionary=["query_id"])["query_id"]
    notices = pa.table({"event": events, "query_id": ids})
    return _File(counts, frozenset(ended_by_firing(notices).to_pylist()))
