"""How the notices of a shard look: their columns, by what is known so far."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from everquery.kinds import Kind
from everquery.shard.writing import figure_names, notice_schema
from everquery.stream import Stream


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
    """

    schema: pa.Schema
    names: list[str]
    figures: dict[str, str]
    no_notices: pa.Table


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
            schema = notice_schema(
                self._stream,
                time_type or pa.null(),
                pa.string() if key_type in (None, pa.null()) else key_type,
                labelled=self._labelled,
                kinds=kinds,
            )
            figures = figure_names(self._stream, kinds=kinds)
            self._made[known] = Layout(schema, schema.names, figures, schema.empty_table())
        self._last = known, self._made[known]
        return self._made[known]
