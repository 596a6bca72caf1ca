"""``SELECT columns FROM r [, s] WHERE ... BEGIN ... END ... [EMIT ...]``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from everquery.kinds.select.fitting import misfit, misfit_of_other
from everquery.kinds.select.plan import print_plan
from everquery.kinds.select.reader import read_select
from everquery.kinds.select.spec import Select
from everquery.queries.sql.clause import Clause
from everquery.queries.sql.cursor import Cursor
from everquery.queries.sql.options import print_options, read_options
from everquery.queries.sql.printer import print_interval
from everquery.queries.sql.quotes import print_name, print_string
from everquery.stream import Stream


class SelectClause(Clause):
    """A statement of its own: it has a window, and need not tell anything."""

    words = ()
    mark = "END"
    shape = "BEGIN ... END ..."
    further = ("BEGIN", "NOW", "OLDEST", "ROWS", "DISTINCT", "GROUP", "BY", "HAVING", "MATCHES")

    def read(self, cursor: Cursor, stream: Stream) -> dict[str, Any]:
        """Read what is told; `read_statement` has read the rest."""
        return {"tell": cursor.choose(("MATCHES", "CHANGES")).lower()}

    def print(self, query: Select, stream: Stream) -> str:
        """Return what follows ``EMIT``."""
        return query.tell.upper()

    def read_statement(
        self, cursor: Cursor, read_stream: Callable[[], Stream]
    ) -> tuple[Stream, dict[str, Any]]:
        """Read what follows ``SELECT``; return the stream and the fields of the spec."""
        place = cursor.token
        plan, condition, names = read_select(cursor, read_stream)
        stream = names.streams[0]
        reason = misfit(plan, stream)
        if reason is None and plan.joins:
            reason = misfit_of_other(plan, names.streams[1], stream)
        if reason:
            cursor.fail(reason, place)
        fields: dict[str, Any] = {
            "plan": print_plan(plan),
            "box": condition.box,
            "key": condition.key,
        }
        if cursor.accept("EMIT"):
            fields |= self.read(cursor, stream)
        if cursor.accept("WITH"):
            read_options(cursor, Select, fields)
        return stream, fields

    def print_statement(self, query: Select, stream: Stream) -> str:
        """Return all that follows ``AS``."""
        plan = query.parsed
        whose = f"{print_name(plan.sources[0].alias)}." if plan.joins else ""
        conditions = []
        if query.key is not None and stream.key is not None:
            key = print_string(query.key) if isinstance(query.key, str) else str(query.key)
            conditions.append(f"{whose}{print_name(stream.key)} = {key}")
        for attribute, interval in query.said_box.items():
            conditions.append(print_interval(f"{whose}{print_name(attribute)}", interval))
        text = print_plan(plan, stream=stream.name, conditions=tuple(conditions))
        told = "" if query.tell == "nothing" else f"\nEMIT {self.print(query, stream)}"
        return f"{text}{told}{print_options(query)}"
