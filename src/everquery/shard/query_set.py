"""The queries of a shard: what changes do to them before the next events."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from everquery.core.arrays import Int32s
from everquery.core.encoded_names import encode
from everquery.errors import UnknownQueryError
from everquery.index.flags import NEW, REPLACED
from everquery.queries import Query
from everquery.queries.block import QueryBlock, blocks_of_queries
from everquery.queries.changes import Change, Deregister, Pause, Register, RegisterBlocks, Resume
from everquery.shard.contents import Contents
from everquery.shard.integrity import Integrity
from everquery.shard.numbered_queries import NumberedQueries
from everquery.shard.replacing import Compared, check_kinds, hand_on, rows_of


class QuerySet(NumberedQueries):
    """All queries of a shard, and how they change.

    Parameters
    ----------
    contents : Contents
    integrity : Integrity
    """

    def __init__(self, contents: Contents, integrity: Integrity) -> None:
        super().__init__(contents, integrity)
        self.ended: set[str] = set()  # queries that ended here, and still live in the log
        self._leaving: list[Int32s] = []  # to end as soon as they are announced

    # -- changes ------------------------------------------------------------------------------

    def apply(self, change: Change, *, following: bool = False) -> None:
        """Change the query set; see `Shard.apply`."""
        match change:
            case Register(mode="register"):
                self._wait(change.queries, following=following)
            case RegisterBlocks(mode="register"):
                self.number_waiting()
                self._register(change.blocks)
            case Register() | RegisterBlocks():
                if not following:
                    self.check(change)
                blocks = self._blocks_of(change)
                self.leave(blocks) if change.mode == "leave" else self.replace(blocks)
            case Deregister():
                ids = self._known(change.ids, told=True) if following else change.ids
                slots = self.slots_of(ids)
                self.drop(slots if slots.size == 1 else np.unique(slots))
            case Pause():
                ids = self._known(change.ids) if following else change.ids
                self._pause(self.slots_of(ids))
            case Resume():
                ids = self._known(change.ids) if following else change.ids
                self._resume(self.slots_of(ids))

    def adopt(self, change: Register | RegisterBlocks) -> None:
        """Register queries that have been elsewhere: keys inside were reported to them there."""
        self.settle()  # those that wait are announced
        before = len(self)
        self.apply(change)
        self.settle()
        catalog = self._contents.catalog
        catalog.announced(np.arange(before, len(self), dtype=np.int32))
        self.announce_again()

    def know_keys(self, change: Register | RegisterBlocks) -> None:
        """Give the keys that queries name numbers, before they are registered."""
        for block in self._blocks_of(change):
            if block.keys is not None:
                self._contents.keys.number_of(block.keys)

    def changing(self) -> Integrity:
        """Return a context in which state changes: an error in it leaves the shard torn."""
        return self._integrity.changing()

    def check(self, change: Change) -> None:
        """Raise what `apply` would raise, and change no query."""
        match change:
            case Register(mode="leave") | RegisterBlocks(mode="leave"):
                pass  # where they begin, they are checked
            case Register():
                replacing = change.mode != "register"
                self._fresh(change.queries, replacing=replacing)
                if replacing:
                    self.number_waiting()
                    check_kinds(self._blocks_of(change), self._contents)
            case RegisterBlocks():
                self.number_waiting()
                self._check_blocks(change.blocks, replacing=change.mode != "register")
            case Deregister() | Pause() | Resume():
                self.slots_of(change.ids)

    def check_fit(self, queries: tuple[Query, ...]) -> None:
        """Raise if queries could not be here together, whatever their ids are."""
        self._fresh(queries, replacing=True)

    def end(self, slots: Int32s) -> None:
        """Drop queries that have ended by themselves."""
        if slots.size:
            self.ended.update(self._contents.catalog.names.texts(slots))
            self.drop(slots)

    def drop(self, slots: Int32s) -> None:
        """End queries."""
        contents = self._contents
        by_kind = contents.by_kind(slots)
        if any(index.must_know_of_drops for index, _ in by_kind):
            self.settle()  # such an index must have all that were registered before
        for index, dropped in by_kind:
            index.drop(dropped)
        contents.catalog.drop(slots)
        contents.hygiene.drop(slots)

    def _pause(self, slots: Int32s) -> None:
        contents = self._contents
        for index, paused in contents.by_kind(slots):
            index.pause(paused)
            if index.predecessors is not None:
                index.predecessors.forget(paused)
        contents.catalog.pause(slots)
        contents.hygiene.pause(slots)

    def _resume(self, slots: Int32s) -> None:
        contents = self._contents
        resumed = contents.catalog.resume(slots)
        self._new.append(resumed)
        self.settle()
        for index, wanted in contents.by_kind(resumed):
            index.resume(wanted)
            for rows in index.layers.find(wanted):
                index.revive(rows)

    def _known(self, ids: pa.Array, *, told: bool = False) -> pa.Array:
        """Return ids of a log without those that are not live here.

        They are of queries that ended here before the log said so, or that were registered in a
        row of the log that is lost.
        """
        ids = self._not_ended(ids, told=told)
        try:
            self.slots_of(ids)
        except UnknownQueryError:
            return ids.filter(pa.array(self.live(ids)))
        return ids

    def _not_ended(self, ids: pa.Array, *, told: bool = False) -> pa.Array:
        """Return ids without those of queries that ended here before the log said so."""
        if not self.ended:
            return ids
        names = ids.to_pylist()
        kept = [name for name in names if name not in self.ended]
        if told:
            self.ended.difference_update(names)
        return pa.array(kept, pa.string())

    # -- replacement --------------------------------------------------------------------------

    def replace(self, blocks: tuple[QueryBlock, ...], *, rebasing: bool = False) -> None:
        """Let queries take the place of live ones with their ids; others just begin.

        Parameters
        ----------
        rebasing : bool
            Those that just begin are told to have been registered: the log does not say which of
            them took the place of one that was never here.
        """
        compared = self.compare(blocks)
        self._check_room(blocks)
        self._forget_ended(blocks)
        with self._integrity.changing():
            for block, each in zip(blocks, compared, strict=True):
                self._relabel(block, each)
            fresh = rows_of(blocks, [~each.same for each in compared])
            olds = [each.slot[~each.same] for each in compared if not each.same.all()]
            news = self._number(fresh)
            # What goes is gone before anything else comes, which would share its rows otherwise.
            begun = [new[old < 0] for old, new in zip(olds, news, strict=True)] if rebasing else []
            held = self._hold_back(begun)
            for block, old, new in zip(fresh, olds, news, strict=True):
                live = old >= 0
                self._contents.catalog.flags[new[live | (not rebasing)]] |= REPLACED
                self._end_replaced(block.kind, old[live], new[live])
            for kind, rows in held:
                self._pending[kind, rows.shape].append(rows)

    def leave(self, blocks: tuple[QueryBlock, ...]) -> None:
        """Let live queries end because others with their ids begin in other shards."""
        compared = self.compare(blocks)
        self._forget_ended(blocks)
        catalog = self._contents.catalog
        with self._integrity.changing():
            blocks = rows_of(blocks, [each.live for each in compared])
            olds = [each.slot[each.live] for each in compared if each.live.any()]
            for block, old in zip(blocks, olds, strict=True):
                if self._contents.indexes[block.kind].predecessors is None:
                    self.drop(old)
                    continue
                # What is told, is told in the name of queries that live until then.
                new = catalog.add(encode(block.ids))
                self._describe(block, new)
                catalog.flags[new] |= REPLACED
                self._end_replaced(block.kind, old, new)
                self._new.append(new)
                self._leaving.append(new)

    def _blocks_of(self, change: Register | RegisterBlocks) -> tuple[QueryBlock, ...]:
        if isinstance(change, RegisterBlocks):
            return change.blocks
        return blocks_of_queries(change.queries, self._contents.stream)

    def _forget_ended(self, blocks: tuple[QueryBlock, ...]) -> None:
        """Forget that queries ended by themselves: the log has others under their ids now."""
        if self.ended:
            self.ended.difference_update(name for block in blocks for name in block.ids.to_pylist())

    def _relabel(self, block: QueryBlock, compared: Compared) -> None:
        rows = np.flatnonzero(compared.same & ~compared.labelled)
        if rows.size:
            self._contents.catalog.relabel(compared.slot[rows], block.take(rows).texts())

    def _end_replaced(self, kind: str, old: Int32s, new: Int32s) -> None:
        same_kind = self._contents.catalog.kind[old] == self._contents.number_of(kind)
        hand_on(self._contents, kind, old[same_kind], new[same_kind])
        self.drop(np.unique(old))

    # -- announcements ------------------------------------------------------------------------

    @property
    def has_news(self) -> bool:
        """Whether keys inside are still to be reported to new or resumed queries."""
        return bool(self._new)

    def announced(self) -> None:
        """Note that the keys inside were reported, or that there are none."""
        for index in self._contents.indexes.values():
            index.forget_announcements()
            if index.predecessors is not None:
                index.predecessors.clear()
        for slots in self._new:
            self._contents.catalog.announced(slots)
        self._new = []
        for slots in self._leaving:
            self.drop(slots[self._contents.catalog.flags[slots] != 0])
        self._leaving.clear()

    def announced_elsewhere(self) -> None:
        """Forget all announcements that are due: they were made where state was saved."""
        self.settle()
        self.announced()

    def announce_again(self) -> None:
        """Go on with queries that were loaded: announcements may still be due by their flags."""
        catalog = self._contents.catalog
        new = np.flatnonzero(catalog.flags[: len(catalog)] & NEW).astype(np.int32)
        self._new = [new] if new.size else []
        numbers = np.unique(catalog.kind[: len(catalog)])
        self.kinds_seen = tuple(tuple(self._contents.indexes)[number] for number in numbers)
        for index in self._contents.indexes.values():
            index.forget_announcements()
            for rows in index.layers.find(new):
                index.revive(rows)
