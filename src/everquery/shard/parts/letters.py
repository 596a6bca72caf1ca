"""The part of dead letters: how many were refused for which reason, and the latest of them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from everquery.core.arrays import Array
from everquery.core.arrow_bytes import checked_table, table_bytes
from everquery.core.framing import NewerError
from everquery.core.invariants import check_count, of_type, refuse
from everquery.core.parts import Part, Saved
from everquery.shard.shard import Shard
from everquery.state.dead_letters import KEPT
from everquery.state.events import REASONS


class LettersPart(Part):
    """Counts by reason, and the kept letters as an Arrow stream."""

    name = "letters"

    def __init__(self, shard: Shard) -> None:
        self._contents = shard.contents
        self._counts: dict[str, int] | None = None  # as they were committed, where none is kept

    def whole(self) -> Saved:
        """Return counts and letters."""
        self.mark_committed()
        letters = self._contents.dead_letters
        strings = {"kept": table_bytes(letters.table())}
        return Saved({"counts": letters.by_reason()}, strings=strings)

    def changes(self) -> Saved | None:
        """Return all of it, if there is anything new."""
        before = self._counts
        self.mark_committed()
        return None if before is not None and before == self._counts else self.whole()

    def mark_committed(self) -> None:
        """Note the counts."""
        letters = self._contents.dead_letters
        self._counts = None if len(letters) else letters.by_reason()

    def adopt(self, saved: Saved, queries: Array) -> None:
        """Take over nothing: they are not those of queries."""

    def load(self, saved: Saved) -> None:
        """Check and take over counts and letters."""
        counts = of_type(saved.values, "counts", dict)
        for reason, count in counts.items():
            check_count(f"refused because of {reason[:80]!r}", count)
            if reason not in REASONS[1:]:
                raise NewerError(f"has a reason {reason[:80]!r} that this everquery does not know")
        if saved.strings.keys() != {"kept"} or saved.arrays:
            refuse("dead letters are something else than one table")
        kept = checked_table(saved.strings["kept"], "dead letters")
        if kept.num_rows > KEPT:
            refuse(f"it keeps {kept.num_rows} dead letters")
        self._check_schema(kept.schema)
        self._contents.dead_letters.load(counts, kept)

    def _check_schema(self, schema: pa.Schema) -> None:
        """Raise if columns are not those that `everquery.state.dead_letters` keeps."""
        stream, time = self._contents.stream, self._contents.admission.time_type
        if schema.names != ["position", "reason", "detail", "key", "time", *stream.attributes]:
            refuse("dead letters have other columns")
        allowed: dict[str, tuple[Any, ...]] = {
            "position": (pa.int64(),),
            "reason": (pa.string(),),
            "detail": (pa.string(),),
            "key": (pa.string(), pa.large_string(), pa.int64(), pa.null()),
            "time": (pa.null(), pa.int64()) if time is None else (pa.null(), time),
        }
        for field in schema:
            if field.type not in allowed.get(field.name, (pa.float64(),)):
                refuse(f"dead letters have {field.name!r} as {field.type}")
