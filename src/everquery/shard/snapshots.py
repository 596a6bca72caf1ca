"""A shard as bytes, and back: everything that it knows, without its structures."""

from __future__ import annotations

from typing import Any

import numpy as np

from everquery.core.arrays import Array, Int32s
from everquery.index.rows import Rows, Shape
from everquery.shard import Shard
from everquery.shard.checks import check_snapshot
from everquery.state.snapshot import check_stream, pack, stream_header, unpack
from everquery.stream import Stream

ROW_PARTS = ("slot", "key", "low", "high")


def snapshot_of(shard: Shard, position: int = 0) -> bytes:
    """Return everything that a shard knows, and the log position that it stands at."""
    shard.settle()
    header: dict[str, Any] = {
        "position": position,
        "stream": stream_header(shard.stream),
        "counts": {"events": shard.events, "notices": shard.notices},
        "shapes": [],
        "quotas": list(shard.quotas.items()),
        "ended": sorted(shard.ended),
    }
    arrays: dict[str, Array] = {}
    kept = shard.catalog.save(arrays)
    shard.hygiene.save(header, arrays, kept)
    shard.keys.save(header, arrays)
    shard.admission.save(header, arrays)
    shard.dead_letters.save(arrays)
    for kind, index in shard.indexes.items():
        for rows in index.rows(shard.catalog.flags):
            name = f"rows{len(header['shapes'])}"
            header["shapes"].append([kind, list(rows.shape.attributes), rows.shape.keyed])
            slot = np.searchsorted(kept, rows.slot).astype(np.int32)
            for part, array in zip(ROW_PARTS, (slot, *rows.arrays()[1:]), strict=True):
                arrays[f"{name}.{part}"] = array
        slots = shard.of_kind(kept.astype(np.int32), kind)
        for name, array in (index.numbers(slots) | index.state(slots)).items():
            arrays[f"{kind}.{name}"] = array
    return pack(header, arrays)


def shard_of(stream: Stream, snapshot: bytes, *, labelled: bool = False) -> tuple[Shard, int]:
    """Return the shard that a snapshot was taken of, and its log position.

    Raises
    ------
    SnapshotError
        If the bytes are damaged, of another stream, or of a newer version.
    """
    header, arrays = unpack(snapshot)
    check_stream(header.get("stream"), stream)
    check_snapshot(header, arrays, stream)
    shard = Shard(stream, labelled=labelled)
    shard.events = header["counts"]["events"]
    shard.notices = header["counts"]["notices"]
    shard.quotas = dict(header.get("quotas", ()))
    shard.ended = set(header.get("ended", ()))
    shard.keys.load(header, arrays)
    shard.admission.load(header, arrays)
    shard.catalog.load(arrays)
    shard.hygiene.load(header, arrays, shard.admission.time_type)
    shard.dead_letters.load(arrays)
    states = _states(shard, arrays)
    for kind, (slots, state) in states.items():
        shard.indexes[kind].describe(slots, state)
    for i, (kind, attributes, keyed) in enumerate(header["shapes"]):
        shape = Shape(tuple(attributes), keyed)
        rows = Rows(shape, *(arrays[f"rows{i}.{part}"] for part in ROW_PARTS))
        shard.indexes[kind].add(rows, shard.catalog.flags, announce=False)
    for kind, (slots, state) in states.items():
        shard.indexes[kind].set_state(slots, state)
    shard.announce_again()
    return shard, int(header["position"])


def _states(shard: Shard, arrays: dict[str, Array]) -> dict[str, tuple[Int32s, dict[str, Array]]]:
    """Return the queries of each kind that has numbers, those numbers, and how far they are."""
    states = {}
    for kind in shard.indexes:
        prefix = f"{kind}."
        state = {
            name.removeprefix(prefix): array
            for name, array in arrays.items()
            if name.startswith(prefix)
        }
        if state:
            slots = shard.of_kind(np.arange(len(shard.catalog), dtype=np.int32), kind)
            states[kind] = slots, state
    return states
