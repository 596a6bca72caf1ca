"""``EMIT ENTER, LEAVE``."""

from __future__ import annotations

from typing import Any

from everquery.kinds.border.spec import Border
from everquery.queries.sql.clause import Clause
from everquery.queries.sql.cursor import Cursor
from everquery.stream import Stream


class BorderClause(Clause):
    """``EMIT ENTER``, ``LEAVE``, or both in any order."""

    words = ("ENTER", "LEAVE")

    def read(self, cursor: Cursor, stream: Stream) -> dict[str, Any]:
        """Read which crossings are told."""
        first = cursor.choose(self.words)
        if cursor.accept(","):
            cursor.expect("LEAVE" if first == "ENTER" else "ENTER")
            return {}
        return {"emit": (first.lower(),)}

    def print(self, query: Border, stream: Stream) -> str:
        """Return what follows ``EMIT``."""
        return ", ".join(query.emit).upper()
