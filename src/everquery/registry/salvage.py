"""What can still be read of a damaged row: the ids of the queries that it named."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator

from everquery.queries.changes import Change, Register, RegisterBlocks
from everquery.registry.block_codec import ids_of_parts
from everquery.registry.codec import holds_blocks, holds_specs
from everquery.registry.rows import as_bytes

_TEXT = rb'"((?:[^"\\]|\\.)*)"'
_ID_OF_SPEC = re.compile(rb'"id": ' + _TEXT)
_ID_IN_LIST = re.compile(_TEXT)


def ids_in(change: Change) -> list[str]:
    """Return the ids of the queries that a change names."""
    match change:
        case Register():
            return [query.id for query in change.queries]
        case RegisterBlocks():
            return [each for block in change.blocks for each in block.ids.to_pylist()]
        case _:
            ids: list[str] = change.ids.to_pylist()
            return ids


def readable_ids(operation: object, stored: object) -> list[str]:
    """Return the ids that can be found in a payload that is damaged; they may be damaged too."""
    payload = stored.encode() if isinstance(stored, str) else as_bytes(stored)
    if payload is None:
        return []
    if isinstance(operation, str) and holds_blocks(operation):
        return ids_of_parts(payload)
    of_specs = isinstance(operation, str) and holds_specs(operation)
    pattern = _ID_OF_SPEC if of_specs else _ID_IN_LIST
    return list(dict.fromkeys(_texts(pattern.findall(payload))))


def _texts(found: list[bytes]) -> Iterator[str]:
    for each in found:
        with contextlib.suppress(ValueError):
            text = json.loads(b'"' + each + b'"')
            text.encode()
            yield text
