"""The kinds of query: each is one spec, one index and one line here."""

from __future__ import annotations

from dataclasses import dataclass

from everquery.index.kind import KindIndex
from everquery.kinds.border.index import BorderIndex
from everquery.kinds.quantile.index import QuantileIndex
from everquery.kinds.range.index import RangeIndex
from everquery.kinds.threshold.index import ThresholdIndex
from everquery.queries import Border, Quantile, Query, Range, Threshold


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of query.

    Attributes
    ----------
    spec : type
        What a user writes.
    index : type
        What answers it.
    """

    spec: type[Query]
    index: type[KindIndex]

    @property
    def name(self) -> str:
        """The name in notices, tables and statistics."""
        return self.spec.kind


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(Range, RangeIndex),
        Kind(Border, BorderIndex),
        Kind(Threshold, ThresholdIndex),
        Kind(Quantile, QuantileIndex),
    )
}
