"""The part of notices about the past that are told with the next step."""

from __future__ import annotations

import pyarrow as pa

from everquery.core.arrays import Array
from everquery.core.arrow_bytes import checked_table, table_bytes
from everquery.core.invariants import refuse
from everquery.core.parts import Part, Saved
from everquery.shard.shard import Shard


class UntoldPart(Part):
    """Notices as an Arrow stream of plain columns; nothing where there are none."""

    name = "untold"

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._was_empty = True

    def whole(self) -> Saved:
        """Return all notices that wait."""
        untold = self._shard.teller.untold
        self._was_empty = not untold
        if self._was_empty:
            return Saved()
        table = pa.concat_tables(untold, promote_options="default")
        return Saved(strings={"notices": table_bytes(table)})

    def changes(self) -> Saved | None:
        """Return all of them; None if there are none, and were none."""
        return None if self._was_empty and not self._shard.teller.untold else self.whole()

    def load(self, saved: Saved) -> None:
        """Check and take over the notices that waited."""
        if saved.arrays or saved.values or not saved.strings.keys() <= {"notices"}:
            refuse("notices that are not told yet are something else than one table")
        self._shard.teller.untold = []
        if saved.strings:
            table = checked_table(saved.strings["notices"], "notices that are not told yet")
            self._check(table)
            self._shard.teller.untold = [table]

    def _check(self, table: pa.Table) -> None:
        known = self._shard.schema()
        for field in table.schema:
            if field.name not in known.names:
                continue  # the column of a kind that has no query here any more
            kind = known.field(field.name).type
            plain = kind.value_type if pa.types.is_dictionary(kind) else kind
            if field.type not in (plain, pa.null()):
                refuse(f"notices that are not told yet have {field.name!r} as {field.type}")
        if "query_id" not in table.column_names or table["query_id"].null_count:
            refuse("notices that are not told yet lack their queries")

    def may_be_missing(self) -> bool:
        """Tell that a snapshot of an everquery that did not have it is fine."""
        return True

    def adopt(self, saved: Saved, queries: Array) -> None:
        """Take over nothing: see `everquery.shard.past`."""
