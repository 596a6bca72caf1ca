"""The kinds of query that are known: by name, what a user writes and how SQL says it.

`everquery.kinds.register` fills this. Code that reads SQL, tables or a registry asks here, and
names no kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from everquery.errors import InvalidQueryError
from everquery.queries.fields import AttributeField
from everquery.queries.numbers import MeasuredField, NumberField
from everquery.queries.spec import Query

if TYPE_CHECKING:
    from everquery.queries.sql.clause import Clause


@dataclass(frozen=True, slots=True)
class Known:
    """What code that reads and writes queries must know of a kind.

    Attributes
    ----------
    spec : type
        What a user writes.
    clause : Clause
        How SQL says it.
    """

    spec: type[Query]
    clause: Clause


KNOWN: dict[str, Known] = {}


def spec_of(kind: str) -> type[Query]:
    """Return the spec of a kind.

    Raises
    ------
    InvalidQueryError
        If there is no such kind.
    """
    if kind not in KNOWN:
        raise InvalidQueryError(f"kind is {kind!r}; it takes one of {', '.join(KNOWN)}")
    return KNOWN[kind].spec


def known_specs() -> tuple[type[Query], ...]:
    """Return the specs of all kinds, in the order in which these were registered."""
    return tuple(known.spec for known in KNOWN.values())


def know(spec: type[Query], clause: Clause) -> None:
    """Take note of a kind, whose fields and words must fit those of the others.

    Raises
    ------
    InvalidQueryError
        If another kind has its name, a word of its clause, or a field of another type.
    """
    kind = spec.kind
    types = {field.name: _type_of(field) for field in spec.fields}
    for name, other in KNOWN.items():
        if name == kind:
            if other.spec is spec:
                return
            raise InvalidQueryError(f"there is a kind {kind!r} already: {other.spec.__name__}")
        words = set(clause.words) & set(other.clause.words)
        alike = clause.selects == other.clause.selects
        if alike and (words or clause.selects is not None):
            word = min(words, default=clause.selects)
            raise InvalidQueryError(f"in SQL, {word} means {name} queries already, not {kind} ones")
        for field in other.spec.fields:
            if field.name in types and _type_of(field) != types[field.name]:
                raise InvalidQueryError(
                    f"{field.name} is a field of {name} queries too, and of another type there"
                )
    KNOWN[kind] = Known(spec, clause)


def _type_of(field: object) -> tuple[type, bool | None, bool | None]:
    if isinstance(field, MeasuredField):
        return AttributeField, None, None  # both name an attribute
    plain = isinstance(field, NumberField) and not field.is_text  # whatever stands for its values
    kind = NumberField if plain else type(field)
    return kind, getattr(field, "whole", None), getattr(field, "several", None)
