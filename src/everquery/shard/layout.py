"""How the notices of a shard look: their columns, by what is known so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from everquery.kinds import KINDS, Kind
from everquery.shard.outcomes import columns_of
from everquery.stream import OWNER_COLUMNS, Stream


def notice_schema(
    stream: Stream,
    time_type: pa.DataType,
    key_type: pa.DataType,
    *,
    labelled: bool = False,
    carried: Sequence[str] = (),
    kinds: Mapping[str, Kind] = KINDS,
) -> pa.Schema:
    """Return the schema of a stream's notices.

    Parameters
    ----------
    labelled : bool
        Whether they tell owner and labels too.
    carried : names of columns of events that are added to them
    """
    text = pa.dictionary(pa.int32(), pa.string())
    word = pa.dictionary(pa.int8(), pa.string())
    names = figure_names(stream, carried, kinds)
    return pa.schema(
        [
            ("query_id", text),
            ("kind", word),
            ("event", word),
            ("key", pa.dictionary(pa.int32(), key_type)),
            ("time", time_type),
            ("seq", pa.int64()),
            ("reason", word),
            *((name, pa.float64()) for name in stream.attributes),
            ("held_back", pa.int64()),
            *((names[name], column.type) for name, column in columns_of(kinds).items()),
            *((name, text) for name in OWNER_COLUMNS if labelled),
            ("notice_id", pa.binary(16)),
        ]
    )


def figure_names(
    stream: Stream, carried: Sequence[str] = (), kinds: Mapping[str, Kind] = KINDS
) -> dict[str, str]:
    """Return what the columns of kinds are called; some names may be taken by columns of events."""
    taken = {*stream.attributes, *carried}
    names = {}
    for name in columns_of(kinds):
        names[name] = in_full(name, kinds) if name in taken else name
    return names


def in_full(name: str, kinds: Mapping[str, Kind] = KINDS) -> str:
    """Return what a column of a kind is called where its name is taken: the kind comes first."""
    for kind, found in kinds.items():
        if any(column.name == name for column in found.index.columns):
            return f"{kind}_{name}"
    raise KeyError(name)


class Layout(NamedTuple):
    """How notices look.

    Attributes
    ----------
    schema : Arrow schema
    names : list of str
        Those of its columns.
    figures : dict from str to str
        What the columns of kinds are called in it.
    no_notices : Arrow table
        An empty one.
    time_type : Arrow type
    labelled : bool
        Whether notices tell owner and labels.
    """

    schema: pa.Schema
    names: list[str]
    figures: dict[str, str]
    no_notices: pa.Table
    time_type: pa.DataType
    labelled: bool


class Layouts:
    """Makes layouts, each once: making one takes as long as some events do.

    Parameters
    ----------
    stream : Stream
    kinds : mapping from name to Kind
        Those that queries may be of.
    labelled : bool
        Whether notices tell owner and labels.
    """

    def __init__(self, stream: Stream, kinds: Mapping[str, Kind], *, labelled: bool) -> None:
        self._stream = stream
        self._kinds = kinds
        self._labelled = labelled
        self._made: dict[tuple[Any, ...], Layout] = {}
        self._last: tuple[tuple[Any, ...], Layout] | None = None

    def layout(
        self,
        time_type: pa.DataType | None,
        key_type: pa.DataType | None,
        seen: tuple[str, ...],
    ) -> Layout:
        """Return how notices look with the columns of some kinds; types may not be known yet."""
        known = time_type, key_type, seen
        # Hashing a type of Arrow's takes longer than finding that it is the same object.
        if self._last is not None and known == self._last[0]:
            return self._last[1]
        if known not in self._made:
            kinds = {name: kind for name, kind in self._kinds.items() if name in seen}
            time = time_type or pa.null()
            schema = notice_schema(
                self._stream,
                time,
                pa.string() if key_type in (None, pa.null()) else key_type,
                labelled=self._labelled,
                kinds=kinds,
            )
            figures = figure_names(self._stream, kinds=kinds)
            self._made[known] = Layout(
                schema, schema.names, figures, schema.empty_table(), time, self._labelled
            )
        self._last = known, self._made[known]
        return self._made[known]
