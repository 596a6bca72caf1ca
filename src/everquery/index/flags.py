"""What a byte says of a query, by its slot."""

from __future__ import annotations

# A slot's flags; no flag at all is a query that was deregistered. Only a live query that is not
# paused emits: ``flags & LIVE_MASK == LIVE``.
LIVE = 1
PAUSED = 2
LIVE_MASK = LIVE | PAUSED
SILENT = 4  # does not report the keys inside when it is registered or resumed
NEW = 8  # the keys inside are still to be reported
SKIP_ENTER = 32  # tells of no enter
SKIP_LEAVE = 64  # tells of no leave
RESUMED = 16  # with NEW: because the query was resumed, not registered
# What it tells goes through `everquery.state.hygiene`, which applies SKIP_ENTER and SKIP_LEAVE too.
DIVERTED = 128

# Of thresholds, which neither enter nor leave.
REPEAT = SKIP_ENTER  # starts again after it fired
COUNT = SKIP_LEAVE  # every event weighs one

# Of quantiles, which neither enter nor leave.
BY_KEY = SKIP_ENTER  # one answer a key, not one of all keys together

# The flags of queries' options, by name.
OPTION_FLAGS = {
    "silent": SILENT,
    "skip_enter": SKIP_ENTER,
    "skip_leave": SKIP_LEAVE,
    "repeat": REPEAT,
    "count": COUNT,
    "by_key": BY_KEY,
}
