"""Asserts about notices that users can use too."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from everquery.kinds import KINDS
from everquery.stream import Stream
from everquery.testing.notice import Notice

_OF_ALL = ("query_id", "kind", "event", "key", "time", "seq", "reason", "held_back", "notice_id")
_OF_RUNTIMES = ("log_position", "owner", "labels")


def notices_of(table: pa.Table, stream: Stream) -> list[Notice]:
    """Return a table of notices as comparable objects, in order."""
    others = {*_OF_ALL, *_OF_RUNTIMES, *stream.attributes}
    further = [name for name in table.column_names if name not in others]
    return [
        Notice(
            query_id=row["query_id"],
            event=row["event"],
            key=row["key"],
            seq=row["seq"],
            reason=row["reason"],
            time=row["time"],
            values=tuple(row[name] for name in stream.attributes),
            held_back=row["held_back"],
            further=_further(row, further),
        )
        for row in table.to_pylist()
    ]


def _further(row: dict[str, Any], names: list[str]) -> tuple[tuple[str, Any], ...]:
    """Return the columns that only some kinds have; one may be named after its kind too."""
    prefixes = [f"{kind}_" for kind in KINDS]
    found = []
    for name in names:
        if row[name] is not None:
            prefix = next((each for each in prefixes if name.startswith(each)), "")
            found.append((name.removeprefix(prefix), row[name]))
    return tuple(found)


def by_key(notices: Iterable[Notice]) -> dict[Any, list[Notice]]:
    """Return each key's notices, in order."""
    keys: defaultdict[Any, list[Notice]] = defaultdict(list)
    for notice in notices:
        keys[notice.key].append(notice)
    return dict(keys)


def assert_same_notices(actual: Iterable[Notice], expected: Iterable[Notice]) -> None:
    """Assert that two runs told the same, in the same order within each key."""
    ours, theirs = by_key(actual), by_key(expected)
    for key in ours.keys() | theirs.keys():
        got, wanted = ours.get(key, []), theirs.get(key, [])
        if got != wanted:
            at = next(
                (i for i, pair in enumerate(zip(got, wanted, strict=False)) if pair[0] != pair[1]),
                min(len(got), len(wanted)),
            )
            raise AssertionError(
                f"key {key!r}: notice {at} of {len(got)} (expected {len(wanted)}) differs:\n"
                f"  got      {got[at] if at < len(got) else None}\n"
                f"  expected {wanted[at] if at < len(wanted) else None}"
            )


def assert_unique_ids(notices: pa.Table) -> None:
    """Assert that no notice id occurs twice."""
    ids = notices["notice_id"]
    assert len(ids.unique()) == len(ids), "a notice id occurs twice"
