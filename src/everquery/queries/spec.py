"""What every standing query has: an id, a box, perhaps a key, and who it belongs to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from everquery.core.spans import BadSpanError, SpanLike, read_span
from everquery.errors import InvalidQueryError
from everquery.queries.box import Box
from everquery.queries.common_fields import KEY, LABELS, OWNER, THROTTLE, TTL
from everquery.queries.fields import (
    AttributeField,
    ChoiceField,
    EventsField,
    Field,
    FlagField,
    KeysField,
    RangeField,
    SpanField,
    TextField,
    ZoneField,
    declared,
    declared_in,
)
from everquery.queries.interval import Interval, as_limits
from everquery.queries.labels import Labels
from everquery.queries.numbers import Bools, EndField, NumberColumn, NumberField
from everquery.queries.spans import SpanColumn
from everquery.queries.zones import bad_zone
from everquery.stream import Stream

LONGEST_ID = 1_024  # bytes in UTF-8
LONGEST_KEY = 1 << 20

Key = str | int


@dataclass(frozen=True, slots=True)
class SaidColumns:
    """What the queries of a table or a block say, besides ids and boxes.

    Attributes
    ----------
    stream : Stream
    keyed : bool, shape (n,)
        Which of them have a key.
    options, numbers : dicts of columns
        As in a block.
    spans, zones, texts : dicts of columns
        Those that some query has.
    time_type : Arrow type or None
        That of the stream's times, once it is known.
    """

    stream: Stream
    keyed: Bools
    options: Mapping[str, Bools]
    numbers: Mapping[str, NumberColumn]
    spans: Mapping[str, SpanColumn]
    zones: Mapping[str, pa.Array]
    texts: Mapping[str, pa.Array] = field(default_factory=dict)
    time_type: pa.DataType | None = None

    def has_span(self, name: str) -> Bools:
        """Tell which queries have a span."""
        return self.spans[name].given() if name in self.spans else np.zeros_like(self.keyed)


@dataclass(frozen=True)
class Query:
    """The part that all kinds share; use `Range`, `Border`, ...

    Parameters
    ----------
    id : str
        The owner's name for the query, unique among live queries.
    box : mapping from attribute to range
        Pairs are half-open ``[lo, hi)``; `Interval` says it otherwise. An event that lacks one of
        the attributes is not inside, also where the range has no limits. An empty box holds all.
    key : str or int, optional
        Only this key's events are seen.
    owner : str, optional
        Whose query it is.
    labels : mapping from str to str, optional
        Whatever the owner wants to find it by.
    ttl : span of time, optional
        How long the query lives; it then ends by itself, with a notice ``end``.
    throttle : span of time, optional
        At most one notice a key in this time; those held back are summed up at its end.

    A span of time is a text such as ``5s``, ``1h30m`` or ``PT90S``, or a timedelta; where the
    stream's time column holds integers or floats, a number in its unit. It needs such a column,
    and is kept as a timedelta or a number.
    """

    id: str
    box: Mapping[str, Any]
    key: Key | None = field(default=None, kw_only=True, metadata=declared(KEY))
    owner: str | None = field(default=None, kw_only=True, metadata=declared(OWNER))
    labels: Mapping[str, str] = field(default=Labels(), kw_only=True, metadata=declared(LABELS))
    ttl: SpanLike | None = field(default=None, kw_only=True, metadata=declared(TTL))
    throttle: SpanLike | None = field(default=None, kw_only=True, metadata=declared(THROTTLE))
    # The id of the composite that it was registered with; see `parts`.
    part_of: str | None = field(default=None, kw_only=True, repr=False, compare=False)

    kind: ClassVar[str]
    across_keys: ClassVar[bool] = False
    """Whether a query without key looks at the events of all keys together, not at each key's."""

    # What follows from the declarations of fields, and is set for each spec.
    fields: ClassVar[tuple[Field, ...]] = ()
    """The fields that the kind has besides those of all."""
    numbers: ClassVar[tuple[NumberField, ...]] = ()
    """The fields that are numbers, and columns of a table of queries too."""
    spans: ClassVar[tuple[str, ...]] = ("ttl", "throttle")
    """The fields that are spans of time, and columns of a table of queries too."""
    required_spans: ClassVar[tuple[str, ...]] = ()
    """Those of them that each query has."""
    options: ClassVar[tuple[str, ...]] = ()
    """What is true or false of a query; columns of a table of queries too."""
    words: ClassVar[Mapping[str, str]] = {}
    """Columns of a table of queries whose words stand for options, and what such a column takes."""
    zones: ClassVar[tuple[str, ...]] = ()
    """The fields that are time zones, and columns of a table of queries too."""
    texts: ClassVar[tuple[str, ...]] = ()
    """The fields that are texts in the kind's own words, and columns of a table of queries too."""
    value_range: ClassVar[RangeField | None] = None
    """The field that is a range of what is told; its ends are numbers of queries with a box."""
    range_as_box: ClassVar[RangeField | None] = None
    """The same of queries without box, whose rows have it in the place of one."""
    about_attribute: ClassVar[bool] = False
    """Whether the field ``attribute`` names the one that it is about, in place of a box."""
    boxed: ClassVar[bool] = True
    """Whether a user gives the box; a kind that has none, for whatever reason, says so."""
    limited: ClassVar[bool] = True
    """Whether boxes may have limits, and not only name the attributes that a query is about."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        own = cls.fields = (*cls.fields, *declared_in(vars(cls)))
        cls.numbers = tuple(each for each in own if isinstance(each, NumberField))
        spans = [each for each in own if isinstance(each, SpanField)]
        cls.spans = ("ttl", *(each.name for each in spans), "throttle")
        cls.required_spans = tuple(each.name for each in spans if each.required)
        cls.options = tuple(name for each in own for name in _options_of(each))
        worded = (each for each in own if isinstance(each, (EventsField, ChoiceField)))
        cls.words = {each.name: each.words for each in worded}
        cls.zones = tuple(each.name for each in own if isinstance(each, ZoneField))
        cls.texts = tuple(each.name for each in own if isinstance(each, TextField))
        ranges = (each for each in own if isinstance(each, RangeField))
        cls.value_range = next(ranges, cls.value_range)
        cls.about_attribute = any(isinstance(each, AttributeField) for each in own)
        cls.boxed = cls.boxed and not cls.about_attribute
        if cls.value_range is not None and cls.boxed:
            cls.numbers += EndField.of_range(cls.value_range)
        elif cls.value_range is not None:
            cls.range_as_box = cls.value_range

    def __post_init__(self) -> None:
        reason = bad_text(self.id, "query id", LONGEST_ID)
        if reason:
            raise InvalidQueryError(reason)
        try:
            if type(self.box) is not Box:
                object.__setattr__(self, "box", Box(self.box))
            if type(self.labels) is not Labels:
                object.__setattr__(self, "labels", Labels(self.labels))
            self._check_key()
            for name in ("owner", "part_of"):
                text = getattr(self, name)
                reason = None if text is None else bad_text(text, name, LONGEST_ID)
                if reason:
                    raise InvalidQueryError(reason)
            for name in self.spans:
                if getattr(self, name) is not None:
                    self._read_span(name)
                elif name in self.required_spans:
                    raise InvalidQueryError(f"{name} is None; a {self.kind} query needs one")
            for each in self.fields:
                self._read(each)
        except InvalidQueryError as error:
            raise InvalidQueryError(f"query {self.id!r}: {error}") from None

    def _check_key(self) -> None:
        if self.key is not None:
            object.__setattr__(self, "key", _read_key(self.key))

    def _read(self, each: Field) -> None:
        """Check a field of the kind, and give it its own type."""
        value = getattr(self, each.name)
        match each:
            case FlagField():
                if not isinstance(value, bool):
                    raise InvalidQueryError(f"{each.name} is {value!r}; it is true or false")
            case AttributeField():
                if not isinstance(value, str):
                    raise InvalidQueryError(f"{each.name} is {value!r}; it must be the name of one")
            case NumberField():
                if value is not None or each.required:
                    object.__setattr__(self, each.name, each.read_all(value))
            case EventsField() if value != each.events:  # most queries tell of all
                given = (value,) if isinstance(value, str) else tuple(value)
                if not given or set(given) - set(each.events):
                    known = ", ".join(map(repr, each.events))
                    raise InvalidQueryError(f"{each.name} is {value!r}; it takes {known} or both")
                told = tuple(event for event in each.events if event in given)
                object.__setattr__(self, each.name, told)
            case ChoiceField():
                if not isinstance(value, str) or value not in each.choices:
                    known = " or ".join(map(repr, each.choices))
                    raise InvalidQueryError(f"{each.name} is {value!r}; it takes {known}")
            case ZoneField():
                reason = None if value is None else bad_zone(value)
                if reason:
                    raise InvalidQueryError(f"{each.name} is {value!r}; {reason}")
            case TextField():
                if not isinstance(value, str):
                    raise InvalidQueryError(f"{each.name} is {value!r}; it must be a text")
            case KeysField():
                self._read_keys(each.name)
            case RangeField():
                if value is not None:
                    object.__setattr__(self, each.name, as_limits(value, each.name))

    def _read_keys(self, name: str) -> None:
        """Check the keys of a composite; one alone is the query's key."""
        given = getattr(self, name)
        if given is None:
            return
        values = given.tolist() if isinstance(given, np.ndarray) else given
        if not isinstance(values, (list, tuple)) or not values:
            raise InvalidQueryError(f"{name} is {given!r}; give a list of keys")
        if self.key is not None:
            raise InvalidQueryError(f"it has a key, {self.key!r}, and {name}; give one of the two")
        keys = tuple(_read_key(each) for each in values)
        if len({type(each) for each in keys}) > 1:
            raise InvalidQueryError(f"{name} has strings and integers; keys of a stream are alike")
        seen: set[Key] = set()
        for each in keys:
            if each in seen:
                raise InvalidQueryError(f"{name} has {each!r} twice; give each once")
            seen.add(each)
        if len(keys) == 1:
            object.__setattr__(self, "key", keys[0])
        object.__setattr__(self, name, keys if len(keys) > 1 else None)

    def _read_span(self, name: str) -> None:
        given = getattr(self, name)
        try:
            object.__setattr__(self, name, read_span(given))
        except BadSpanError as error:
            raise InvalidQueryError(f"{name} is {given!r}; {error}") from None

    @property
    def shared_name(self) -> str:
        """What queries have in common that must be in one shard, if they look across keys."""
        return self.id

    @classmethod
    def shared_names(
        cls, ids: pa.Array, attribute: str, numbers: Mapping[str, NumberColumn]
    ) -> pa.Array:
        """Return the shared names of queries of a block, whose first attribute is given."""
        return ids

    @property
    def looks_across_keys(self) -> bool:
        """Whether this query looks at the events of all keys together."""
        return self.across_keys and self.key is None

    @classmethod
    def rows_across_keys(cls, keyed: bool, options: Mapping[str, Bools], n: int) -> Bools:
        """Tell which queries of a block of `n` look at the events of all keys together.

        Parameters
        ----------
        keyed : bool
            Whether the queries have keys.
        options : dict of columns
        """
        return np.full(n, cls.across_keys and not keyed)

    def parts(self) -> tuple[Query, ...]:
        """Return the queries that this one is made of: itself, unless it is a composite."""
        return (self,)

    @property
    def said_box(self) -> Mapping[str, Interval]:
        """The box as a user writes it."""
        return self.box

    def misfit(self, stream: Stream) -> str | None:
        """Return why a query of this kind can't be on the stream, or None."""
        return None

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams that a query over several names, that which it is registered on first."""
        return ()

    def misfit_of_other(self, stream: Stream, first: Stream) -> str | None:
        """Return why another stream that the query names can't be this one, or None.

        Parameters
        ----------
        first : Stream
            The one that it is registered on.
        """
        return None

    @property
    def tells_of_several(self) -> bool:
        """Whether its notices are about events of several streams, so that it needs all of them."""
        return False

    @classmethod
    def rows_of_several(
        cls, options: Mapping[str, Bools], texts: Mapping[str, pa.Array], n: int
    ) -> Bools:
        """Tell which queries of a block of `n` have notices about events of several streams."""
        return np.zeros(n, np.bool_)

    def misfit_of_times(self, kind: pa.DataType, stream: Stream) -> str | None:
        """Return why the query can't be on a stream whose times have this type, or None.

        Spans that its fields declare are looked at anyway.
        """
        return None

    @classmethod
    def options_of_word(cls, column: str, word: str) -> tuple[str, ...] | None:
        """Return the options that a word in a column sets; None if it is no word of that column."""
        for each in cls.fields:
            if isinstance(each, (EventsField, ChoiceField)) and each.name == column:
                return each.options_of(word)
        return None

    @classmethod
    def untold(cls, ranged: Bools, numbers: Mapping[str, NumberColumn]) -> Mapping[str, Bools]:
        """Return which queries of a block never tell some events, by event.

        Parameters
        ----------
        ranged : bool, shape (n,)
            Which of them have a `value_range`.
        numbers : dict of columns
        """
        return {}

    @classmethod
    def told_if(cls, options: Mapping[str, Bools]) -> Mapping[str, Bools]:
        """Return which queries of a block tell some events, by event; all others are told."""
        return {}

    @classmethod
    def bad_rows(cls, said: SaidColumns) -> Iterator[tuple[Bools, str]]:
        """Yield which rows of a table can't be for what several columns say together, and why."""
        yield from ()


def _read_key(key: Any) -> Key:  # noqa: ANN401 - it is here to find out
    """Return a key that a user gave; raise if it can't be one."""
    if isinstance(key, np.integer):
        key = int(key)
    if isinstance(key, bool) or not isinstance(key, (str, int)):
        raise InvalidQueryError(f"key is {key!r}; a key is a string or an integer")
    reason = key and bad_text(key, "key", LONGEST_KEY) if isinstance(key, str) else None
    if reason:
        raise InvalidQueryError(reason)
    return key


def _options_of(each: Field) -> tuple[str, ...]:
    """Return the options that say what a field says."""
    if isinstance(each, FlagField):
        return (each.name,)
    return each.options if isinstance(each, (EventsField, ChoiceField)) else ()


def bad_text(value: object, what: str, longest: int) -> str | None:
    """Return why this can't be a query's id or the like, or None."""
    if not isinstance(value, str):
        return f"{what} {value!r} is not a string"
    if not value:
        return f"{what} is empty; give it a name to be told by"
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        return f"{what} {value!r} has half a surrogate pair; give valid text"
    if size > longest:
        return (
            f"{what} {value[:20]!r}... has {size:,} bytes; the limit is {longest:,}:"
            " use a shorter name"
        )
    return None
