"""Queries that name attributes which a reader's stream does not have: it was altered since."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from everquery.errors import InvalidStreamError, RegistryDamagedError
from everquery.queries.changes import Change, Register, RegisterBlocks
from everquery.registry.block_codec import attributes_of_parts
from everquery.registry.rows import LogRow, change_of
from everquery.stream import Stream


def strangers(change: Change, stream: Stream) -> dict[tuple[str, str], str]:
    """Return the queries of a change that name attributes a stream lacks, with the reason.

    They are given by kind and id. The change may be one of a stream with further attributes behind
    those of this one.
    """
    reason = (
        "it is about an attribute that was added to the stream since; what runs on the stream as"
        " it was goes on without it: start anew"
    )
    found: list[tuple[str, str]] = []
    if isinstance(change, Register):
        known = set(stream.attributes)
        found += [(query.kind, query.id) for query in change.queries if set(query.box) - known]
    elif isinstance(change, RegisterBlocks):
        for block in change.blocks:
            if max(block.attributes) >= len(stream.attributes):
                found += [(block.kind, query_id) for query_id in block.ids.to_pylist()]
    return dict.fromkeys(found, reason)


def without_strangers(change: Change, stream: Stream) -> Change:
    """Return a change without the queries that name attributes a stream lacks."""
    if isinstance(change, Register):
        known = set(stream.attributes)
        kept = tuple(query for query in change.queries if not set(query.box) - known)
        return Register(kept, begin=change.begin)
    if isinstance(change, RegisterBlocks):
        number = len(stream.attributes)
        return RegisterBlocks(
            tuple(block for block in change.blocks if np.max(block.attributes) < number),
            begin=change.begin,
        )
    return change


def read_widely(row: LogRow, stream: Stream) -> tuple[Change, Stream]:
    """Return the change that a row holds, and the stream that it is about.

    That has further attributes, if the row names some that the given one lacks.
    """
    try:
        return change_of(row, stream), stream
    except RegistryDamagedError:
        named = sorted(_attributes_in(row) - set(stream.attributes))
        if not named:
            raise
        try:
            wide = stream.altered(attributes=named)
        except InvalidStreamError:
            wide = stream  # so it is damaged
        return change_of(row, wide), wide


def _attributes_in(row: LogRow) -> set[str]:
    """Return the attributes that the queries of a row name, as far as they can be read."""
    if row.operation == "register blocks":
        return attributes_of_parts(row.payload)
    try:
        specs: Any = json.loads(row.payload) if row.operation == "register" else []
    except (ValueError, RecursionError):
        return set()
    named: set[str] = set()
    for spec in specs if isinstance(specs, list) else []:
        if isinstance(spec, dict):
            box = spec.get("box")
            named.update(box if isinstance(box, dict) else ())
            named.update([str(spec["attribute"])] if "attribute" in spec else ())
    return named
