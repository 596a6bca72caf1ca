"""The options of ``everquery query add`` that follow from the fields that kinds declare."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from everquery.cli.values import parse_range, parse_span
from everquery.kinds import KINDS
from everquery.queries import Query
from everquery.queries.fields import (
    AttributeField,
    EventsField,
    Field,
    FlagField,
    KeysField,
    NumbersField,
    PartsField,
    RangeField,
    SpanField,
    TextField,
    declared_fields,
)
from everquery.queries.known import known_specs
from everquery.queries.numbers import NumberField
from everquery.stream import Stream

SPAN = "5s, 30m, 1h30m; a number, if the times are numbers"


class WithFields:
    """A command that takes a kind and ``**fields``: it has an option for each field of each kind.

    Those are looked up whenever the command is, so that a kind that was registered late has its
    options too.
    """

    def __init__(self, command: Callable[..., None]) -> None:
        self._command = command
        self.__name__ = command.__name__
        self.__doc__ = command.__doc__
        self.__annotations__: dict[str, Any] = {}

    def __call__(self, **given: Any) -> None:  # noqa: ANN401 - as options are
        """Run the command."""
        self._command(**given)

    @property
    def __signature__(self) -> inspect.Signature:
        """The parameters of the command, with the options in the place of ``**fields``."""
        written = inspect.signature(self._command, eval_str=True).parameters.values()
        found = [each for each in written if each.kind is not each.VAR_KEYWORD]
        return inspect.Signature(
            [*(each.replace(kind=each.KEYWORD_ONLY) for each in found), *_parameters()]
        )


def _parameters() -> list[inspect.Parameter]:
    return [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=False if isinstance(field, FlagField) else None,
            annotation=_annotation(field, _help(name)),
        )
        for name, field in _fields().items()
    ]


def _fields() -> dict[str, Field]:
    """Return the fields that kinds have, by name, and the spans that all have."""
    fields = {field.name: field for spec in known_specs() for field in spec.fields}
    return fields | {field.name: field for field in declared_fields(Query) if _is_span(field)}


def _is_span(field: Field) -> bool:
    return isinstance(field, SpanField)


def _help(name: str) -> str:
    """Return what a field means, and to which kinds."""
    meanings: dict[str, list[str]] = {}
    for spec in known_specs():
        for field in declared_fields(spec):
            if field.name == name:
                meanings.setdefault(field.meaning.replace("`", ""), []).append(spec.kind)
    texts = [
        meaning if len(kinds) == len(KINDS) else f"{meaning.rstrip('.')} ({', '.join(kinds)})."
        for meaning, kinds in meanings.items()
    ]
    return " ".join(texts)


def _annotation(field: Field, meaning: str) -> Any:  # noqa: ANN401 - a type that typer reads
    option = option_of(field.name)
    match field:
        case FlagField():
            return Annotated[bool, typer.Option(option, help=meaning)]
        case NumberField(is_text=True):
            return Annotated[str | None, typer.Option(option, help=f"{meaning} {field.takes}.")]
        case NumberField(several=True):
            plural = list[int] | None if field.whole else list[float] | None
            return Annotated[plural, typer.Option(option, help=f"{meaning} Repeat.")]
        case NumberField():
            number = int | None if field.whole else float | None
            return Annotated[number, typer.Option(option, help=meaning)]
        case SpanField():
            return Annotated[str | None, typer.Option(option, help=f"{meaning} {SPAN}.")]
        case KeysField():
            return Annotated[list[str] | None, typer.Option(option, help=f"{meaning} Repeat.")]
        case NumbersField():
            return Annotated[list[float] | None, typer.Option(option, help=f"{meaning} Repeat.")]
        case AttributeField():
            return Annotated[
                str | None, typer.Option(option, help=meaning, show_default="the only one")
            ]
        case _:
            return Annotated[str | None, typer.Option(option, help=f"{meaning} {field.takes}.")]


def option_of(name: str) -> str:
    """Return the option of a field."""
    return "--" + name.replace("_", "-")


def read_fields(spec: type[Query], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a query that options say, each of its own type.

    Raises
    ------
    typer.BadParameter
        If the kind has no such field, or lacks one that it needs.
    """
    fields = _fields()
    found = {
        name: _read(fields[name], value)
        for name, value in given.items()
        if value is not None and value is not False and value != []
    }
    check_fields(spec, found)
    return found


def _read(field: Field, value: Any) -> Any:  # noqa: ANN401 - as options are
    match field:
        case SpanField():
            return parse_span(value, option_of(field.name))
        case RangeField():
            return parse_range(value, value, option_of(field.name))
        case EventsField():
            return tuple(each.strip().lower() for each in value.split(","))
        case NumberField(several=True) | PartsField():
            return tuple(value)
        case _:
            return value


def check_fields(spec: type[Query], fields: dict[str, Any]) -> None:
    """Refuse fields that the kind has not, and the lack of those that it needs."""
    taken = {field.name for field in dataclasses.fields(spec) if field.init}
    for name in fields:
        if name not in taken:
            raise typer.BadParameter(
                f"{spec.kind} queries have no such option", param_hint=option_of(name)
            )
    for field in spec.fields:
        needed = isinstance(field, TextField) or (
            isinstance(field, (NumberField, SpanField)) and field.required
        )
        if needed and field.name not in fields:
            option = option_of(field.name)
            raise typer.BadParameter(
                f"{spec.kind} queries need one, such as {option} {field.example}",
                param_hint=option,
            )


def chosen_attribute(attribute: str | None, stream: Stream) -> str:
    """Return the attribute that a query is about, which need not be said if there is but one."""
    if attribute is not None:
        return attribute
    if not stream.attributes:
        raise typer.BadParameter(
            f"stream {stream.name!r} has no attributes that the query could be about",
            param_hint="--attribute",
        )
    if len(stream.attributes) > 1:
        raise typer.BadParameter(
            f"stream {stream.name!r} has {', '.join(stream.attributes)}; say which",
            param_hint="--attribute",
        )
    return stream.attributes[0]


def known_kind(name: str | None) -> str | None:
    """Return the name of a kind, if there is one; for an option's callback."""
    if name is not None and name not in KINDS:
        raise typer.BadParameter(f"{name!r} is no kind; give {' or '.join(KINDS)}")
    return name


def what_kinds_tell() -> str:
    """Return what each kind is for, as its spec says."""
    lines = (f"{spec.kind}: {(spec.__doc__ or '').splitlines()[0]}" for spec in known_specs())
    return " ".join(lines).replace("`", "")
