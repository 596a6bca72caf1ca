"""``EMIT MATCHES``."""

from __future__ import annotations

from typing import Any

from everquery.kinds.range.spec import Range
from everquery.queries.sql.clause import Clause
from everquery.queries.sql.cursor import Cursor
from everquery.stream import Stream


class RangeClause(Clause):
    """``EMIT MATCHES``."""

    words = ("MATCHES",)

    def read(self, cursor: Cursor, stream: Stream) -> dict[str, Any]:
        """Read ``MATCHES``."""
        cursor.expect("MATCHES")
        return {}

    def print(self, query: Range, stream: Stream) -> str:
        """Return what follows ``EMIT``."""
        return "MATCHES"
