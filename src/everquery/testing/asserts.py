"""Asserts about notices that users can use too."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from everquery.kinds import KINDS
from everquery.shard.layout import figure_names
from everquery.stream import Stream
from everquery.testing.notice import Notice


def notices_of(table: pa.Table, stream: Stream) -> list[Notice]:
    """Return a table of notices as comparable objects, in order."""
    names = figure_names(stream)
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
            further=_further(row, names),
        )
        for row in table.to_pylist()
    ]


def _further(row: dict[str, Any], names: dict[str, str]) -> tuple[tuple[str, Any], ...]:
    """Return the columns that only notices of its kind have, where they are filled."""
    columns = (column.name for column in KINDS[row["kind"]].index.columns)
    return tuple((name, row[names[name]]) for name in columns if row[names[name]] is not None)


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
