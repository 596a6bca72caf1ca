"""What the state of quantile queries must be: what they ask, cells of ranks, summaries of rows."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from everquery.checks.invariants import (
    MOST,
    Array,
    Column,
    Contents,
    check_none,
    check_unique,
    refuse,
)
from everquery.checks.parts import KIND_NAMES
from everquery.index.arrays import BY_KEY
from everquery.index.gk_merge import BELOW_ONE
from everquery.index.quantile_feed import COARSEST, COARSEST_WINDOW, FINEST, FeedName
from everquery.index.quantile_index import label_of
from everquery.index.window_summary import WindowSummaries
from everquery.queries import Quantile
from everquery.queries.quantile import LONGEST_WINDOW, bad_window

QUANTILES = {
    "quantile.phi": Column("float64", ("quantiles",), least=1e-323, below=np.nextafter(1, 2)),
    "quantile.epsilon": Column("float64", ("quantiles",), least=1e-323, below=1),
    "quantile.last": Column("int64", ("quantiles",), least=0, below=LONGEST_WINDOW + 1),
}
MOST_CODE = 1 << 40  # no cell is nearly as narrow
FEED = {
    "error": Column("float64", (1,), with_nan=True),
    "lanes": Column("int32", ("lanes",), least=0, below="all lanes", rising=True),
    "cell.lane": Column("int64", ("cells",), least=0, below="lanes"),
    "cell.code": Column("int64", ("cells",), least=1, below=MOST_CODE),
    "cell.value": Column("float64", ("cells",), with_nan=True),
    "member.lane": Column("int64", ("members",), least=0, below="lanes"),
    "member.slot": Column("int64", ("members",), least=0, below="quantiles"),
    "member.told": Column("float64", ("members",), with_nan=True),
    "summary": Column("int64", ("summaries",), least=0, below="lanes", rising=True),
}
# Of whole streams: see `everquery.index.gk_summary`.
STREAM_SUMMARY = {
    "summary.values": Column("float64", ("values",)),
    "summary.r_minus": Column("int64", ("values",)),
    "summary.r_plus": Column("int64", ("values",)),
    "summary.sizes": Column("int64", ("summaries",), least=0, below="most values"),
    "summary.waits": Column("int64", ("summaries",), least=0, below="most waiting"),
    "summary.seen": Column("int64", ("summaries",), least=0, below=MOST),
}
# Of the last rows: see `everquery.index.window_summary`.
WINDOW_SUMMARY = {
    "summary.values": Column("float64", ("values",)),
    "summary.buckets": Column("int32", ("values",), least=0),
    "summary.rows": Column("float64", ("rows",)),
    "summary.lowest": Column("float64", ("buckets", "summaries")),
    "summary.sizes": Column("int64", ("summaries",), least=0, below="most values"),
    "summary.seen": Column("int64", ("summaries",), least=0, below="most seen"),
}
_LABEL = re.compile(r"quantile\.(feed (0|[1-9]\d{0,9}) (0|[1-9]\d{0,9}) ([01])) (.+)", re.ASCII)


def check_quantiles(contents: Contents, header: dict[str, Any]) -> None:
    """Raise if what quantile queries ask, or know, can't be."""
    kinds = contents["queries.kind"]
    slots = np.flatnonzero(kinds == KIND_NAMES.index(Quantile.kind))
    contents.sizes["quantiles"] = slots.size
    if not slots.size and not contents.has("quantile.phi"):
        return  # older ones know of no quantiles
    contents.check(QUANTILES)
    last, epsilon = contents["quantile.last"], contents["quantile.epsilon"]
    for rows, share in set(zip(last.tolist(), epsilon.tolist(), strict=True)):
        if rows and bad_window(rows, share):
            refuse(f"a quantile query has a window of {rows} rows and an epsilon of {share}")
    wanted = _feeds(contents, header, slots)
    saved = {label for name in contents.arrays if (label := _LABEL.match(name))}
    names = {FeedName(int(each[2]), int(each[3]), each[4] == "1") for each in saved}
    if names != wanted:
        refuse("summaries are not those that its quantile queries need")
    for name in sorted(wanted):
        _check_feed(contents, name)


def _feeds(contents: Contents, header: dict[str, Any], slots: Array) -> set[FeedName]:
    """Return the feeds that the queries need."""
    found = set()
    for number, (kind, attributes, keyed) in enumerate(header["shapes"]):
        if kind == Quantile.kind:
            slot = contents[f"rows{number}.slot"]
            last = contents["quantile.last"][np.searchsorted(slots, slot)]
            by_key = contents["queries.flags"][slot] & BY_KEY != 0
            for window, every in set(zip(last.tolist(), by_key.tolist(), strict=True)):
                found.add(FeedName(attributes[0], window, keyed or every))
    return found


def _check_feed(contents: Contents, name: FeedName) -> None:
    prefix = f"quantile.{label_of(name)} "
    # Sizes of one feed are not those of the next.
    feed = Contents(
        {
            part.removeprefix(prefix): array
            for part, array in contents.arrays.items()
            if part.startswith(prefix)
        },
        {
            "all lanes": contents.sizes["keys"] if name.keyed else 1,
            "quantiles": contents.sizes["quantiles"],
        },
    )
    feed.check(FEED)
    members = feed["member.slot"] << 32 | feed["member.lane"]
    check_unique(f"array {prefix + 'member.slot'!r}", members)
    error = float(feed["error"][0])
    if np.isnan(error):
        if any(feed.sizes[size] for size in ("lanes", "cells", "members", "summaries")):
            refuse("a summary has no error, and holds something")
    else:
        coarsest = COARSEST_WINDOW if name.window else COARSEST
        if not FINEST / 2 <= error <= coarsest / 2:
            refuse(f"a summary errs {error}, which can't be")
        if feed.sizes["summaries"]:
            check = _check_windows if name.window else _check_summaries
            check(feed, error, name.window)
    feed.check_all_seen()
    contents.seen.update(prefix + part for part in feed.seen)


def _check_summaries(feed: Contents, error: float, _window: int) -> None:
    """Raise if tuples are not in order, or if a gap between ranks is wider than it may be."""
    values = feed["summary.values"] if feed.has("summary.values") else np.empty(0)
    feed.sizes["most values"] = values.size + 1
    feed.sizes["most waiting"] = max(1, int(1 / (2 * error))) + 1
    feed.check(STREAM_SUMMARY)
    sizes, waits, seen = (feed[f"summary.{part}"] for part in ("sizes", "waits", "seen"))
    if int(sizes.sum()) + int(waits.sum()) != values.size:
        refuse("array 'summary.values' is not as long as its summaries")
    end = np.cumsum(sizes + waits)
    begin = end - sizes - waits
    r_minus, r_plus = feed["summary.r_minus"], feed["summary.r_plus"]
    for i in range(sizes.size):
        tuples = slice(begin[i], begin[i] + sizes[i])
        run = slice(begin[i] + sizes[i], end[i])
        _check_tuples(
            values[tuples], r_minus[tuples], r_plus[tuples], int(seen[i] - waits[i]), error
        )
        if (np.diff(values[run]) < 0).any():
            refuse("array 'summary.values' is not in order where values wait")


def _check_tuples(values: Array, r_minus: Array, r_plus: Array, n: int, error: float) -> None:
    if n < 0 or (np.diff(values) < 0).any():
        refuse("array 'summary.values' is not in order")
    below = np.concatenate([[0], r_minus])
    above = np.concatenate([r_plus, [n + 1]])
    capacity = max(1, int(2 * error * n * BELOW_ONE))
    in_order = (np.diff(r_minus) >= 0).all() and (np.diff(r_plus) >= 0).all()
    inside = ((r_minus >= 1) & (r_minus <= r_plus) & (r_plus <= n)).all()
    if not in_order or not inside or (above - below > capacity).any():
        refuse(f"ranks of a summary of {n} rows can't be")


def _check_windows(feed: Contents, error: float, window: int) -> None:
    """Raise if buckets do not have as many samples as they must, or samples are not in order."""
    empty = WindowSummaries(error, window)
    length, step = empty.plan
    whole = length == window
    values = feed["summary.values"] if feed.has("summary.values") else np.empty(0)
    feed.sizes["most values"] = values.size + 1
    feed.sizes["most seen"] = MOST if whole else 2**30 * length
    feed.sizes["buckets"] = 0 if whole else window // length + 2
    feed.check(WINDOW_SUMMARY)
    sizes, seen = feed["summary.sizes"], feed["summary.seen"]
    held = np.minimum(seen, window) if whole else seen % length
    if int(sizes.sum()) != values.size or (whole and values.size):
        refuse("array 'summary.values' is not as long as its summaries")
    if sum(held.tolist()) != feed.sizes["rows"]:
        refuse("array 'summary.rows' is not as long as its summaries")
    end = np.cumsum(sizes)
    for i in range(0 if whole else sizes.size):
        part = slice(end[i] - sizes[i], end[i])
        if (np.diff(values[part]) < 0).any():
            refuse("array 'summary.values' is not in order")
        _check_buckets(feed["summary.buckets"][part], int(seen[i]), window, length, length // step)


def _check_buckets(buckets: Array, seen: int, window: int, length: int, samples: int) -> None:
    """Raise if a bucket that is still in the window has not so many samples."""
    full, oldest = seen // length, max(0, seen - window) // length
    check_none(buckets >= full, "summary.buckets", buckets, "not full yet")
    numbers, counts = np.unique(buckets, return_counts=True)
    present = numbers >= oldest
    if numbers[present].size != full - oldest or (counts[present] != samples).any():
        refuse("a window lacks samples, or has too many")
