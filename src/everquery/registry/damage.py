"""Find all damage of a registry: every row of every stream is looked at, and none is changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, TextClause, text

from everquery.errors import RegistryDamagedError, RegistryError
from everquery.registry.definitions import stored_stream
from everquery.registry.digests import digest_of
from everquery.registry.rows import END, as_bytes, is_whole, logged_change, stored_row
from everquery.registry.salvage import readable_ids
from everquery.stream import Stream

MOST_IN_A_ROW = 2**31 - 1  # queries: so many may be missing at the end of a log

_STREAMS = text("SELECT name, definition, head, base, digest FROM everquery_streams ORDER BY name")
_FIRSTS = text("SELECT first FROM everquery_changes WHERE stream = :stream ORDER BY first")
_CHANGE = text(
    "SELECT count, operation, payload, digest FROM everquery_changes"
    " WHERE stream = :stream AND first = :first"
)
_BASE = text(
    "SELECT number, operation, payload, digest FROM everquery_bases"
    " WHERE stream = :stream ORDER BY number"
)
_KEPT = text("SELECT DISTINCT base FROM everquery_kept_bases WHERE stream = :stream")
_KEPT_BASE = text(
    "SELECT number, operation, payload, digest FROM everquery_kept_bases"
    " WHERE stream = :stream AND base = :base ORDER BY number"
)
_READERS = text("SELECT reader, position, base FROM everquery_readers WHERE stream = :stream")
_QUOTAS = text("SELECT owner, most FROM everquery_quotas WHERE stream = :stream")


@dataclass(frozen=True, slots=True)
class Damage:
    """One thing that is wrong.

    Attributes
    ----------
    stream : str
        Empty if it is of no stream.
    position : int or None
        Where it is in the stream's log.
    what : str
        The operation of the row, or what else it is.
    reason : str
    ids : tuple of str
        The queries that the row named, as far as they can be read.
    """

    stream: str
    position: int | None
    what: str
    reason: str
    ids: tuple[str, ...] = ()


@dataclass
class BaseScan:
    """A compacted base: the numbers of the rows that are whole, and whether others are not."""

    position: object
    whole: list[int] = field(default_factory=list)
    damaged: bool = False


@dataclass
class Scan:
    """What of a stream is whole.

    Attributes
    ----------
    stream : Stream or None
        None if its definition is damaged; nothing else is looked at then.
    head, base : int
        As they should be.
    ends_damaged : bool
        Whether they are not so.
    whole : positions and counts of the rows of the log that are whole
    bad : what is in the place of the position of those that are not
    gaps : from and to which position whole rows are missing
    compacted, kept : the base, and those that readers began with
    readers, quotas : names of rows that are damaged
    """

    name: str
    stream: Stream | None
    head: int = 0
    base: int = 0
    ends_damaged: bool = False
    whole: list[tuple[int, int]] = field(default_factory=list)
    bad: list[Any] = field(default_factory=list)
    gaps: list[tuple[int, int]] = field(default_factory=list)
    compacted: BaseScan = field(default_factory=lambda: BaseScan(0))
    kept: list[BaseScan] = field(default_factory=list)
    readers: list[Any] = field(default_factory=list)
    quotas: list[Any] = field(default_factory=list)
    damages: list[Damage] = field(default_factory=list)

    def note(self, position: object, what: object, reason: str, ids: Sequence[str] = ()) -> None:
        """Note something that is wrong."""
        place = position if isinstance(position, int) else None
        self.damages.append(Damage(self.name, place, str(what), reason, tuple(ids)))


def scan_streams(connection: Connection) -> list[Scan]:
    """Look at every row of every stream."""
    scans = []
    for row in connection.execute(_STREAMS).all():
        scan = Scan(row.name, None)
        scans.append(scan)
        try:
            scan.stream = stored_stream(row.name, row.definition, row.digest)
        except RegistryDamagedError as error:
            scan.note(None, "stream", error.reason)
            continue
        _Scanner(connection, scan).scan(row.head, row.base)
    return scans


class _Scanner:
    """Looks at the rows of one stream."""

    def __init__(self, connection: Connection, scan: Scan) -> None:
        assert scan.stream is not None
        self._connection, self._scan = connection, scan
        self._stream = scan.stream
        self._at = {"stream": scan.name}

    def scan(self, head: object, base: object) -> None:
        """Look at all there is."""
        scan = self._scan
        firsts = [row.first for row in self._connection.execute(_FIRSTS, self._at)]
        for first in firsts:
            self._change(first)
        scan.base = self._base_position(head, base)
        scan.compacted = self._base(scan.base, _BASE, "base")
        self._ends(head, base)
        for (position,) in self._connection.execute(_KEPT, self._at).all():
            scan.kept.append(self._base(position, _KEPT_BASE, "kept base"))
        self._others()

    def _change(self, first: object) -> None:
        """Look at a row of the log."""
        scan = self._scan
        count, operation, payload, digest = self._connection.execute(
            _CHANGE, {**self._at, "first": first}
        ).one()
        try:
            row = stored_row(scan.name, first, 0, count, operation, payload, digest)
            if not row.count:
                raise RegistryError("its count is 0")
            if scan.whole and row.position < sum(scan.whole[-1]):
                raise RegistryError("the row before it goes further than to here")
            if scan.whole and row.position > sum(scan.whole[-1]) + MOST_IN_A_ROW:
                raise RegistryError("it is far behind the row before it")
            logged_change(row, self._stream)
        except RegistryError as error:
            reason = getattr(error, "reason", str(error))
            scan.note(first, operation, reason, readable_ids(operation, payload))
            scan.bad.append(first)
        else:
            scan.whole.append((row.position, row.count))

    def _base_position(self, head: object, base: object) -> int:
        """Return where the base should be: where the digest of its last row is right."""
        scan = self._scan
        ends = [row for row in self._connection.execute(_BASE, self._at) if row.operation == END]
        places = [base, *(first for first, _ in scan.whole), *map(sum, scan.whole[-1:]), head]
        for place in filter(is_whole, places):
            for row in ends:
                known = digest_of(scan.name, place, row.number, 0, END, b"")
                if known == as_bytes(row.digest):
                    return place
        if is_whole(base) and (not is_whole(head) or base <= head):
            return base
        return scan.whole[0][0] if scan.whole else 0

    def _base(self, position: object, statement: TextClause, what: str) -> BaseScan:
        """Look at the rows of a base."""
        scan = self._scan
        found = BaseScan(position)
        known = len(scan.damages)
        rows = self._connection.execute(statement, {**self._at, "base": position}).all()
        ended = not rows and position == 0
        for expected, (number, operation, payload, digest) in enumerate(rows):
            try:
                row = stored_row(scan.name, position, number, 0, operation, payload, digest)
                if operation == END:
                    ended = True
                else:
                    logged_change(row, self._stream)
            except RegistryError as error:
                reason = getattr(error, "reason", str(error))
                ids = readable_ids(operation, payload)
                scan.note(position, f"{what}: {operation}", reason, ids)
                found.damaged = True
                continue
            if number != expected:
                found.damaged = True
            if operation != END:
                found.whole.append(number)
        if not ended or (found.damaged and len(scan.damages) == known):
            scan.note(position, what, "rows of it are missing")
            found.damaged = True
        return found

    def _ends(self, head: object, base: object) -> None:
        """Find what is missing between the beginning of the log and its head."""
        scan = self._scan
        starts = [first for first, _ in scan.whole] + [each for each in scan.bad if is_whole(each)]
        at = min([each for each in starts if each < scan.base], default=scan.base)
        for first, count in scan.whole:
            if first > at:
                scan.gaps.append((at, first))
            at = first + count
        scan.head = at
        if is_whole(head) and at < head <= at + MOST_IN_A_ROW:
            scan.gaps.append((at, head))
            scan.head = head
        bad = set(map(repr, scan.bad))
        for start, end in scan.gaps:
            if repr(start) not in bad:
                scan.note(start, "missing", f"the rows from here to {end:,} are missing")
        if scan.head != head:
            scan.note(scan.head, "head", f"the stream's head is {head!r}, and its log ends here")
        if scan.base != base:
            scan.note(scan.base, "base", f"the stream's base is {base!r}, and should be here")
        scan.ends_damaged = (scan.head, scan.base) != (head, base)

    def _others(self) -> None:
        """Look at readers and quotas."""
        scan = self._scan
        for reader, position, base in self._connection.execute(_READERS, self._at):
            if not is_whole(position) or not (is_whole(base) or base == -1):
                scan.note(None, "reader", f"{reader!r} is at {position!r}, which is no position")
                scan.readers.append(reader)
        for owner, most in self._connection.execute(_QUOTAS, self._at):
            if not is_whole(most):
                scan.note(None, "quota", f"that of {owner!r} is {most!r}, which is no number")
                scan.quotas.append(owner)
