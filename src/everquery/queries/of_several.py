"""Queries whose notices are about events of several streams."""

from __future__ import annotations

import pyarrow as pa

from everquery.queries.changes import Change, Register, RegisterBlocks
from everquery.queries.known import spec_of


def of_several(change: Change) -> list[tuple[str, str]]:
    """Return the queries of a change that tell of several streams, by kind and id."""
    found: list[tuple[str, str]] = []
    if isinstance(change, Register):
        found = [(query.kind, query.id) for query in change.queries if query.tells_of_several]
    elif isinstance(change, RegisterBlocks):
        for block in change.blocks:
            texts = {} if block.plan is None else {"plan": block.plan}
            several = spec_of(block.kind).rows_of_several(block.options, texts, len(block))
            ids = block.ids.filter(pa.array(several))
            found += [(block.kind, query_id) for query_id in ids.to_pylist()]
    return found
