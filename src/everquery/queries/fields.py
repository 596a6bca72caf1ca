"""The fields of a kind of query, each declared once where the spec has it.

From the declarations follow the columns of a table of queries and of a listing, the options of the
command line and of SQL's ``WITH``, and the reference in the docs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

DECLARED = "everquery"  # in the metadata of a dataclass's field


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a spec.

    Attributes
    ----------
    name : str
        That of the dataclass's field, the column and the option.
    meaning : str
        A sentence for who writes a query.
    takes : str
        What values it takes, in a few words.
    in_clause : bool
        Whether the kind's SQL clause says it, so that ``WITH`` does not.
    example : str
        A value as the command line takes it; needed where each query must have one.
    """

    name: str
    meaning: str = dataclasses.field(default="", kw_only=True)
    takes: str = dataclasses.field(default="", kw_only=True)
    in_clause: bool = dataclasses.field(default=False, kw_only=True)
    example: str = dataclasses.field(default="", kw_only=True)


@dataclass(frozen=True, slots=True)
class FlagField(Field):
    """A field that is true or false, and false unless said otherwise."""

    takes: str = dataclasses.field(default="true or false", kw_only=True)


@dataclass(frozen=True, slots=True)
class SpanField(Field):
    """A span of time, or none; it needs a stream with a time column.

    Attributes
    ----------
    required : bool
        Whether each query has one.
    """

    takes: str = dataclasses.field(default="span of time", kw_only=True)
    required: bool = dataclasses.field(default=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class RangeField(Field):
    """A range of what a query without box tells, or none: a column for each of its ends.

    The rows of such queries have it in the place of a box.
    """

    takes: str = dataclasses.field(default="range of numbers", kw_only=True)

    @property
    def columns(self) -> tuple[str, str]:
        """The columns of a table of queries that have its ends; null for no limit."""
        return f"{self.name}_lo", f"{self.name}_hi"


@dataclass(frozen=True, slots=True)
class PartsField(Field):
    """What the parts of a composite are made of; no column of a table."""


@dataclass(frozen=True, slots=True)
class NumbersField(PartsField):
    """The numbers that divide a composite into its parts."""

    takes: str = dataclasses.field(default="numbers, ascending", kw_only=True)


@dataclass(frozen=True, slots=True)
class KeysField(PartsField):
    """The keys of a composite, which its parts have one each of."""

    takes: str = dataclasses.field(default="strings or integers", kw_only=True)


@dataclass(frozen=True, slots=True)
class AttributeField(Field):
    """The one attribute that a query without box is about."""

    takes: str = dataclasses.field(default="attribute", kw_only=True)


@dataclass(frozen=True, slots=True)
class EventsField(Field):
    """Which events a query tells of: a tuple in the spec, and an option for each that it skips.

    Attributes
    ----------
    events : tuple of str
        All that there are, in the order in which they are written.

    Examples
    --------
    >>> emit = EventsField("emit", events=("enter", "leave"))
    >>> emit.options, emit.options_of("leave"), emit.options_of("enter,leave")
    (('skip_enter', 'skip_leave'), ('skip_enter',), ())
    """

    events: tuple[str, ...] = dataclasses.field(kw_only=True)

    @property
    def options(self) -> tuple[str, ...]:
        """The options that say which events are not told."""
        return tuple(f"skip_{event}" for event in self.events)

    @property
    def words(self) -> str:
        """What a column of a table takes."""
        return f"{', '.join(self.events)} or {','.join(self.events)}, or null for both"

    def options_of(self, word: str) -> tuple[str, ...] | None:
        """Return the options that a word in a column sets; None if it is no such word."""
        told = [event.strip() for event in word.split(",")]
        if set(told) - set(self.events):
            return None
        return tuple(f"skip_{event}" for event in self.events if event not in told)


@dataclass(frozen=True, slots=True)
class ChoiceField(Field):
    """One of several words, and an option for each but the first, which is the usual one.

    Attributes
    ----------
    choices : tuple of str
        The usual one first.

    Examples
    --------
    >>> negative = ChoiceField("negative", choices=("ignore", "subtract"))
    >>> negative.options, negative.options_of("subtract"), negative.options_of("ignore")
    (('negative_subtract',), ('negative_subtract',), ())
    """

    choices: tuple[str, ...] = dataclasses.field(kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "takes", self.takes or " or ".join(self.choices))

    @property
    def options(self) -> tuple[str, ...]:
        """The options that say which of the other words it is."""
        return tuple(f"{self.name}_{choice}" for choice in self.choices[1:])

    @property
    def words(self) -> str:
        """What a column of a table takes."""
        return f"{' or '.join(self.choices)}, or null for {self.choices[0]}"

    def options_of(self, word: str) -> tuple[str, ...] | None:
        """Return the options that a word in a column sets; None if it is no such word."""
        if word not in self.choices:
            return None
        return () if word == self.choices[0] else (f"{self.name}_{word}",)


@dataclass(frozen=True, slots=True)
class ZoneField(Field):
    """The IANA name of a time zone, or none."""

    takes: str = dataclasses.field(default="time zone, such as Europe/Berlin", kw_only=True)


@dataclass(frozen=True, slots=True)
class TextField(Field):
    """A text in the kind's own words, which each query has and the kind checks."""

    takes: str = dataclasses.field(default="text", kw_only=True)


def declared(field: Field) -> Mapping[str, Any]:
    """Return a declaration as metadata of the dataclass's field that it is about."""
    return {DECLARED: field}


def declared_fields(spec: type) -> tuple[Field, ...]:
    """Return all fields that a spec declares, those of all kinds first."""
    return tuple(
        each.metadata[DECLARED]
        for each in dataclasses.fields(spec)
        if each.init and DECLARED in each.metadata
    )


def declared_in(namespace: Mapping[str, Any]) -> tuple[Field, ...]:
    """Return what the fields of a class declare, in order, before it becomes a dataclass."""
    found = []
    for name, value in namespace.items():
        if isinstance(value, dataclasses.Field) and DECLARED in value.metadata:
            field = value.metadata[DECLARED]
            if field.name != name:
                raise TypeError(f"the field {name!r} is declared with the name {field.name!r}")
            found.append(field)
    return tuple(found)
