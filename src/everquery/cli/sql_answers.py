"""What SQL statements have done, in a line for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from everquery.cli.output import counted
from everquery.queries.sql import (
    AlterQuery,
    AlterStream,
    CreateQuery,
    CreateStream,
    DropQuery,
    DropStream,
    SetQuota,
    Statement,
)
from everquery.sinks.lines import shown


def answers(statements: Iterable[Statement]) -> Iterator[str]:
    """Yield what statements did; those of one sort that follow each other are one line.

    Examples
    --------
    >>> list(answers([DropQuery("a"), DropQuery("b")])), list(answers([AlterQuery("a", "pause")]))
    (['2 queries dropped'], ['query a paused'])
    """
    told = [each for each in map(_told, statements) if each is not None]
    for (noun, verb), group in groupby(told, lambda each: each[:2]):
        names = [name for _, _, name in group]
        plural = "queries" if noun == "query" else f"{noun}s"
        subject = (
            f"{noun} {shown(names[0])}" if len(names) == 1 else counted(len(names), noun, plural)
        )
        yield f"{subject} {verb}"


def _told(statement: Statement) -> tuple[str, str, str] | None:
    """Return what was changed, how, and its name; None for a statement that shows something."""
    match statement:
        case CreateStream(stream):
            return "stream", "created", stream.name
        case AlterStream(name):
            return "stream", "altered", name
        case DropStream(name):
            return "stream", "dropped", name
        case CreateQuery(_, query, replace):
            return "query", "created or replaced" if replace else "created", query.id
        case DropQuery(query_id):
            return "query", "dropped", query_id
        case AlterQuery(query_id, action):
            return "query", "paused" if action == "pause" else "resumed", query_id
        case SetQuota(owner, limit):
            verb = "removed" if limit is None else f"set to {limit:,}"
            return "quota", verb, "for all others" if owner is None else f"of {owner}"
    return None
