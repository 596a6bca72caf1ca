"""What a shard holds: its queries and what it remembers, for the modules of the pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from everquery.core.arrays import Array, Int32s
from everquery.core.crew import ALONE, Crew
from everquery.index.kind import KindIndex
from everquery.kinds import Kind
from everquery.queries.spans import SpanColumn
from everquery.shard.outcomes import OutcomeTable
from everquery.state.admission import Admission
from everquery.state.catalog import Catalog
from everquery.state.dead_letters import DeadLetters
from everquery.state.hygiene import Hygiene
from everquery.state.keys import KeyTable
from everquery.stream import Stream


@dataclass(frozen=True, slots=True)
class Contents:
    """The parts of a shard.

    Attributes
    ----------
    stream : Stream
    catalog : Catalog
        Queries by slot.
    keys : KeyTable
    admission : Admission
        How far time is, and which events are held back.
    dead_letters : DeadLetters
    hygiene : Hygiene
        The rules of alerts, and what waits because of them.
    indexes : dict from the name of a kind to its index
    outcomes : OutcomeTable
    kinds : dict from name to Kind
        Those that queries may be of.
    crew : Crew
        The threads that divide the work of a step.
    """

    stream: Stream
    catalog: Catalog
    keys: KeyTable
    admission: Admission
    dead_letters: DeadLetters
    hygiene: Hygiene
    outcomes: OutcomeTable
    kinds: dict[str, Kind]
    crew: Crew
    indexes: dict[str, KindIndex] = field(default_factory=dict)

    @classmethod
    def of(cls, stream: Stream, kinds: Mapping[str, Kind], crew: Crew = ALONE) -> Contents:
        """Return nothing yet of a stream, for queries of some kinds."""
        outcomes = OutcomeTable(kinds)
        keys = KeyTable(len(stream.attributes), keyed=stream.key is not None)
        return cls(
            stream,
            Catalog(),
            keys,
            Admission(stream, keys),
            DeadLetters(stream),
            Hygiene(len(stream.attributes), len(outcomes.columns)),
            outcomes,
            dict(kinds),
            crew,
            {name: kind.index() for name, kind in kinds.items()},
        )

    def at_work(self) -> list[tuple[str, KindIndex]]:
        """Return the kinds that steps mean something to, and their indexes."""
        return [(name, index) for name, index in self.indexes.items() if index.is_at_work()]

    def kind_of(self, slot: int) -> str:
        """Return the name of a query's kind."""
        return tuple(self.indexes)[int(self.catalog.kind[slot])]

    def number_of(self, kind: str) -> int:
        """Return the number of a kind in the catalog."""
        return tuple(self.indexes).index(kind)

    def of_kind(self, slots: Array, kind: str) -> Int32s:
        """Return the slots of queries of a kind."""
        found: Int32s = slots[self.catalog.kind[slots] == self.number_of(kind)]
        return found

    def by_kind(self, slots: Int32s) -> list[tuple[KindIndex, Int32s]]:
        """Return the slots of each kind that some of these queries are of, with its index."""
        kinds = self.catalog.kind[slots]
        indexes = tuple(self.indexes.values())
        if kinds.size and (kinds == kinds[0]).all():
            return [(indexes[kinds[0]], slots)]
        return [
            (indexes[kind], slots[kinds == kind]) for kind in np.flatnonzero(np.bincount(kinds))
        ]

    def span(self, name: str, slots: Int32s) -> SpanColumn | None:
        """Return a span of queries; None if no query has it."""
        return self.hygiene.rules.column(name, slots)

    def text(self, name: str, slots: Int32s) -> pa.Array | None:
        """Return a text of queries; None if no query has it."""
        return self.catalog.texts_of(name, slots)

    def ids(self, slots: Int32s) -> list[str]:
        """Return the ids of queries."""
        found: list[str] = self.catalog.names.strings().take(pa.array(slots)).to_pylist()
        return found

    def begin_lives(self) -> None:
        """Let the lives of queries begin that waited for the first event, if it has come."""
        rules, kind = self.hygiene.rules, self.admission.time_type
        began = self.admission.began
        if rules.waits_for_first_event and began is not None and kind is not None:
            rules.begin(kind, began)
