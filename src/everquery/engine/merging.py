"""Merges of segments in another thread, between the batches of an engine."""

from __future__ import annotations

import logging
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from everquery.shard import DueMerge, Shard
from everquery.shard.failed_merges import FailedMerges

log = logging.getLogger("everquery.engine")


class Merging:
    """At most one merge at a time; one that failed is tried again."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._under_way: tuple[DueMerge, Future[Any]] | None = None
        self.failed = FailedMerges(log)

    def go_on(self, shard: Shard) -> None:
        """Put a merge that is done in its place, and start one that is due after a load."""
        self.install(shard)
        self.start(shard, loading=True)

    def start(self, shard: Shard, *, loading: bool = False) -> None:
        """Start a merge that is due; after a load of queries, other ones than after events."""
        if self._under_way is not None:
            return
        due = shard.upkeep.due_merge(loading=loading)
        if due is not None:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(1, thread_name_prefix="everquery-merge")
            self._under_way = due, self._pool.submit(due.run)

    def install(self, shard: Shard) -> None:
        """Put a merge that is done in its place."""
        if self._under_way is not None and self._under_way[1].done():
            due, future = self._under_way
            self._under_way = None
            error = future.exception()
            if error is None:
                shard.upkeep.install(due, future.result())
            else:
                self.failed.note(due.kind, error)
                shard.upkeep.abandon(due)

    def forget(self) -> None:
        """Ignore the result of the merge under way: its shard is not used any more."""
        self._under_way = None

    def close(self) -> None:
        """Wait for the merge under way, and end the thread; a later one starts another."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
