"""An engine and its registry: changes go into the log, and those of others come out of it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import everquery.registry as registries
from everquery.engine.composites import reach_parts
from everquery.engine.definition import Definition
from everquery.engine.quarantined import SCHEMA as QUARANTINED
from everquery.engine.quarantined import given_back, list_quarantined
from everquery.engine.quotas import check_room, growth, owners_of
from everquery.engine.rebasing import rebase
from everquery.errors import (
    InvalidQueryError,
    RegistryBehindError,
    RegistryError,
    UnknownQueryError,
    UnknownStreamError,
)
from everquery.queries.changes import Change, Deregister, Pause, Register, RegisterBlocks
from everquery.registry.outage import Outage
from everquery.registry.presence import warn_of_no_queries
from everquery.registry.rows import damaged
from everquery.shard import Shard
from everquery.stream import Stream

if TYPE_CHECKING:
    from everquery.history.backfill import Backfill
    from everquery.registry import Base, Entry, Registry

MOMENT = 0.1  # seconds for which single events do not look for changes of others


class QueryLog:
    """The changes of an engine's query set, with a registry or without; the engine has the lock.

    Parameters
    ----------
    registry : Registry or None
    shard : Shard
    lazy, read_only : bool
        Those of `Engine`.
    """

    def __init__(
        self,
        registry: Registry | None,
        shard: Shard,
        *,
        lazy: bool,
        read_only: bool,
    ) -> None:
        self.registry = registry
        self.read_only = read_only
        self.position = 0  # how far the registry's log has been followed
        self.reported = 0  # queries that ended by themselves, and no longer are in the registry
        self._stream = shard.stream
        self._whole_or_torn = shard
        self._lazy = lazy
        # Fills queries that others registered from the past; tells whether it could.
        self.fill: Callable[[Register | RegisterBlocks], bool] | None = None
        self.hold_ends = False  # whether queries that ended are not reported with each step
        self._followed = 0.0  # when that was done for a single event
        self._read = False  # whether the log was read once: where it ends may be damaged
        self._counted = False  # whether it has been seen that there are queries, or said that not
        self._outage = Outage(self._stream.name)
        self._definition = Definition(self._stream)

    @property
    def _shard(self) -> Shard:
        return self._whole_or_torn.whole()

    # -- the changes of others ----------------------------------------------------------------

    def go_on_with(self, shard: Shard, position: int) -> None:
        """Have another shard from now on, which stands at this position."""
        self._whole_or_torn = shard
        self.position = position
        self._read = False
        self._outage = Outage(self._stream.name)

    def refresh(self) -> int:
        """Follow the log to its end; return how many queries its changes name."""
        if self.registry is None:
            return 0
        before = self.position
        head = self._definition.look(self.registry)
        self._outage.check(head, before)
        if head > before or not self._read:
            stored = self._definition.stored
            with contextlib.closing(self.registry.read(stored, before)) as entries:
                for entry in entries:
                    self._take(entry)
            self._read = True
            if not self._lazy:
                self._shard.queries.settle()
        return self.position - before

    def _take(self, entry: Entry | Base) -> None:
        """Apply a change that was read from the log, or what a compaction left of it."""
        try:
            if isinstance(entry, registries.Base):
                rebase(self._shard, self._definition.of_base(entry.changes))
                self.position = entry.position
            else:
                self._follow(self._definition.of_entry(entry.change))
                self.position = entry.position + entry.count
        except (InvalidQueryError, UnknownQueryError) as error:
            damaged(self._stream.name, entry.position, None, f"it can't be applied: {error}")

    def _follow(self, change: Change) -> None:
        """Apply a change of another engine, or of an earlier one that this engine was."""
        if isinstance(change, Register | RegisterBlocks) and change.begin is not None:
            if self.fill is not None and self.fill(change):
                return
            change = replace(change, begin=None)
        self._shard.apply(change, following=True)

    def follow(self) -> None:
        """Follow the log; while the registry is away or damaged, go on with the queries here."""
        if self.registry is None:
            return
        self._try(self.refresh, end=True)

    def follow_now_and_then(self) -> None:
        """Follow the log, unless that was done a moment ago."""
        if self.registry is not None and monotonic() - self._followed >= MOMENT:
            self.follow()
            self._followed = monotonic()

    def warn_if_empty(self) -> None:
        """Say once, in front of the first batch, that a registry has no queries for it."""
        if self._counted or self.registry is None or self._outage.reason is not None:
            return
        self._counted = True
        self._shard.queries.number_waiting()
        if not self._shard.queries.living:
            warn_of_no_queries(self._stream.name, self.registry.shown)

    def _try(self, call: Callable[[], object], *, end: bool) -> None:
        """Use the registry, unless it is away; note it if it does not answer."""
        if not self._outage.is_over():
            return
        began = monotonic()
        try:
            call()
        except (RegistryError, UnknownStreamError) as error:
            self._outage.note(error, monotonic() - began)
        else:
            if end:
                self._outage.end()

    # -- changes of this engine's own ---------------------------------------------------------

    def apply(self, change: Change, backfill: Backfill | None = None) -> None:
        """Make a change here and in the registry: in both or, on an error, in neither.

        Parameters
        ----------
        backfill : Backfill, optional
            Of queries that begin in the past.
        """
        if self.registry is None:
            self._check_room(change)
            if backfill is None:
                reach_parts(self._shard, change, self._shard.apply)
            else:
                self._shard.check(change)
                backfill.finish()
                backfill.hand_over()
            return
        self.check_writable()
        self.report_ended()
        asked = change
        while True:
            self._definition.check_unaltered()
            try:
                change = reach_parts(self._shard, asked, self._shard.check)
                self._check_room(change)
                if backfill is not None:
                    backfill.finish()
            except (InvalidQueryError, UnknownQueryError):
                if not self.refresh():  # so it is not because we are behind
                    raise
                continue
            try:
                end = self.registry.append(self._stream, change, head=self.position)
            except RegistryBehindError:
                self._catch_up()
                continue
            if backfill is None:
                self._shard.apply(change)
            else:
                backfill.hand_over()
            self.position = end
            return

    def transact(
        self,
        plan: Callable[[Shard], Sequence[Change]],
        *,
        together: bool,
        dry_run: bool = False,
    ) -> None:
        """Make several changes here and in the registry: all of them or, on an error, none.

        Parameters
        ----------
        plan : function of the shard
            Returns the changes to be made on it as it is, or raises; called again if others have
            changed it since.
        together : bool
            No reader of the registry takes some of them before the others.
        dry_run : bool
            Only raise what would be raised.
        """
        if self.registry is None:
            changes = plan(self._shard)
            self._check_growth(changes)
            for change in () if dry_run else changes:
                self._shard.apply(change)
            return
        if not dry_run:
            self.check_writable()
            self.report_ended()
        while True:
            try:
                changes = plan(self._shard)
                self._check_growth(changes)
            except (InvalidQueryError, UnknownQueryError):
                if not self.refresh():  # so it is not because we are behind
                    raise
                continue
            if (dry_run or not changes) and not self.refresh():
                return  # there is nothing to do, and nobody else has done anything
            if dry_run or not changes:
                continue
            try:
                end = self.registry.append(
                    self._stream, *changes, head=self.position, together=together
                )
            except RegistryBehindError:
                self._catch_up()
                continue
            for change in changes:
                self._shard.apply(change)
            self.position = end
            return

    def _check_room(self, change: Change) -> None:
        """Raise if a change would give an owner more queries than its quota."""
        wanted = owners_of(change)
        if wanted:  # quotas may be in a database
            check_room(wanted, self.quotas(), self._shard.queries.live_of)

    def _check_growth(self, changes: Sequence[Change]) -> None:
        """Raise if changes would give an owner more queries than its quota."""
        wanted = growth(changes, self._shard.queries.owners)
        if any(more > 0 for more in wanted.values()):
            check_room(wanted, self.quotas(), self._shard.queries.live_of)

    def quotas(self) -> dict[str | None, int]:
        """Return how many live queries each owner may have; None is the default for all others."""
        if self.registry is not None:
            return self.registry.quotas(self._stream.name)
        return dict(self._shard.quotas)

    def set_quota(self, owner: str | None, limit: int | None) -> None:
        """Say how many live queries an owner may have."""
        if self.registry is not None:
            self.check_writable()
            self.registry.set_quota(self._stream.name, owner, limit)
        elif limit is None:
            self._shard.quotas.pop(owner, None)
        else:
            self._shard.quotas[owner] = limit

    def check_writable(self) -> None:
        """Raise if the registry is only read."""
        if self.read_only and self.registry is not None:
            raise RegistryError("this engine only reads its registry; open one without read_only")

    def report_later(self, *, held: bool = False) -> None:
        """Tell the registry which queries have ended; if it does not answer, a step later.

        While `hold_ends` is set, only a call with `held` does so.
        """
        if self._shard.queries.ended and (held or not self.hold_ends):
            self._try(self.report_ended, end=False)

    def report_ended(self) -> None:
        """Write into the registry that queries have ended by themselves."""
        ended = self._shard.queries.ended
        if self.registry is None:
            self.reported += len(ended)
            ended.clear()
        if self.registry is None or self.read_only:
            return
        while ended:
            ids = pa.array(sorted(ended), pa.string())
            try:
                end = self.registry.append(self._stream, Deregister(ids), head=self.position)
            except RegistryBehindError:
                self._catch_up()  # another engine may have been first: then there is nothing to do
                continue
            self.reported += len(ids)
            ended.clear()
            self.position = end

    def _catch_up(self) -> None:
        """Read what another writer wrote; raise if nobody did."""
        if not self.refresh():
            raise self._outage.lost(self.position)

    def compact(self) -> None:
        """Replace the log by the queries that are live."""
        if self.registry is None:
            return
        self.check_writable()
        while True:
            self.refresh()
            self._definition.check_unaltered()
            self.report_ended()
            blocks = tuple(block.in_order() for block, _ in self._shard.queries.blocks())
            changes: list[Change] = [
                RegisterBlocks(blocks),
                Pause(self._shard.queries.paused_ids()),
            ]
            try:
                self.registry.compact(self._stream, changes, head=self.position)
            except RegistryBehindError:
                self._catch_up()
                continue
            return

    # -- queries that jobs run without ---------------------------------------------------------

    def quarantined(self) -> pa.Table:
        """Return the live queries that Spark jobs run without."""
        if self.registry is None:
            return QUARANTINED.empty_table()
        self.refresh()
        return list_quarantined(self.registry, self._stream.name, self._shard)

    def give_back(self, ids: Sequence[str]) -> None:
        """Let quarantined queries end and begin anew, in one transaction."""
        self.check_writable()
        while True:
            changes = given_back(self._shard, ids, self.quarantined())
            self._definition.check_unaltered()
            assert self.registry is not None  # or none would be quarantined
            try:
                end = self.registry.append(self._stream, *changes, head=self.position)
            except RegistryBehindError:
                self._catch_up()
                continue
            for change in changes:
                self._shard.apply(change)
            self.position = end
            self.registry.quarantine(self._stream.name).forget(ids)
            return

    # -- what it knows ------------------------------------------------------------------------

    @property
    def left_out(self) -> set[str]:
        """The ids of live queries that are not here, for they are about new attributes."""
        return self._definition.left_out

    def stream_of(self, name: str) -> Stream:
        """Return a stream by its name."""
        if name == self._stream.name:
            return self._stream
        if self.registry is None:
            raise UnknownStreamError(f"there is no stream {name!r}; here is {self._stream.name!r}")
        return self.registry.stream(name)

    def stats(self) -> dict[str, Any] | None:
        """Return how far the registry has been followed, and what is wrong with it."""
        if self.registry is None:
            return None
        return {
            "position": self.position,
            "trouble": self._outage.reason,
            "altered": self._definition.altered,
            "left_out": sorted(self.left_out),
        }
