"""Which shard a key is in, and which part of a change each shard gets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from everquery.core.arrays import Array, Bools, Bytes, Int32s, Int64s, Uint64s
from everquery.core.hashing import KEY_BYTES, key_of_bytes, siphash
from everquery.core.jit import kernel
from everquery.core.names import encode
from everquery.queries import Query
from everquery.queries.block import QueryBlock
from everquery.queries.changes import Change, Register, RegisterBlocks
from everquery.queries.known import spec_of
from everquery.registry.codec import encode_change, names_in
from everquery.registry.rows import LogRow, change_of
from everquery.state.keys import family_of_key, type_of_key
from everquery.stream import Stream

_UPPER = np.uint64(32)
NO_SECRET = bytes(KEY_BYTES)  # where all keys are trusted


@kernel
def write_shards(data: Bytes, starts: Int64s, shards: int, key: Uint64s, out: Int32s) -> None:
    """Write the shard of each name: the upper half of its hash, as a share of all shards."""
    for i in range(out.size):
        mixed = siphash(data, starts[i], starts[i + 1], key) >> _UPPER
        out[i] = (mixed * np.uint64(shards)) >> _UPPER


def shards_of(keys: pa.Array, shards: int, secret: bytes) -> Int32s:
    """Return the shard of each key; strings or 64-bit integers, a null's is 0.

    Nobody who does not know the secret can send all of his keys to one shard.
    """
    out = np.zeros(len(keys), np.int32)
    if len(keys):
        names = encode(keys)
        write_shards(names.data, names.starts, shards, key_of_bytes(secret), out)
        out[~names.valid] = 0
    return out


@dataclass(frozen=True, slots=True)
class Shards:
    """How many shards keys are divided into, how many further ones see all keys, and the secret."""

    keyed: int
    wide: int = 0
    secret: bytes = NO_SECRET


def route(row: LogRow, stream: Stream, shards: Shards) -> Iterator[tuple[int, LogRow]]:
    """Yield the part of a row of the log that each shard gets.

    Queries of one key go to the shard of that key; those that look at all keys together to one of
    the wide shards; all others to every shard but those. Who ends, pauses or resumes a query knows
    only its id, so every shard is told, and those that lack it ignore it.
    """
    row.check(stream.name)
    change = change_of(row, stream)
    for shard in range(shards.keyed + shards.wide):
        part = _part(change, shard, shards, stream)
        if part is change:
            yield shard, row
            continue
        payload = b""
        for _, _, encoded in encode_change(part, stream):
            payload = encoded
        yield shard, replace(row, payload=payload).sealed(stream.name)


def cut_rows(rows: Sequence[LogRow], stream: Stream, most_bytes: int) -> list[LogRow]:
    """Return rows of the log that say the same, none larger than so many bytes.

    A query that is larger by itself has a row of its own. The rows of one position are numbered
    anew: up to -1 in a compacted base, from 0 on in the log.
    """
    if all(len(row.payload) <= most_bytes for row in rows):
        return list(rows)
    found: dict[tuple[int, bool], list[LogRow]] = {}
    for row in sorted(rows, key=lambda row: (row.position, row.number)):
        here = found.setdefault((row.position, row.number < 0), [])
        here += _cut_row(row, stream, most_bytes)
    return [
        replace(row, number=number - len(here) if of_base else number).sealed(stream.name)
        for (_, of_base), here in found.items()
        for number, row in enumerate(here)
    ]


def _cut_row(row: LogRow, stream: Stream, most_bytes: int) -> Iterator[LogRow]:
    pieces = -(-len(row.payload) // most_bytes)
    change = change_of(row, stream) if pieces > 1 else None
    named = 0 if change is None else names_in(change)
    if change is None or named == 1:
        yield row
        return
    # All of them at the place and with the count of the whole: only together they are that change.
    for operation, _, payload in encode_change(change, stream, queries=-(-named // pieces)):
        part = replace(row, operation=operation, payload=payload)
        yield from _cut_row(part, stream, most_bytes)  # queries are not all as large


def _part(change: Change, shard: int, shards: Shards, stream: Stream) -> Change:
    match change:
        case Register():
            keep = (_is_here(query, shard, shards) for query in change.queries)
            return Register(
                tuple(query for query, kept in zip(change.queries, keep, strict=True) if kept)
            )
        case RegisterBlocks():
            parts = (_rows_here(block, shard, shards, stream) for block in change.blocks)
            return RegisterBlocks(tuple(part for part in parts if len(part)))
        case _:
            return change


def _is_here(query: Query, shard: int, shards: Shards) -> bool:
    if query.looks_across_keys:
        return bool(_wide_of(pa.array([query.shared_name]), shards)[0] == shard)
    if query.key is None:
        return shard < shards.keyed
    key = pa.array([query.key], type_of_key(query.key))
    return bool(shards_of(key, shards.keyed, shards.secret)[0] == shard)


def _rows_here(block: QueryBlock, shard: int, shards: Shards, stream: Stream) -> QueryBlock:
    spec = spec_of(block.kind)
    if block.keys is not None:
        here = shards_of(block.keys, shards.keyed, shards.secret) == shard
    else:
        wide = spec.rows_across_keys(False, block.options, len(block))
        if not wide.any():
            return block if shard < shards.keyed else block.slice(0, 0)
        names = spec.shared_names(block.ids, stream.attributes[block.attributes[0]], block.numbers)
        here = np.where(wide, _wide_of(names, shards) == shard, shard < shards.keyed)
    rows: Array = np.flatnonzero(here)
    return block.take(rows)


def _wide_of(names: pa.Array, shards: Shards) -> Int32s:
    """Return the wide shard of shared names; the first shard, which has its say, without any."""
    if not shards.wide:
        return np.zeros(len(names), np.int32)
    return shards.keyed + shards_of(names, shards.wide, shards.secret)


def across_keys(change: Change) -> dict[tuple[str, str], str]:
    """Return why queries, by kind and id, can't be in a shard that sees some keys only."""
    found: list[tuple[str, str]] = []
    if isinstance(change, Register):
        found = [(q.kind, q.id) for q in change.queries if q.looks_across_keys]
    elif isinstance(change, RegisterBlocks):
        for block in change.blocks:
            spec = spec_of(block.kind)
            wide = spec.rows_across_keys(block.keys is not None, block.options, len(block))
            ids = block.ids.filter(pa.array(wide))
            found += [(block.kind, query_id) for query_id in ids.to_pylist()]
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
