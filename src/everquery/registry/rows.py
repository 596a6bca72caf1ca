"""Rows of the registry as they are read: whole, in their places, and none missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NoReturn, TypeGuard

from everquery.errors import RegistryDamagedError, RegistryError
from everquery.queries.changes import Change, Register, RegisterBlocks
from everquery.registry.codec import EncodedRow, UnknownOperationError, decode_change, names_in
from everquery.registry.digests import digest_of
from everquery.stream import Stream

END = "end of base"
LARGEST = 2**63 - 1
_ADVICE = (
    "`everquery registry check` lists all damage, `everquery registry repair` goes on without what"
    " is lost"
)


@dataclass(frozen=True, slots=True)
class LogRow:
    """A row of the log as it is stored; the order is by position, then by number.

    ``number`` is 0 in the log. The rows of a compacted base name no positions of their own: they
    stand at the base's with ``count`` 0, and count up to -1. A row that was made in this process
    may do without a digest.
    """

    position: int
    number: int
    count: int
    operation: str
    payload: bytes
    digest: bytes | None = None

    def sealed(self, stream: str) -> LogRow:
        """Return the row with the digest that it should have."""
        return replace(self, digest=self._digest(stream))

    def check(self, stream: str) -> None:
        """Raise if the row is not as it was when it was written."""
        if self.digest is not None and self._digest(stream) != self.digest:
            damaged(stream, self.position, self.operation, "it is not as it was written")

    def _digest(self, stream: str) -> bytes:
        return digest_of(
            stream, self.position, self.number, self.count, self.operation, self.payload
        )


def damaged(stream: str, position: object, operation: object, reason: str) -> NoReturn:
    """Raise the error for a damaged row."""
    what = f" ({operation})" if isinstance(operation, str) else ""
    raise RegistryDamagedError(
        f"the log of {stream!r} is damaged at position {position!r}{what}: {reason}. {_ADVICE}",
        stream=stream,
        position=position if isinstance(position, int) else None,
        reason=reason,
    )


def whole_number(value: object, stream: str, what: str) -> int:
    """Return what a stream's row holds, if it is a number from 0 on; else raise."""
    if not is_whole(value):
        raise RegistryDamagedError(
            f"the registry's row of stream {stream!r} is damaged: its {what} is {value!r}, which is"
            f" no position. {_ADVICE}",
            stream=stream,
            reason=f"its {what} is {value!r}, which is no position",
        )
    return value


def is_whole(value: object) -> TypeGuard[int]:
    """Tell whether this is a number from 0 on, and no text that looks like one."""
    return type(value) is int and 0 <= value <= LARGEST


def change_of(row: LogRow, stream: Stream) -> Change:
    """Return the change that a row holds; raise if it holds none."""
    try:
        change = decode_change(row.operation, row.payload, stream)
    except UnknownOperationError:
        raise
    except RegistryError as error:
        damaged(stream.name, row.position, row.operation, str(error))
    if isinstance(change, Register):
        for query in change.queries:
            if query.parts()[0] is not query:
                damaged(stream.name, row.position, row.operation, f"{query.id!r} is a composite")
    if row.count and names_in(change) > row.count:
        reason = f"it names {names_in(change):,} queries, and should {row.count:,}"
        damaged(stream.name, row.position, row.operation, reason)
    return change


def logged_change(row: LogRow, stream: Stream) -> Change:
    """Return the change that a row of the registry holds; raise if none like it is written there.

    What only a shard gets of a change is in no registry.
    """
    change = change_of(row, stream)
    if isinstance(change, (Register, RegisterBlocks)) and change.mode == "leave":
        reason = "it is the part of a change that shards send each other"
        damaged(stream.name, row.position, row.operation, reason)
    return change


def log_rows(stream: str, found: Iterable[Any], start: int) -> Iterator[LogRow]:
    """Yield rows of the log, each behind the one before.

    Parameters
    ----------
    stream : str
        Its name.
    found : rows of the table, by position
        With first, count, operation, payload and digest.
    start : int
        Where the first one is to begin.
    """
    at = start
    for first, count, operation, payload, digest in found:
        if is_whole(first) and first != at:
            what = "the rows from here on are missing" if first > at else "two rows are here"
            damaged(stream, min(first, at), None, f"{what}; the next is at {first:,}")
        row = stored_row(stream, first, 0, count, operation, payload, digest)
        if not row.count:
            damaged(stream, first, operation, "its count is 0, and every change names a query")
        yield row
        at += row.count


def stored_row(
    stream: str,
    position: object,
    number: int,
    count: object,
    operation: object,
    payload: object,
    digest: object,
) -> LogRow:
    """Return a row as it is in a table, if it is as it was written; else raise."""
    for name, value in (("position", position), ("count", count)):
        if not is_whole(value):
            damaged(stream, position, operation, f"its {name} is {value!r}, which is no number")
    assert isinstance(position, int)
    assert isinstance(count, int)
    if not isinstance(operation, str):
        damaged(stream, position, None, f"its operation is {operation!r}, which is no text")
    payload, digest = as_bytes(payload), as_bytes(digest)
    if payload is None or digest is None:
        damaged(stream, position, operation, "its payload or its digest is no row of bytes")
    row = LogRow(position, number, count, operation, payload, digest)
    row.check(stream)
    return row


def as_bytes(value: object) -> bytes | None:
    """Return what a driver gives for bytes; None if it is something else."""
    return bytes(value) if isinstance(value, (bytes, bytearray, memoryview)) else None


def base_rows(stream: str, base: int, found: Iterable[Any]) -> Iterator[LogRow]:
    """Yield the rows of a compacted base, without the last, which only says that it is the last.

    Parameters
    ----------
    found : rows of the table, by number
        With number, operation, payload and digest.
    """
    expected, ended = 0, False
    for number, operation, payload, digest in found:
        if number != expected or ended:
            reason = f"row {expected:,} of the compacted base is missing; the next is {number!r}"
            damaged(stream, base, operation, reason)
        row = stored_row(stream, base, number, 0, operation, payload, digest)
        expected += 1
        ended = operation == END
        if not ended:
            yield row
    if not ended:
        damaged(stream, base, None, f"the compacted base has no row {expected:,}, nor an end")


def with_end(rows: Iterable[EncodedRow]) -> Iterator[EncodedRow]:
    """Yield the rows of a base that is written, and its last."""
    for operation, _, payload in rows:
        yield operation, 0, payload
    yield END, 0, b""


def expect_end(stream: str, end: int, head: int) -> None:
    """Raise if a log that was read does not end where it should."""
    if end != head:
        what = "missing" if end < head else "one too many: it should end here"
        reason = f"the rows from here to {max(end, head):,} are {what}"
        damaged(stream, min(end, head), None, reason)
