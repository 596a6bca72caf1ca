"""The part of queries where a log leads from version to version."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar

import pyarrow as pa

from everquery.core.invariants import of_type, refuse
from everquery.core.parts import Saved, Size
from everquery.errors import EverqueryError
from everquery.queries.changes import Change
from everquery.registry.codec import decode_change
from everquery.shard import Shard, Times
from everquery.shard.parts.queries import QueriesPart
from everquery.shard.parts.times import check_time
from everquery.sharding.job import Job
from everquery.sharding.routing import known_part

LogPart = tuple[str, bytes]
"""An operation, and its payload."""

_FORGED = (EverqueryError, ValueError, LookupError, TypeError, pa.ArrowException)
GARBAGE = 50_000  # dropped queries in the journal, before it is written anew


class LoggedQueries(QueriesPart):
    """Queries, whose changes are the parts of the registry's log that were applied.

    With them goes how far time was when queries came, where their lives begin.
    """

    most_entries: ClassVar[int] = 1_000

    def __init__(self, shard: Shard, job: Job) -> None:
        super().__init__(shard)
        self._job = job
        self._log: Sequence[LogPart] = ()
        self._times = Times(None, None)
        self._dropped = 0

    def note(self, log: Sequence[LogPart], times: Times) -> None:
        """Take note of what was applied since the last commit, and how far time was before."""
        self._log, self._times = log, times

    def whole(self) -> Saved:
        """Return all queries."""
        self.mark_committed()
        return super().whole()

    def changes(self) -> Saved | None:
        """Return the parts of the log; where many queries were dropped, forget those for good."""
        if not self._log:
            return None
        outdated = max(0, self._shard.queries.dropped - self._dropped)
        newest, began = self._times
        operations = [operation for operation, _ in self._log]
        strings = {str(place): payload for place, (_, payload) in enumerate(self._log)}
        self._shard.upkeep.compact(keys=False)
        self.mark_committed()
        values = {"operations": operations, "newest": newest, "began": began}
        return Saved(values, strings=strings, whole=False, outdated=outdated)

    def mark_committed(self) -> None:
        """Note how many queries are dropped."""
        self._log = ()
        self._dropped = self._shard.queries.dropped

    def should_rebase(self, size: Size) -> bool:
        """Tell whether there are many entries, or much in them that is of no use any more."""
        living = self._shard.queries.living
        return size.entries >= self.most_entries or size.outdated > max(GARBAGE, living)

    def load(self, saved: Saved) -> None:
        """Check and take over queries, or apply what was logged."""
        if saved.whole:
            super().load(saved)
            return
        values, log = saved.values, _log_of(saved)
        for name in ("newest", "began"):
            check_time(name, values, self._shard.time_type)
        with self._shard.as_of(Times(values["newest"], values["began"])):
            for part in log:
                with _forged():
                    self.apply(self.decoded(*part))
                    self._shard.queries.settle()  # while it is known when their lives begin
                    self._shard.queries.announced_elsewhere()

    def apply_again(self, saved: Saved | None, parts: int) -> None:
        """Apply the first parts of what was logged with a batch, which is taken in again."""
        log = [] if saved is None else _log_of(saved)
        if parts > len(log):
            refuse(f"a batch has {parts} changes, and the log {len(log)}")
        with _forged():
            for part in log[:parts]:
                self.apply(self.decoded(*part))
            self._shard.queries.settle()

    def decoded(self, operation: str, payload: bytes) -> Change:
        """Return the change that a part of the log holds."""
        return decode_change(operation, payload, self._job.stream)

    def apply(self, change: Change) -> None:
        """Apply a part of the log, as far as it is about queries that are here."""
        self._shard.apply(known_part(change, self._shard.queries.live))


def _log_of(saved: Saved) -> list[LogPart]:
    """Return the parts of the log that were saved."""
    if saved.whole:
        refuse("all queries stand where a log is wanted")
    operations = of_type(saved.values, "operations", list)
    if saved.strings.keys() != {str(place) for place in range(len(operations))}:
        refuse("a log is not as long as it says")
    return [(str(name), saved.strings[str(place)]) for place, name in enumerate(operations)]


@contextmanager
def _forged() -> Iterator[None]:
    """Refuse a log that can't be applied."""
    try:
        yield
    except _FORGED as error:
        refuse(f"a log can't be applied ({str(error)[:200]})")
