"""Which shard a key belongs to, and which part of a change each shard gets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from everquery.core.arrays import Array, Bools, Bytes, Int32s, Int64s, Uint64s
from everquery.core.encoded_names import encode
from everquery.core.hashing import KEY_BYTES, key_of_bytes, siphash
from everquery.core.jit import kernel
from everquery.queries import Query
from everquery.queries.block import QueryBlock
from everquery.queries.changes import Change, Register, RegisterBlocks
from everquery.queries.known import spec_of
from everquery.queries.of_several import of_several
from everquery.registry.codec import encode_change, names_in
from everquery.registry.rows import LogRow, change_of
from everquery.registry.strangers import read_widely
from everquery.state.keys import family_of_key, type_of_key
from everquery.stream import Stream

_UPPER = np.uint64(32)
NO_SECRET = bytes(KEY_BYTES)  # where all keys are trusted


@kernel
def write_shards(data: Bytes, starts: Int64s, shards: int, key: Uint64s, out: Int32s) -> None:
    """Write the shard of each name: the upper half of its hash, scaled to the number of shards."""
    for i in range(out.size):
        mixed = siphash(data, starts[i], starts[i + 1], key) >> _UPPER
        out[i] = (mixed * np.uint64(shards)) >> _UPPER


def shards_of(keys: pa.Array, shards: int, secret: bytes) -> Int32s:
    """Return the shard of each key. Keys are strings or 64-bit integers; that of a null is 0.

    Without the secret, nobody can choose keys that all belong to one shard.
    """
    out = np.zeros(len(keys), np.int32)
    if len(keys):
        names = encode(keys)
        write_shards(names.data, names.starts, shards, key_of_bytes(secret), out)
        out[~names.valid] = 0
    return out


@dataclass(frozen=True, slots=True)
class Shards:
    """How keys are divided into shards.

    Attributes
    ----------
    keyed : int
        How many shards have some of the keys each.
    wide : int
        How many further shards see all keys.
    secret : bytes
        What the division depends on.
    """

    keyed: int
    wide: int = 0
    secret: bytes = NO_SECRET


def route(row: LogRow, stream: Stream, shards: Shards) -> Iterator[tuple[int, LogRow]]:
    """Yield each shard's number and its part of a row of the log.

    A query with a key goes to the shard of that key. A query that looks at all keys together goes
    to one of the wide shards. All other queries go to every shard that is not wide. Changes that
    end, pause or resume queries name them only by id, so they go to all shards, and a shard ignores
    ids that it does not have. Queries that take the place of others, and may belong to other shards
    than those, go to all shards too: those that they do not belong to let the old ones end. A query
    that names an attribute which the stream lacks is routed like the others; the shards leave it
    out.
    """
    row.check(stream.name)
    change, stream = read_widely(row, stream)
    for shard in range(shards.keyed + shards.wide):
        part = part_of(change, shard, shards, stream)
        if part is change:
            yield shard, row
            continue
        payload = b""
        for _, _, encoded in encode_change(part, stream):
            payload = encoded
        yield shard, replace(row, payload=payload).sealed(stream.name)
        if isinstance(change, (Register, RegisterBlocks)) and change.mode == "move":
            here = frozenset(query_id for _, query_id in queries_of(part))
            rest = without(change, here)
            assert isinstance(rest, (Register, RegisterBlocks))
            left = replace(rest, mode="leave")
            for operation, _, encoded in encode_change(left, stream, queries=len(here) + row.count):
                yield shard, replace(row, operation=operation, payload=encoded).sealed(stream.name)


def cut_rows(rows: Sequence[LogRow], stream: Stream, most_bytes: int) -> list[LogRow]:
    """Return rows of the log with the same changes, none of them larger than `most_bytes`.

    A query that is larger by itself has a row of its own. The rows of one position get new numbers:
    up to -1 in a compacted base, from 0 on in the log.
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
    # All pieces keep the position and the count of the row: only together are they that change.
    for operation, _, payload in encode_change(change, stream, queries=-(-named // pieces)):
        part = replace(row, operation=operation, payload=payload)
        yield from _cut_row(part, stream, most_bytes)  # queries differ in size


def part_of(change: Change, shard: int, shards: Shards, stream: Stream) -> Change:
    """Return what of a change goes to a shard."""
    match change:
        case Register():
            keep = (_is_here(query, shard, shards) for query in change.queries)
            return replace(
                change,
                queries=tuple(
                    query for query, kept in zip(change.queries, keep, strict=True) if kept
                ),
            )
        case RegisterBlocks():
            parts = (_rows_here(block, shard, shards, stream) for block in change.blocks)
            return replace(change, blocks=tuple(part for part in parts if len(part)))
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
        names = spec.shared_names(block.ids, stream.places[block.attributes[0]], block.numbers)
        here = np.where(wide, _wide_of(names, shards) == shard, shard < shards.keyed)
    rows: Array = np.flatnonzero(here)
    return block.take(rows)


def _wide_of(names: pa.Array, shards: Shards) -> Int32s:
    """Return the wide shard of each shared name.

    If there are no wide shards, that is shard 0, which quarantines such queries (`across_keys`).
    """
    if not shards.wide:
        return np.zeros(len(names), np.int32)
    return shards.keyed + shards_of(names, shards.wide, shards.secret)


def leaves(change: Change) -> bool:
    """Tell whether a change is the part of a move that goes where queries do not belong."""
    return isinstance(change, (Register, RegisterBlocks)) and change.mode == "leave"


def across_keys(change: Change) -> dict[tuple[str, str], str]:
    """Return the queries of a change that a shard of some keys can't run, with the reason.

    They are given by kind and id.
    """
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


def joins(change: Change) -> dict[tuple[str, str], str]:
    """Return the queries of a change that a job of one stream can't run, with the reason."""
    return dict.fromkeys(
        of_several(change), "it tells of two streams, and a job has one; open an Engine of both"
    )


def known_part(change: Change, live: Callable[[pa.Array], Bools]) -> Change:
    """Return a change without ids of queries that are not live here; a registration as it is."""
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
    """Return the queries of a change whose keys are of another type, with the reason.

    They are given by kind and id. They are found before any work is done: if a whole table of them
    made the work fail, the search for culprits would take long.
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
    """Return a change without some queries."""
    gone = pa.array(sorted(ids), pa.string())
    match change:
        case Register():
            kept_queries = tuple(query for query in change.queries if query.id not in ids)
            return replace(change, queries=kept_queries)
        case RegisterBlocks():
            kept = (
                block.take(np.flatnonzero(~np.asarray(pc.is_in(block.ids, gone))))
                for block in change.blocks
            )
            return replace(change, blocks=tuple(block for block in kept if len(block)))
        case _:
            return replace(change, ids=change.ids.filter(pc.invert(pc.is_in(change.ids, gone))))
