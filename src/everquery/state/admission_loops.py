"""The loops of admission: rows by key, their numbers, what is late, what each key did last."""

from __future__ import annotations

from everquery.core.arrays import Array, Bools, Bytes, Floats, Int32s, Int64s
from everquery.core.jit import kernel

FEWER_KEYS = 32  # passing so many counts takes as long as sorting one more key


@kernel
def in_order(time: Array) -> bool:
    """Tell whether no event is before the one in front of it."""
    for i in range(1, time.size):
        if time[i] < time[i - 1]:
            return False
    return True


@kernel
def span_of(time: Array) -> tuple[int | float, int | float]:
    """Return the least and the largest of some times."""
    least = largest = time[0]
    for i in range(1, time.size):
        least = min(least, time[i])
        largest = max(largest, time[i])
    return least, largest


@kernel
def group_rows(
    keys: Int32s, known: int, values: Floats, counts: Int32s, group_key: Int32s, start: Int64s,
    member: Int64s,
) -> tuple[int, bool]:  # fmt: skip
    """List each key's rows together and in order, the keys ascending.

    Cost: a pass over the rows, and a sort of the keys; or, where these are no small part of all
    that are known, a pass over the counts of all.

    Parameters
    ----------
    known : how many keys there are
    counts : as many places or more, all 0; left so
    group_key, start, member : see `Grouped`; there is room for a key an event, and one more

    Returns
    -------
    How many keys the events have, and whether a value is NaN.
    """
    groups = 0
    for i in range(keys.size):
        if counts[keys[i]] == 0:
            group_key[groups] = keys[i]
            groups += 1
        counts[keys[i]] += 1
    if known < FEWER_KEYS * groups:
        groups = 0
        for key in range(known):  # no branch to mispredict: what does not count is overwritten
            group_key[groups] = key
            groups += counts[key] != 0
    else:
        group_key[:groups].sort()
    begin = 0
    for group in range(groups):
        start[group] = begin
        size = counts[group_key[group]]
        counts[group_key[group]] = begin
        begin += size
    start[groups] = begin
    for i in range(keys.size):
        member[counts[keys[i]]] = i
        counts[keys[i]] += 1
    for group in range(groups):
        counts[group_key[group]] = 0
    for a in range(values.shape[0]):
        unknown = 0
        for i in range(keys.size):
            unknown += values[a, i] != values[a, i]
        if unknown:
            return groups, True
    return groups, False


@kernel
def admit_groups(
    group_key: Int32s,
    start: Int64s,
    member: Int64s,
    time: Array,
    timed: bool,
    expire_after: Array,
    seen: Bytes,
    last_time: Array,
    next_seq: Int64s,
    seq: Int64s,
    late: Bools,
    fresh: Bytes,
    previous: Int64s,
    values: Floats,
    position: Int64s,
    grouped: Floats,
) -> int:
    """Give each key's events their numbers in order, and find the late ones and the expiries.

    Late rows are taken out of `member` and `start` in place; the number of rows kept is returned.
    ``previous`` gets, for a fresh row, the row before it of its key, or -1 if that is an older one.
    ``position`` and ``grouped`` get what `Grouped` has of the rows that are kept.
    """
    kept = 0
    expiring = expire_after.size > 0
    begin = start[0]
    for group in range(group_key.size):
        key = group_key[group]
        end = start[group + 1]
        start[group] = kept
        before = -1
        in_sight = seen[key] != 0
        for at in range(begin, end):
            row = member[at]
            if timed and next_seq[key] > 0 and time[row] < last_time[key]:
                late[row] = True
                continue
            expired = 0
            if expiring and in_sight and time[row] - expire_after[0] >= last_time[key]:
                expired = 1
                previous[row] = before
            member[kept] = row
            fresh[kept] = expired
            kept += 1
            seq[row] = next_seq[key]
            next_seq[key] += 1
            in_sight = True
            if timed:
                last_time[key] = time[row]
            before = row
        begin = end
    start[group_key.size] = kept
    attributes = values.shape[0]
    for i in range(kept):
        position[i] = 2 * member[i] + 1
        grouped[attributes, i] = 0.0
    for a in range(attributes):
        for i in range(kept):
            grouped[a, i] = values[a, member[i]]
    return kept


@kernel
def remember_groups(
    group_key: Int32s, start: Int64s, values: Floats, seen: Bytes, last: Floats
) -> None:
    """Note each key's last values, and that it is in sight."""
    for group in range(group_key.size):
        if start[group + 1] > start[group]:
            key = group_key[group]
            seen[key] = 1
            for a in range(last.shape[0]):
                last[a, key] = values[a, start[group + 1] - 1]
