"""Notices that say that rows were shed before the queries that they are of."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from everquery.network.boxes.watch import Watch
from everquery.network.spec import Box

SHED = "shed"


def above_watches(boxes: Mapping[str, Box]) -> dict[str, frozenset[str]]:
    """Return, for each watch box, its own name and those of all before it."""
    return {name: _above(name, boxes) for name, box in boxes.items() if isinstance(box, Watch)}


def _above(name: str, boxes: Mapping[str, Box]) -> frozenset[str]:
    box = boxes.get(name)
    before = () if box is None else box.sources
    return frozenset({name}).union(*(_above(one, boxes) for one in before))


def marked(notices: pa.Table) -> pa.Table:
    """Return notices whose reason is ``shed``, behind what it was.

    Examples
    --------
    >>> reasons = pa.array([None, "expired"], pa.string())
    >>> marked(pa.table({"reason": reasons})).to_pylist()
    [{'reason': 'shed'}, {'reason': 'expired, shed'}]
    """
    place = notices.column_names.index("reason")
    reason = notices.column(place)
    longer = pc.binary_join_element_wise(reason, SHED, ", ")
    return notices.set_column(place, "reason", pc.fill_null(longer, SHED))
