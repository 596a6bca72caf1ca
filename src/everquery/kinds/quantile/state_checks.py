"""What the state of quantile queries must be: what they ask, cells of ranks, summaries of rows."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from everquery.core.arrays import Array
from everquery.core.invariants import (
    MOST,
    Column,
    Contents,
    check_none,
    check_unique,
    refuse,
)
from everquery.kinds.quantile.feed import COARSEST, COARSEST_WINDOW, FINEST
from everquery.kinds.quantile.feed_queries import FeedName
from everquery.kinds.quantile.gk_merge import BELOW_ONE
from everquery.kinds.quantile.spec import LONGEST_WINDOW, bad_window
from everquery.kinds.quantile.window_buckets import plan_buckets

ASKED = {
    "phi": Column("float64", ("queries",), least=1e-323, below=np.nextafter(1, 2)),
    "epsilon": Column("float64", ("queries",), least=1e-323, below=1),
    "last": Column("int64", ("queries",), least=0, below=LONGEST_WINDOW + 1),
    "by": Column("float64", ("queries",), least=0, below=np.inf),
}
MOST_CODE = 1 << 40  # no cell is nearly as narrow
MOST_ROOM, SPARSEST = 1 << 26, 64  # entries; and how many for one that is in use
FEED = {
    "error": Column("float64", (1,), with_nan=True),
    "lanes": Column("int32", ("lanes",), least=0, below="all lanes", rising=True),
    "cell.lane": Column("int64", ("cells",), least=0, below="lanes"),
    "cell.code": Column("int64", ("cells",), least=1, below=MOST_CODE),
    "cell.value": Column("float64", ("cells",), with_nan=True),
    "member.lane": Column("int64", ("members",), least=0, below="lanes"),
    "member.slot": Column("int64", ("members",), least=0, below="queries"),
    "member.told": Column("float64", ("members",), with_nan=True),
    "member.said": Column("float64", ("members",), with_nan=True, needed=False),
    "summary": Column("int64", ("summaries",), least=0, below="lanes", rising=True),
}
# Of changes: lanes that ended, and the rows since, in steps.
ROWS = {
    "ended": Column("int64", ("ended",), least=0, below="lanes"),
    "steps": Column("int64", ("steps",), least=0, below=MOST),
    "rows.lane": Column("int64", ("runs",), least=0, below="lanes"),
    "rows.length": Column("int64", ("runs",), least=1, below=MOST),
    "rows.value": Column("float64", ("new rows",)),
}
HELD = ("lanes", "cells", "members", "summaries", "runs")
# Of whole streams: see `everquery.kinds.quantile.gk_summary`.
STREAM_SUMMARY = {
    "summary.values": Column("float64", ("values",)),
    "summary.r_minus": Column("int64", ("values",)),
    "summary.r_plus": Column("int64", ("values",)),
    "summary.sizes": Column("int64", ("summaries",), least=0, below="most values"),
    "summary.waits": Column("int64", ("summaries",), least=0, below="most waiting"),
    "summary.seen": Column("int64", ("summaries",), least=0, below=MOST),
}
# Of the last rows: see `everquery.kinds.quantile.window_summary`.
WINDOW_SUMMARY = {
    "summary.values": Column("float64", ("values",)),
    "summary.buckets": Column("int32", ("values",), least=0),
    "summary.rows": Column("float64", ("rows",)),
    "summary.lowest": Column("float64", ("buckets", "summaries")),
    "summary.sizes": Column("int64", ("summaries",), least=0, below="most values"),
    "summary.seen": Column("int64", ("summaries",), least=0, below="most seen"),
}


def check_asked(numbers: Mapping[str, Array], *, by_key: bool, can_be: bool) -> None:
    """Raise if what quantile queries ask for can't be.

    Parameters
    ----------
    by_key : bool
        Whether some are by key.
    can_be : bool
        Whether they can be: the stream has keys, and they have none of their own.
    """
    Contents(numbers, {}).check(ASKED)
    for rows, share in set(zip(numbers["last"].tolist(), numbers["epsilon"].tolist(), strict=True)):
        if rows and bad_window(rows, share):
            refuse(f"a quantile query has a window of {rows} rows and an epsilon of {share}")
    if by_key and not can_be:
        refuse("a quantile query is by key, and has one already or can't have any")


def check_feed(
    name: FeedName, arrays: Mapping[str, Array], *, queries: int, keys: int, whole: bool
) -> None:
    """Raise if what was saved of a feed can't be.

    Parameters
    ----------
    queries, keys : int
        How many quantile queries and keys there are.
    whole : bool
        Whether it is all of the feed's state, and not what has changed.
    """
    feed = Contents(arrays, {"all lanes": keys if name.keyed else 1, "queries": queries})
    feed.check(FEED)
    members = feed["member.slot"] << 32 | feed["member.lane"]
    check_unique("array 'member.slot'", members)
    if not whole:
        _check_rows(feed)
    error = float(feed["error"][0])
    if np.isnan(error):
        if any(feed.sizes.get(size) for size in HELD):
            refuse("a summary has no error, and holds something")
    else:
        coarsest = COARSEST_WINDOW if name.window else COARSEST
        if not FINEST / 2 <= error <= coarsest / 2:
            refuse(f"a summary errs {error}, which can't be")
        if feed.sizes["summaries"]:
            check = _check_windows if name.window else _check_summaries
            check(feed, error, name.window)
    feed.check_all_seen()


def _check_rows(feed: Contents) -> None:
    """Raise if rows are not those of steps, each with rising lanes."""
    feed.check(ROWS)
    steps, lengths = feed["steps"], feed["rows.length"]
    if sum(steps.tolist()) != feed.sizes["runs"] or sum(lengths.tolist()) != feed.sizes["new rows"]:
        refuse("array 'rows.value' is not as long as its steps")
    lane = feed["rows.lane"]
    step = np.repeat(np.arange(steps.size), steps)
    falls = (step[1:] == step[:-1]) & (lane[1:] <= lane[:-1])
    check_none(falls, "rows.lane", lane[1:], "not above the one before")


def _check_summaries(feed: Contents, error: float, _window: int) -> None:
    """Raise if tuples are not in order, or if a gap between ranks is wider than it may be."""
    values = feed["summary.values"] if feed.has("summary.values") else np.empty(0)
    feed.sizes["most values"] = values.size + 1
    feed.sizes["most waiting"] = max(1, int(1 / (2 * error))) + 1
    feed.check(STREAM_SUMMARY)
    sizes, waits, seen = (feed[f"summary.{part}"] for part in ("sizes", "waits", "seen"))
    if int(sizes.sum()) + int(waits.sum()) != values.size:
        refuse("array 'summary.values' is not as long as its summaries")
    n = seen - waits
    check_none(n < 0, "summary.waits", waits, "more than were seen")
    held = sizes + waits
    lane = np.repeat(np.arange(held.size), held)
    place = np.arange(values.size) - (np.cumsum(held) - held)[lane]
    ranked = place < sizes[lane]
    # Tuples and what waits behind them are two runs of values.
    together = (lane[1:] == lane[:-1]) & (ranked[1:] == ranked[:-1])
    _check_rising(values, together, "summary.values")
    r_minus, r_plus = feed["summary.r_minus"], feed["summary.r_plus"]
    for name, ranks in (("summary.r_minus", r_minus), ("summary.r_plus", r_plus)):
        _check_rising(ranks, together & ranked[1:], name)
        outside = ranked & ((ranks < 1) | (ranks > n[lane]))
        check_none(outside, name, ranks, "no rank")
    check_none(ranked & (r_minus > r_plus), "summary.r_minus", r_minus, "above the upper rank")
    capacity = np.maximum(1, (2 * error * n * BELOW_ONE).astype(np.int64))
    below = np.where(place > 0, np.concatenate([[0], r_minus[:-1]]), 0)
    gaps = ranked & (r_plus - below > capacity[lane])
    check_none(gaps, "summary.r_plus", r_plus, "too far above the tuple before")
    last = np.concatenate([[0], r_minus])[np.where(sizes > 0, np.cumsum(held) - waits, 0)]
    check_none(n + 1 - last > capacity, "summary.seen", seen, "too far above the last tuple")


def _check_rising(values: Array, neighbours: Array, name: str) -> None:
    falls = neighbours & (values[1:] < values[:-1])
    check_none(falls, name, values[1:], "less than the one before")


def _check_windows(feed: Contents, error: float, window: int) -> None:
    """Raise if buckets do not have as many samples as they must, or samples are not in order."""
    length, step = plan_buckets(error, window)
    whole = length == window
    values = feed["summary.values"] if feed.has("summary.values") else np.empty(0)
    feed.sizes["most values"] = values.size + 1
    feed.sizes["most seen"] = MOST if whole else 2**30 * length
    feed.sizes["buckets"] = 0 if whole else window // length + 2
    feed.check(WINDOW_SUMMARY)
    _check_room(feed)
    sizes, seen = feed["summary.sizes"], feed["summary.seen"]
    held = np.minimum(seen, window) if whole else seen % length
    if int(sizes.sum()) != values.size or (whole and values.size):
        refuse("array 'summary.values' is not as long as its summaries")
    if sum(held.tolist()) != feed.sizes["rows"]:
        refuse("array 'summary.rows' is not as long as its summaries")
    if whole:
        return
    lane = np.repeat(np.arange(sizes.size), sizes)
    _check_rising(values, lane[1:] == lane[:-1], "summary.values")
    full, oldest = seen // length, np.maximum(0, seen - window) // length
    buckets = feed["summary.buckets"].astype(np.int64)
    check_none(buckets >= full[lane], "summary.buckets", buckets, "not full yet")
    # Each bucket that is still in the window has all of its samples.
    codes, counts = np.unique(lane << 32 | buckets, return_counts=True)
    present = codes & 0xFFFFFFFF >= oldest[codes >> 32]
    found = np.bincount(codes[present] >> 32, minlength=sizes.size)
    if (found != full - oldest).any() or (counts[present] != length // step).any():
        refuse("a window lacks samples, or has too many")


def _check_room(feed: Contents) -> None:
    """Raise if lanes are so sparse that the room for buckets would be out of all proportion."""
    lowest = feed["summary.lowest"]
    room = len(lowest) * (int(feed["lanes"][feed["summary"]].max()) + 1)
    if room > MOST_ROOM and room > SPARSEST * lowest.size:
        refuse(f"a few windows would need room for {room} buckets")
