"""The columns of notices, written in one pass: what they say of their events, and their ids."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from everquery.core.arrays import Array, Bytes, Floats, Int32s, Int64s, Uint64s
from everquery.core.jit import kernel
from everquery.core.mixing import scramble
from everquery.core.prefetch import AHEAD, prefetch_row
from everquery.index.sort_keys import MOST_CODES

_SALT = np.uint64(0xD6E8FEB86659FD93)

# What `write_columns` found out besides, in the places behind those of the codes.
NO_DIGEST = MOST_CODES  # a key without digest: the ids are not all right
NO_KEY = MOST_CODES + 1  # a notice that is about no key
UNKNOWN = MOST_CODES + 2  # one place an attribute: a value that is NaN


class Begins(NamedTuple):
    """Where each column begins in the one piece of memory that they share, in bytes."""

    ids: int
    seq: int
    time: int
    values: int
    slot: int
    key: int
    kind: int
    event: int
    reason: int
    end: int

    @classmethod
    def of(cls, n: int, attributes: int) -> Begins:
        """Return the places of the columns of so many notices, each at a multiple of 8."""
        wide, half, byte = 8 * n, 4 * n + 7 & ~7, n + 7 & ~7
        slot = (4 + attributes) * wide
        kind = slot + 2 * half
        return cls(
            0, 2 * wide, 3 * wide, 4 * wide, slot, slot + half,
            kind, kind + byte, kind + 2 * byte, kind + 3 * byte,
        )  # fmt: skip


@kernel
def write_columns(
    begin: int,
    end: int,
    slot: Int64s,
    row: Int64s,
    code: Bytes,
    salt: Uint64s,
    outcomes: Uint64s,
    queries: Uint64s,
    keys: Uint64s,
    keyed: bool,
    event_key: Int32s,
    event_time: Array,
    event_seq: Int64s,
    event_values: Floats,
    words: Array,
    begins: tuple[int, ...],
    room: Bytes,
    seen: Bytes,
) -> None:
    """Write the columns of some of the notices, and each one's 128-bit id.

    The id is a pure function of query, key, event and what happened. For one query and event it is
    a permutation of the key's digest. So two keys share an id only if they share a digest.

    Parameters
    ----------
    slot, row, code, salt : the notices; see `Notices`. `salt` may be empty
    outcomes : by code, what the outcome adds to an id
    queries, keys : the digests by slot and by key number; zeros where a key has none yet
    keyed : whether the stream has keys; without, zeros are the digest of its only one
    words : int8, shape (3, codes)
        By code, where kind, event and reason stand among their words
    begins, room : the fields of `Begins`, and the memory
    seen : set to 1 at each code that occurs, and at `NO_DIGEST`, `NO_KEY`, `UNKNOWN`
    """
    n = slot.size
    attributes = event_values.shape[0]
    ids = room[begins[0] : begins[0] + 16 * n].view(np.uint64)
    out_seq = room[begins[1] : begins[1] + 8 * n].view(np.int64)
    out_time = room[begins[2] : begins[2] + 8 * n].view(event_time.dtype)
    out_values = room[begins[3] : begins[3] + 8 * n * attributes].view(np.float64)
    out_slot = room[begins[4] : begins[4] + 4 * n].view(np.int32)
    out_key = room[begins[5] : begins[5] + 4 * n].view(np.int32)
    last_row = np.int64(-1)
    last_outcome = np.uint64(0)
    low, high = np.uint64(0), np.uint64(0)
    number = np.int32(0)
    for i in range(begin, end):
        if i + AHEAD < end:
            prefetch_row(queries, slot[i + AHEAD])
        at = row[i]
        outcome = outcomes[code[i]]
        if salt.size:
            outcome ^= salt[i]
        if at != last_row or outcome != last_outcome:
            last_row, last_outcome = at, outcome
            number = event_key[at]
            # What the ids of all notices of this event and outcome have in common.
            event = scramble(np.uint64(event_seq[at]) ^ _SALT) ^ outcome
            low, high = event, scramble(event ^ _SALT)
            if number >= 0:
                low, high = scramble(low ^ keys[number, 0]), scramble(high ^ keys[number, 1])
            seen[code[i]] = 1
            if number < 0:
                seen[NO_KEY] = 1
            elif keyed and keys[number, 0] == 0 and keys[number, 1] == 0:
                seen[NO_DIGEST] = 1
            for a in range(attributes):
                if event_values[a, at] != event_values[a, at]:
                    seen[UNKNOWN + a] = 1
        query = slot[i]
        out_slot[i] = query
        out_key[i] = number
        out_time[i] = event_time[at]
        out_seq[i] = event_seq[at]
        for a in range(attributes):
            out_values[a * n + i] = event_values[a, at]
        for column in range(3):
            room[begins[6 + column] + i] = words[column, code[i]]
        ids[2 * i] = scramble(low ^ queries[query, 0])
        ids[2 * i + 1] = scramble(high ^ queries[query, 1])
