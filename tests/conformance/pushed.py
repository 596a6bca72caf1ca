"""The embedded runtime, given one event at a time."""

from __future__ import annotations

import pyarrow as pa

import everquery as eq


class Pushed(eq.Engine):
    """An engine whose batches are pushed event by event; with a clock they are batches as ever."""

    def process(self, batch, *, now=None):
        """Return the notices of all events as one table."""
        # What can't be taken in alone, `push` makes a list of one.
        if isinstance(batch, list) or now is not None or not batch.num_rows:
            return super().process(batch, now=now)
        told = []
        for event in batch.to_pylist():
            rows = [notice.as_dict() for notice in self.push(event)]
            for row in rows:
                row["notice_id"] = bytes.fromhex(row["notice_id"])
            told.append(pa.Table.from_pylist(rows, schema=self._shard.schema()))
        return pa.concat_tables(told, promote_options="permissive")
