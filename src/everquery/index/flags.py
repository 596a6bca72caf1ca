"""What a slot's flags say of its query."""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

Flags = npt.NDArray[np.uint16]

# The low byte is the shard's; no flag at all is a query that was deregistered. Only a live query
# that is not paused emits: ``flags & LIVE_MASK == LIVE``.
LIVE = 1
PAUSED = 2
LIVE_MASK = LIVE | PAUSED
NEW = 4  # the keys inside are still to be reported
RESUMED = 8  # with NEW: because the query was resumed, not registered
DIVERTED = 16  # what it tells goes through the rules of alerts
SPANNED = 32  # it has a span of its kind's own, which is no rule
REPLACED = 64  # with NEW: because the query has taken the place of another one with its id

# The high byte is the kind's: one bit for each option of its spec, in their order.
OPTION_SHIFT = 8
MOST_OPTIONS = 8


@cache
def option_flags(options: tuple[str, ...]) -> dict[str, int]:
    """Return the flag of each option of a kind, by name.

    Examples
    --------
    >>> option_flags(("repeat", "count"))
    {'repeat': 256, 'count': 512}
    """
    return {name: 1 << (OPTION_SHIFT + place) for place, name in enumerate(options)}
