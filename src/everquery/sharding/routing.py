"""Which shard a key is in, and which part of a change each shard gets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from everquery.index.arrays import Array, Bools, Bytes, Int32s, Int64s
from everquery.index.jit import kernel
from everquery.queries import Query
from everquery.queries.block import QueryBlock
from everquery.queries.changes import Change, Register, RegisterBlocks
from everquery.registry.codec import decode_change, encode_change
from everquery.registry.readers import LogRow
from everquery.state.keys import family_of_key, type_of_key
from everquery.state.names import encode, hash_bytes
from everquery.stream import Stream

_UPPER = np.uint64(32)


@kernel
def write_shards(data: Bytes, starts: Int64s, shards: int, out: Int32s) -> None:
    """Write the shard of each name.

    By the upper half of the hash: the tables of names take the lower bits, and a shard whose names
    agreed in those would fill only a part of its table.
    """
    for i in range(out.size):
        mixed = hash_bytes(data, starts[i], starts[i + 1], np.uint64(0)) >> _UPPER
        out[i] = (mixed * np.uint64(shards)) >> _UPPER


def shards_of(keys: pa.Array, shards: int) -> Int32s:
    """Return the shard of each key; strings or 64-bit integers, a null's is 0."""
    out = np.zeros(len(keys), np.int32)
    if len(keys):
        names = encode(keys)
        write_shards(names.data, names.starts, shards, out)
        out[~names.valid] = 0
    return out


@dataclass(frozen=True, slots=True)
class Shards:
    """How many shards keys are divided into, and how many further ones see all of them."""

    keyed: int
    wide: int = 0


def route(
    row: LogRow, stream: Stream, kinds: dict[str, type[Query]], shards: int, wide: int = 0
) -> Iterator[tuple[int, LogRow]]:
    """Yield the part of a row of the log that each shard gets.

    Queries of one key go to the shard of that key; those that look at all keys together to one of
    the wide shards; all others to every shard but those. Who ends, pauses or resumes a query knows
    only its id, so every shard is told, and those that lack it ignore it.
    """
    change = decode_change(row.operation, row.payload, stream, kinds)
    for shard in range(shards + wide):
        part = _part(change, shard, Shards(shards, wide), kinds)
        if part is change:
            yield shard, row
            continue
        payload = b""
        for _, _, encoded in encode_change(part, stream):
            payload = encoded
        yield shard, replace(row, payload=payload)


def _part(change: Change, shard: int, shards: Shards, kinds: dict[str, type[Query]]) -> Change:
    match change:
        case Register():
            keep = (_is_here(query, shard, shards) for query in change.queries)
            return Register(
                tuple(query for query, kept in zip(change.queries, keep, strict=True) if kept)
            )
        case RegisterBlocks():
            parts = (
                _rows_here(block, shard, shards, kinds[block.kind].across_keys)
                for block in change.blocks
            )
            return RegisterBlocks(tuple(part for part in parts if len(part)))
        case _:
            return change


def _is_here(query: Query, shard: int, shards: Shards) -> bool:
    if query.key is None and not query.across_keys:
        return shard < shards.keyed
    if query.key is None:
        return bool(_wide_of(pa.array([query.id]), shards)[0] == shard)
    key = pa.array([query.key], type_of_key(query.key))
    return bool(shards_of(key, shards.keyed)[0] == shard)


def _rows_here(block: QueryBlock, shard: int, shards: Shards, across_keys: bool) -> QueryBlock:
    if block.keys is not None:
        home = shards_of(block.keys, shards.keyed)
    elif across_keys:
        home = _wide_of(block.ids, shards)
    else:
        return block if shard < shards.keyed else block.slice(0, 0)
    here: Array = np.flatnonzero(home == shard)
    return block.take(here)


def _wide_of(ids: pa.Array, shards: Shards) -> Int32s:
    """Return the wide shard of queries; the first shard, which has its say, if there is none."""
    if not shards.wide:
        return np.zeros(len(ids), np.int32)
    return shards.keyed + shards_of(ids, shards.wide)


def across_keys(change: Change, kinds: dict[str, type[Query]]) -> dict[tuple[str, str], str]:
    """Return why queries, by kind and id, can't be in a shard that sees some keys only."""
    found: list[tuple[str, str]] = []
    if isinstance(change, Register):
        found = [(q.kind, q.id) for q in change.queries if q.across_keys and q.key is None]
    elif isinstance(change, RegisterBlocks):
        for block in change.blocks:
            if kinds[block.kind].across_keys and block.keys is None:
                found += [(block.kind, query_id) for query_id in block.ids.to_pylist()]
    return dict.fromkeys(
        found, "it looks at all keys together, and this job has no wide shards (wide_shards=1)"
    )


def known_part(change: Change, live: Callable[[pa.Array], Bools]) -> Change:
    """Return what of a change by ids is about queries that are live here."""
    if isinstance(change, (Register, RegisterBlocks)):
        return change
    return replace(change, ids=change.ids.filter(pa.array(live(change.ids))))


def queries_of(change: Change) -> Iterator[tuple[str, str]]:
    """Yield kind and id of the queries that a change registers."""
    if isinstance(change, Register):
        yield from ((query.kind, query.id) for query in change.queries)
    elif isinstance(change, RegisterBlocks):
        for block in change.blocks:
            yield from ((block.kind, query_id) for query_id in block.ids.to_pylist())


def wrong_keys(change: Change, key_type: pa.DataType) -> dict[tuple[str, str], str]:
    """Return why queries, by kind and id, can't be of a stream with keys of this type.

    They are looked for before all else: a whole table of them would make a long search.
    """
    found: list[tuple[str, str]] = []
    if pa.types.is_null(key_type):
        return {}
    if isinstance(change, Register):
        found += [
            (query.kind, query.id)
            for query in change.queries
            if query.key is not None and type_of_key(query.key) != key_type
        ]
    elif isinstance(change, RegisterBlocks):
        for block in change.blocks:
            if block.keys is not None and family_of_key(block.keys.type) != key_type:
                found += [(block.kind, query_id) for query_id in block.ids.to_pylist()]
    known = "integers" if key_type == pa.int64() else "strings"
    return dict.fromkeys(found, f"keys of this stream are {known}, and its key is none")


def without(change: Change, ids: Set[str]) -> Change:
    """Return a change that leaves some queries out."""
    gone = pa.array(sorted(ids), pa.string())
    match change:
        case Register():
            return Register(tuple(query for query in change.queries if query.id not in ids))
        case RegisterBlocks():
            kept = (
                block.take(np.flatnonzero(~np.asarray(pc.is_in(block.ids, gone))))
                for block in change.blocks
            )
            return RegisterBlocks(tuple(block for block in kept if len(block)))
        case _:
            return replace(change, ids=change.ids.filter(pc.invert(pc.is_in(change.ids, gone))))
