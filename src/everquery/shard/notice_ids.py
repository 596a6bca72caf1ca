"""The ids of notices, by which a consumer can drop repeats."""

from __future__ import annotations

import numpy as np

from everquery.core.arrays import Array, Int64s, Uint64s
from everquery.core.jit import kernel
from everquery.core.names import scramble

_SALT = np.uint64(0xD6E8FEB86659FD93)


@kernel
def write_ids(
    slot: Int64s,
    row: Int64s,
    outcome: Uint64s,
    query: Uint64s,
    keys: Uint64s,
    key: Array,
    seq: Int64s,
    out: Uint64s,
) -> None:
    """Write each notice's 128-bit id: a pure function of query, key, event and what happened.

    For one query and event the id is a permutation of the key's digest. So two keys share an id
    only if they share a digest.
    """
    for i in range(slot.size):
        number = key[row[i]]
        event = scramble(np.uint64(seq[row[i]]) ^ _SALT) ^ outcome[i]
        low, high = event, scramble(event ^ _SALT)
        if number >= 0:
            low, high = scramble(low ^ keys[number, 0]), scramble(high ^ keys[number, 1])
        out[2 * i] = scramble(low ^ query[slot[i], 0])
        out[2 * i + 1] = scramble(high ^ query[slot[i], 1])
