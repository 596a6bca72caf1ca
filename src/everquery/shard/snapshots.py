"""A shard as bytes, and back: all parts of its state, whole."""

from __future__ import annotations

from everquery.core.crew import ALONE, Crew
from everquery.core.framing import DamagedError, NewerError
from everquery.core.invariants import check_count, of_type
from everquery.core.parts import pack_parts, unpack_parts
from everquery.errors import SnapshotError
from everquery.shard.parts import load_parts, parts_of
from everquery.shard.shard import Shard
from everquery.state.stream_header import misfit, stream_header
from everquery.stream import Stream


def snapshot_of(shard: Shard, position: int = 0) -> bytes:
    """Return everything that a shard knows, and the log position that it stands at."""
    shard.queries.settle()
    header = {"holds": "snapshot", "position": position, "stream": stream_header(shard.stream)}
    return pack_parts(header, [(part, part.whole()) for part in parts_of(shard)])


def shard_of(
    stream: Stream,
    snapshot: bytes,
    *,
    labelled: bool = False,
    all_columns: bool = True,
    crew: Crew = ALONE,
    answering: bool = False,
) -> tuple[Shard, int]:
    """Return the shard that a snapshot was taken of, and its log position.

    Raises
    ------
    SnapshotError
        If the bytes are damaged, of another stream, or of a newer version.
    """
    if not isinstance(snapshot, (bytes, bytearray, memoryview)):
        raise SnapshotError(
            f"a snapshot is bytes, not {type(snapshot).__name__}; give what Engine.snapshot"
            " returned. The engine is as it was"
        )
    try:
        shard = Shard(
            stream, labelled=labelled, all_columns=all_columns, crew=crew, answering=answering
        )
        return shard, _read(shard, memoryview(snapshot))
    except DamagedError as error:
        raise SnapshotError(
            f"these bytes are no everquery snapshot, or a damaged or forged one: {error}; restore"
            " from another one. The engine is as it was"
        ) from None
    except NewerError as error:
        raise SnapshotError(
            f"the snapshot {error}; upgrade everquery to restore it. The engine is as it was"
        ) from None


def _read(shard: Shard, snapshot: memoryview) -> int:
    """Fill a new shard; return its log position."""
    parts = parts_of(shard)
    header, saved = unpack_parts(snapshot, parts)
    if header.get("holds") != "snapshot":
        raise DamagedError("it holds something else")
    said = misfit(of_type(header, "stream", dict), shard.stream)
    if said:
        raise SnapshotError(
            f"the snapshot can't be restored here: {said}; restore it into an engine of its own"
            " stream. The engine is as it was"
        )
    check_count("position", header.get("position"))
    load_parts(parts, saved)
    shard.queries.announce_again()
    return int(header["position"])
