"""``EMIT EVERY 3 EVENTS``."""

from __future__ import annotations

from typing import Any

from everquery.queries.sql.clause import Clause
from everquery.queries.sql.cursor import Cursor
from everquery.queries.sql.options import read_number
from everquery.stream import Stream
from tests.conformance.toy.spec import NTH, Nth


class NthClause(Clause):
    """``EMIT EVERY 3 EVENTS``."""

    words = ("EVERY",)
    further = ("EVENTS",)

    def read(self, cursor: Cursor, stream: Stream) -> dict[str, Any]:
        """Read the number."""
        cursor.expect("EVERY")
        nth = read_number(cursor, NTH)
        cursor.expect("EVENTS")
        return {"nth": nth}

    def print(self, query: Nth, stream: Stream) -> str:
        """Return what follows ``EMIT``."""
        return f"EVERY {query.nth} EVENTS"
