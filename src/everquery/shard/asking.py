"""Questions that live queries answer at any time; their kinds have the answers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from everquery.errors import InvalidQueryError
from everquery.index.flags import option_flags
from everquery.kinds import Kind
from everquery.kinds.answer import Asked, AskedQuery
from everquery.shard.contents import Contents
from everquery.shard.query_set import QuerySet


def ask_query(
    contents: Contents, queries: QuerySet, question: str, query_id: str, said: Mapping[str, Any]
) -> Any:  # noqa: ANN401 - as the kind answers
    """Return the answer of a live query to a question of its kind.

    Raises
    ------
    UnknownQueryError
        If no live query has this id.
    InvalidQueryError
        If queries of its kind have no answer.
    """
    queries.settle()
    slot = contents.catalog.slot(str(query_id))
    kind = contents.kinds[contents.kind_of(slot)]
    if question not in kind.questions:
        able = [each for each in contents.kinds.values() if question in each.questions]
        *most, last = (each.name for each in able)
        others = f"{', '.join(most)} and {last}" if most else last
        raise InvalidQueryError(
            f"query {query_id!r} is a {kind.name} query; only {others} queries"
            f" {able[0].questions[question].says}"
        )
    options = _options(kind.spec.options, int(contents.catalog.flags[slot]))
    query = AskedQuery(query_id, slot, options)
    return kind.questions[question].ask(_asked(contents, kind), query, **said)


@lru_cache(1_024)
def _options(names: tuple[str, ...], flags: int) -> Mapping[str, bool]:
    """Return which options of a kind are set; nobody writes into what is returned."""
    return {name: bool(flags & flag) for name, flag in option_flags(names).items()}


def ask_kind(contents: Contents, question: str, said: Mapping[str, Any]) -> Any:  # noqa: ANN401 - as above
    """Return the answer to a question that is about all queries of the kind that answers it."""
    kind = kind_of_question(contents, question)
    return kind.questions[question].ask(_asked(contents, kind), **said)


def kind_of_question(contents: Contents, question: str) -> Kind:
    """Return the kind that answers a question about all its queries."""
    return next(each for each in contents.kinds.values() if question in each.questions)


def asked_by(contents: Contents, question: str) -> Asked:
    """Return what the answers to a question may use."""
    return _asked(contents, kind_of_question(contents, question))


def _asked(contents: Contents, kind: Kind) -> Asked:
    admission = contents.admission
    return Asked(
        contents.stream,
        contents.indexes[kind.name],
        contents.keys.find,
        contents,
        contents.keys.arrow,
        admission.now,
        admission.time_type,
    )
