"""What an engine reports about itself: refused events, and counts of what it has and did."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from everquery.engine.listening import Listening
from everquery.state.dead_letters import Example


class Reporting(Listening):
    """A shard behind a lock that reports what it refused and what it has counted.

    The parameters are those of `Registration`.
    """

    def dead_letters(self) -> pa.Table:
        """Return the latest refused events: position, reason, detail, key, time, attributes."""
        with self._lock:
            return self._shard.dead_letters.table()

    def drain_dead_letters(self) -> pa.Table:
        """Return the refused events since the last call, and keep them no longer.

        They stay counted. From the first call on all are kept until the next one, however many.
        """
        with self._lock:
            letters = self._shard.dead_letters
            letters.most = None
            return letters.drain()

    def refused_examples(self) -> dict[str, list[Example]]:
        """Return the first three refused values of each reason: row, column, value as it was read.

        Rows are counted from 0, over all batches. A snapshot does not hold them.
        """
        with self._lock:
            return self._shard.dead_letters.examples()

    def stats(self) -> dict[str, Any]:
        """Return counts of queries by kind, bytes by structure, events, notices, dead letters.

        ``partial`` counts the accepted events that lack a value, and ``partial_by_column`` those
        that lack one of each column. ``ended`` counts the queries that ended by themselves since
        this engine was opened: once thresholds that fired, and queries whose ``ttl`` passed.
        ``last_failed_merge`` is why the last merge of segments failed, or None; answers do not
        depend on merges, and one that failed is tried again (logger ``everquery.engine``).
        ``registry`` is None without one; else it has the ``position`` that its log has been
        followed to, as ``trouble`` why the last batch could not follow it further, or None, as
        ``altered`` in what its stream differs from this engine's, or None, and as ``left_out`` the
        queries that only the altered one can have. ``held`` and ``ahead`` count events that the
        grace or ``max_ahead`` lets wait.
        ``failed_callbacks`` counts the calls of `on` that raised, and ``last_failed_callback`` is
        what the last one did.
        """
        with self._lock:
            shard = self._shard
            return {
                **shard.stats(),
                "ended": self._log.reported + len(shard.queries.ended),
                "failed_merges": self._merging.failed.count,
                "last_failed_merge": self._merging.failed.last,
                "failed_callbacks": self._callbacks.failed,
                "last_failed_callback": self._callbacks.last_failure,
                "registry": self._log.stats(),
            }
