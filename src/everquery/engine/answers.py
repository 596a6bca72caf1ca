"""Questions that live queries have answers to at any time: their kinds are asked."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from everquery.errors import InvalidQueryError
from everquery.index.flags import option_flags
from everquery.kinds import KINDS, Kind
from everquery.kinds.answer import Asked, AskedQuery
from everquery.shard import Shard


def ask_query(shard: Shard, question: str, query_id: str, **said: Any) -> Any:  # noqa: ANN401 - as the kind answers
    """Return what a live query is answered to a question of its kind.

    Raises
    ------
    UnknownQueryError
        If no live query has this id.
    InvalidQueryError
        If queries of its kind have no answer.
    """
    shard.settle()
    slot = int(shard.catalog.slots(pa.array([str(query_id)], pa.string()))[0])
    kind = KINDS[shard.contents.kind_of(slot)]
    if question not in kind.questions:
        able = [each for each in KINDS.values() if question in each.questions]
        others = " and ".join(each.name for each in able)
        raise InvalidQueryError(
            f"query {query_id!r} is a {kind.name} query; only {others} queries"
            f" {able[0].questions[question].says}"
        )
    flags = shard.catalog.flags[slot]
    options = {name: bool(flags & flag) for name, flag in option_flags(kind.spec.options).items()}
    query = AskedQuery(query_id, slot, options)
    return kind.questions[question].ask(_asked(shard, kind), query, **said)


def ask_kind(shard: Shard, question: str, *said: Any, **named: Any) -> Any:  # noqa: ANN401 - as above
    """Return the answer to a question that is about all queries of the kind that answers it."""
    shard.settle()
    kind = next(each for each in KINDS.values() if question in each.questions)
    return kind.questions[question].ask(_asked(shard, kind), *said, **named)


def _asked(shard: Shard, kind: Kind) -> Asked:
    return Asked(shard.stream, shard.indexes[kind.name], shard.keys.find)
