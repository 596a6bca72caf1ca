"""The reference of kinds, as they declare themselves: for docstrings and the documentation."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from everquery.kinds.kind import Kind
from everquery.kinds.known import KINDS
from everquery.queries import Query
from everquery.queries.common_fields import BOX, ID, KEY
from everquery.queries.fields import (
    EventsField,
    Field,
    FlagField,
    PartsField,
    RangeField,
    declared_fields,
)
from everquery.queries.numbers import NumberField

WIDTH = 100  # of a line of a docstring

Function = TypeVar("Function", bound=Callable[..., object])


def described(function: Function) -> Function:
    """Put what kinds declare in the place of lines such as ``{columns}`` in a docstring."""
    lines = (function.__doc__ or "").splitlines()
    texts = {
        "{columns}": table_columns(),
        "{notice columns}": notice_columns(),
        "{events}": ", ".join(f"``{event}``" for event in _event_names()) + ".",
        "{kinds}": ", ".join(f"``{name}``" for name in KINDS) + ".",
    }
    written = []
    for line in lines:
        for mark, text in texts.items():
            if line.strip() == mark:
                line = textwrap.fill(
                    text,
                    WIDTH,
                    initial_indent=line.removesuffix(mark),
                    subsequent_indent=line.removesuffix(mark),
                    break_long_words=False,
                    break_on_hyphens=False,
                )
        written.append(line)
    function.__doc__ = "\n".join(written)
    return function


def table_columns() -> str:
    """Return the columns of a table of queries that only some kinds have, in a sentence each."""
    sentences = []
    for kind in KINDS.values():
        fields = (each for each in kind.spec.fields if not isinstance(each, PartsField))
        names = [_column(kind.spec, field) for field in fields]
        if names:
            sentences.append(f"Of {kind.name} queries: {', '.join(names)}.")
    return " ".join(sentences)


def notice_columns() -> str:
    """Return the columns of notices that only some kinds fill, in a sentence each."""
    sentences = []
    for kind in KINDS.values():
        names = [f"``{column.name}`` ({column.meaning})" for column in kind.index.columns]
        if names:
            sentences.append(f"Of {kind.name} queries: {', '.join(names)}.")
    return " ".join(sentences)


def _event_names() -> list[str]:
    outcomes = (outcome for kind in KINDS.values() for outcome in kind.index.outcomes)
    return list(dict.fromkeys(outcome.event for outcome in outcomes))


def _column(spec: type[Query], field: Field) -> str:
    optional = "" if is_required(spec, field) else "optional; "
    same = ""
    if isinstance(field, RangeField):
        first, second = field.columns
        return f"``{first}`` and ``{second}`` (optional; numbers, null for no limit)"
    if isinstance(field, EventsField):
        same = f"; the flags {' and '.join(f'``{name}``' for name in field.options)} say the same"
    return f"``{field.name}`` ({optional}{field.takes}{same})"


def is_required(spec: type[Query], field: Field) -> bool:
    """Tell whether each query must have a field."""
    return spec.__dataclass_fields__[field.name].default is dataclasses.MISSING


def reference(kinds: Iterable[Kind]) -> str:
    """Return the fields, events and notice columns of kinds as Markdown."""
    parts = ["## All kinds", "", *_fields(Query, (ID, BOX, *declared_fields(Query)))]
    for kind in kinds:
        parts += ["", f"## {kind.name.capitalize()}", "", _summary(kind), ""]
        if kind.spec.fields:
            parts += [*_fields(kind.spec, kind.spec.fields), ""]
        parts.append(_events(kind))
        columns = kind.index.columns
        if columns:
            parts += ["", "| column of its notices | type | meaning |", "|---|---|---|"]
            parts += [f"| `{each.name}` | {each.type} | {each.meaning} |" for each in columns]
    return "\n".join(parts) + "\n"


def _summary(kind: Kind) -> str:
    said = (kind.spec.__doc__ or "").splitlines()[0].replace("``", "`")
    words = ", ".join(f"`{word}`" for word in kind.clause.words)
    return f"`eq.{kind.spec.__name__}`. {said} In SQL, {words} after `EMIT`."


def _fields(spec: type[Query], fields: tuple[Field, ...]) -> Iterator[str]:
    yield "| field | takes | default | meaning | written |"
    yield "|---|---|---|---|---|"
    for field in fields:
        default = _default(spec, field)
        yield f"| `{field.name}` | {field.takes} | {default} | {field.meaning} | {_ways(field)} |"


def _default(spec: type[Query], field: Field) -> str:
    if is_required(spec, field):
        return "must be given"
    default = spec.__dataclass_fields__[field.name].default
    if isinstance(default, tuple):
        return ",".join(map(str, default))
    if isinstance(default, str):
        return default
    return "false" if default is False else "none"


def _ways(field: Field) -> str:
    """Return how a field is written on the command line and in SQL."""
    option = "--" + {"labels": "label"}.get(field.name, field.name).replace("_", "-")
    if field is ID:
        return "`ID`"
    value = "" if isinstance(field, FlagField) else " ..."
    several = isinstance(field, PartsField) or (isinstance(field, NumberField) and field.several)
    again = ", repeated" if several else ""
    sql = "`WHERE`" if field in (BOX, KEY) else "in its clause"
    if not field.in_clause:
        sql = f"`WITH ({field.name} = ...)`"
    return f"`{option}{value}`{again}; {sql}"


def _events(kind: Kind) -> str:
    events = {outcome.event: None for outcome in kind.index.outcomes}
    reasons = {outcome.reason: None for outcome in kind.index.outcomes if outcome.reason}
    told = f"Its notices: {', '.join(f'`{event}`' for event in events)}"
    return told + (f", perhaps with a reason: {', '.join(reasons)}." if reasons else ".")
