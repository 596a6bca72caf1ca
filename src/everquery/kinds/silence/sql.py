"""``EMIT SILENT AFTER INTERVAL '10' MINUTE``."""

from __future__ import annotations

from typing import Any

from everquery.kinds.silence.spec import Silence
from everquery.queries.sql.clause import Clause
from everquery.queries.sql.cursor import Cursor
from everquery.queries.sql.literals import print_span
from everquery.stream import Stream


class SilenceClause(Clause):
    """``EMIT SILENT AFTER`` a span of time."""

    words = ("SILENT",)
    further = ("AFTER", "INTERVAL")

    def read(self, cursor: Cursor, stream: Stream) -> dict[str, Any]:
        """Read how long a key is waited for."""
        place = cursor.token
        cursor.expect("SILENT", "AFTER")
        if stream.time is None:
            cursor.fail(f"stream {stream.name!r} has no time to tell how long a key is", place)
        return {"after": cursor.span()}

    def print(self, query: Silence, stream: Stream) -> str:
        """Return what follows ``EMIT``."""
        assert not isinstance(query.after, str)  # it has been read
        return f"SILENT AFTER {print_span(query.after)}"
