"""Repair a registry: what is whole stays, and a note takes the place of what is lost.

Positions stay as they are, so that readers and snapshots go on from where they stand. The caller's
transaction makes it all or nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from sqlalchemy import Connection, text

from everquery.errors import RegistryDamagedError
from everquery.queries.changes import Change, Deregister, Register, RegisterBlocks
from everquery.registry.codec import LOST, decode_change
from everquery.registry.damage import MOST_IN_A_ROW, BaseScan, Damage, Scan, scan_streams
from everquery.registry.digests import digest_of
from everquery.registry.orphans import left_log, orphans
from everquery.registry.rows import END, is_whole, stored_row
from everquery.registry.salvage import ids_in, readable_ids
from everquery.registry.tables import VERSION, check_version, make_tables, meta, missing_tables

_DELETE_CHANGE = text("DELETE FROM everquery_changes WHERE stream = :stream AND first = :first")
_CHANGE = text(
    "SELECT operation, payload FROM everquery_changes WHERE stream = :stream AND first = :first"
)
_INSERT_CHANGE = text(
    "INSERT INTO everquery_changes VALUES (:stream, :first, :count, :operation, :payload, :digest)"
)
_LEFT = text(
    "SELECT first, count, operation, payload, digest FROM everquery_changes"
    " WHERE stream = :stream ORDER BY first"
)
_DELETE_BASE = text("DELETE FROM everquery_bases WHERE stream = :stream")
_SPAN = text("UPDATE everquery_streams SET head = :head, base = :base WHERE name = :stream")
_DELETE_STREAM = text("DELETE FROM everquery_streams WHERE name = :stream")
_VERSION = text("UPDATE everquery_meta SET value = :version WHERE name = 'version'")
_POSITIONS = text("SELECT position FROM everquery_readers WHERE stream = :stream")


def find_damage(connection: Connection, shown: str) -> list[Damage]:
    """Return all that is wrong with a registry, whose name in messages is `shown`."""
    tables = _bad_tables(connection, shown)
    if tables:
        return tables
    found = [damage for scan in scan_streams(connection) for damage in scan.damages]
    for name in orphans(connection):
        found += _left(connection, name)[0]
    return found


def repair(connection: Connection, shown: str) -> list[Damage]:
    """Make a registry whole, and return what was wrong with it.

    Parameters
    ----------
    connection : Connection
        In a transaction that may write.
    """
    found = _bad_tables(connection, shown)
    make_tables(connection)
    connection.execute(_VERSION, {"version": str(VERSION)})
    for scan in scan_streams(connection):
        found += scan.damages
        if scan.damages:
            _Repair(connection, scan).run()
    for name in orphans(connection):
        damages, bad = _left(connection, name)
        found += damages
        for first in bad:
            connection.execute(_DELETE_CHANGE, {"stream": name, "first": first})
        if not _base_of(connection, name):
            connection.execute(_DELETE_BASE, {"stream": name})
    return found


def _bad_tables(connection: Connection, shown: str) -> list[Damage]:
    missing = missing_tables(connection)
    found = [Damage("", None, "table", f"{name} is missing") for name in missing]
    version = "" if meta.name in missing else check_version(connection, shown)
    return [*found, *([Damage("", None, "version", version)] if version else [])]


def _left(
    connection: Connection,
    name: Any,  # noqa: ANN401 - as stored
) -> tuple[list[Damage], list[object]]:
    """Return what is wrong with a log without stream, and the positions of rows not of this log.

    A row whose stream's name has been changed is there too; its digest tells.
    """
    damages, bad, whole = [], [], _base_of(connection, name) > 0
    for first, *row in connection.execute(_LEFT, {"stream": name}):
        try:
            stored_row(name, first, 0, *row)
        except RegistryDamagedError as error:
            place = first if isinstance(first, int) else None
            ids = tuple(readable_ids(row[1], row[2]))
            damages.append(Damage(str(name), place, str(row[1]), error.reason, ids))
            bad.append(first)
        else:
            whole = True
    reason = "it has a log, and is missing itself; create it again as it was, and the log is its"
    if whole:
        damages.append(Damage(str(name), None, "stream", reason))
    elif not damages:
        damages.append(Damage(str(name), None, "base", "it is of no stream that there is"))
    return damages, bad


def _base_of(connection: Connection, name: Any) -> int:  # noqa: ANN401 - as stored
    return (left_log(connection, name) or (0, 0))[1]


class _Repair:
    """Makes one stream whole."""

    def __init__(self, connection: Connection, scan: Scan) -> None:
        self._connection, self._scan = connection, scan
        self._at = {"stream": scan.name}

    def run(self) -> None:
        scan, do = self._scan, self._connection.execute
        if scan.stream is None:
            do(_DELETE_STREAM, self._at)
            return
        for first in scan.bad:
            do(_DELETE_CHANGE, {**self._at, "first": first})
        for base in scan.kept:
            if base.damaged:
                self._base(base, "everquery_kept_bases", " AND base = :base")
        if scan.compacted.damaged:
            self._base(scan.compacted, "everquery_bases", "")
        pieces = list(self._pieces())
        ended = self._ended([first for first, _ in pieces])
        for first, count in pieces:
            payload = json.dumps(ended[first]).encode()
            self._insert(first, count, payload)
        do(_SPAN, {**self._at, "head": scan.head, "base": scan.base})
        for reader in scan.readers:
            do(
                text("DELETE FROM everquery_readers WHERE stream = :stream AND reader = :reader"),
                {**self._at, "reader": reader},
            )
        for owner in scan.quotas:
            do(
                text("DELETE FROM everquery_quotas WHERE stream = :stream AND owner = :owner"),
                {**self._at, "owner": owner},
            )

    def _pieces(self) -> Iterator[tuple[int, int]]:
        """Yield position and count of the rows that fill the gaps.

        A row begins wherever one began before, and wherever a reader stands.
        """
        scan = self._scan
        marks = {row.position for row in self._connection.execute(_POSITIONS, self._at)}
        marks = {each for each in (*marks, *scan.bad, scan.base) if type(each) is int}
        for start, end in scan.gaps:
            cuts = sorted({start, end, *(mark for mark in marks if start < mark < end)})
            for first, last in pairwise(cuts):
                for at in range(first, last, MOST_IN_A_ROW):
                    yield at, min(last - at, MOST_IN_A_ROW)

    def _insert(self, first: int, count: int, payload: bytes) -> None:
        digest = digest_of(self._scan.name, first, 0, count, LOST, payload)
        row = {"first": first, "count": count, "operation": LOST, "payload": payload}
        self._connection.execute(_INSERT_CHANGE, {**self._at, **row, "digest": digest})

    def _ended(self, lost: list[int]) -> dict[int, list[str]]:
        """Return which queries must have ended in each of the rows that are lost.

        A query that is registered while it is live has ended in between: in the last row that is
        lost before.
        """
        ended: dict[int, list[str]] = {first: [] for first in lost}
        if not lost:
            return ended
        live: set[str] = set()
        waiting = sorted(lost)
        latest: int | None = None
        for position, change in self._changes():
            while waiting and waiting[0] < position:
                latest = waiting.pop(0)
            names = ids_in(change)
            if isinstance(change, (Register, RegisterBlocks)):
                if latest is not None and change.mode == "register":
                    ended[latest] += [name for name in names if name in live]
                live.update(names)
            elif isinstance(change, Deregister):
                live.difference_update(names)
        return ended

    def _changes(self) -> Iterator[tuple[int, Change]]:
        """Yield the whole changes of the base and the log, with their positions."""
        scan = self._scan
        assert scan.stream is not None
        rows = self._connection.execute(
            text(
                "SELECT operation, payload FROM everquery_bases"
                " WHERE stream = :stream AND operation <> :end ORDER BY number"
            ),
            {**self._at, "end": END},
        ).all()
        for operation, payload in rows:
            yield scan.base, decode_change(operation, bytes(payload), scan.stream)
        for first, _ in scan.whole:
            if first >= scan.base:
                row = self._connection.execute(_CHANGE, {**self._at, "first": first}).one()
                change = decode_change(row[0], bytes(row[1]), scan.stream)
                yield first, change

    def _base(self, base: BaseScan, table: str, which: str) -> None:
        """Write a base anew, with the rows that are whole."""
        at = {**self._at, "base": base.position}
        rows = self._connection.execute(
            text(f"SELECT number, operation, payload FROM {table} WHERE stream = :stream{which}"),
            at,
        ).all()
        kept = {number: (operation, bytes(payload)) for number, operation, payload in rows
                if number in base.whole}  # fmt: skip
        self._connection.execute(text(f"DELETE FROM {table} WHERE stream = :stream{which}"), at)
        if not is_whole(base.position):
            return
        columns = ":stream, :base, :number" if which else ":stream, :number"
        insert = text(f"INSERT INTO {table} VALUES ({columns}, :operation, :payload, :digest)")
        for number, (operation, payload) in enumerate(
            [*(kept[each] for each in base.whole), (END, b"")]
        ):
            digest = digest_of(self._scan.name, base.position, number, 0, operation, payload)
            row = {"number": number, "operation": operation, "payload": payload}
            self._connection.execute(insert, {**at, **row, "digest": digest})
