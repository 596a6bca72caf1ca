"""Joins that tell, in an engine of several streams: with each call on one of their streams."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from everquery.core.arrays import Int64s
from everquery.shard.pairs import NAMES, expect_pairs, tell_pairs, with_columns

if TYPE_CHECKING:
    from everquery.engine.engine import Engine

log = logging.getLogger("everquery.select")

QUESTION = "tell_joins"  # to which a kind answers with what queries over two streams tell
AT_FRONT = -1  # the place of a notice that is about no event of the call


class Joining:
    """Adds what joins tell to the notices of calls.

    Parameters
    ----------
    engines : mapping from stream to Engine

    Attributes
    ----------
    beside : dict from stream to streams
        Those whose columns the notices of a stream have besides: a join that tells was over both.
    """

    def __init__(self, engines: Mapping[str, Engine]) -> None:
        self._engines = engines
        self.beside: dict[str, dict[str, None]] = {name: {} for name in engines}
        self._looked_at: list[int] = []
        self._missing: set[tuple[str, str]] = set()  # pairs of streams of which only one is here
        self.look()

    def look_again(self) -> None:
        """Do so again if others have changed queries in the registry."""
        if self._looked_at != [engine.position for engine in self._engines.values()]:
            self.look()

    def look(self) -> None:
        """Let each stream keep the rows that joins of others need; take note of those that tell."""
        self._looked_at = [engine.position for engine in self._engines.values()]
        wanted: dict[str, list[Any]] = {name: [] for name in self._engines}
        for name, engine in self._engines.items():
            for other, need in engine.needs_of_others():
                if other in wanted:
                    wanted[other].append(need)
            for other in self._told_with(engine):
                self.beside[name][other] = None
                self.beside[other][name] = None
                expect_pairs(self._engines[other]._shard, QUESTION)
        for name, needs in wanted.items():
            self._engines[name].keep_for_others(needs)

    def _told_with(self, engine: Engine) -> list[str]:
        """Return the other streams of joins of a stream that tell."""
        with engine._lock:
            shard = engine._shard
            shard.queries.settle()
            found = shard.ask_kind("joins_that_tell", flags=shard.contents.catalog.flags)
        here = engine.stream.name
        for other in found:
            if other not in self._engines and (here, other) not in self._missing:
                self._missing.add((here, other))
                log.warning("queries over %r and %r tell nothing: this engine lacks stream %r;"
                            " open one of both", here, other, other)  # fmt: skip
        return [other for other in found if other in self._engines]

    def call(self, engine: Engine, act: Callable[[], pa.Table]) -> pa.Table:
        """Let a stream do something; return its notices, and those of joins."""
        name = engine.stream.name
        with ExitStack() as locks:
            if self.beside[name]:
                for each in self._engines.values():  # always in this order
                    locks.enter_context(each._lock)
            began = engine._shard.ask_kind("begin_call")
            told = act()
            self.look_again()
            if not self.beside[name]:
                return told
            shards = {each: self._engines[each]._shard for each in self._engines}
            tables, places = [], []
            for first in (name, *self.beside[name]):
                others = {each: shards[each] for each in shards if each != first}
                for other, pairs in tell_pairs(shards[first], QUESTION, others, call=began):
                    both = shards[first], shards[other]
                    tables.append(pairs.about(first=first == name, shards=both))
                    places.append(pairs.place)
            own = self._with_columns(engine, told)
            if not tables:
                return own
            if told.num_rows:
                places.insert(0, self._places(engine, told))
                tables.insert(0, own)
        return _in_order(tables, places, own.column_names)

    def _with_columns(self, engine: Engine, notices: pa.Table) -> pa.Table:
        """Return notices of one stream with the columns of those that joins bring, all null."""
        for name in self.beside[engine.stream.name]:
            schema = self._engines[name]._shard.schema()
            fields = [
                schema.field(each) for each in (*NAMES, *self._engines[name].stream.attributes)
            ]
            nulls = [pa.nulls(notices.num_rows, field.type) for field in fields]
            notices = with_columns(notices, pa.table(nulls, schema=pa.schema(fields)), name)
        return notices

    def _places(self, engine: Engine, notices: pa.Table) -> Int64s:
        """Return after how many events of the call each of its notices is told."""
        keys, seqs = engine._shard.ask_kind("fresh_events")
        if not seqs.size:
            return np.full(notices.num_rows, AT_FRONT)
        key = np.zeros(notices.num_rows, np.int64)
        if engine.stream.key is not None:
            names = engine._shard.key_names
            found = pc.index_in(notices["key"].cast(names.type), value_set=names)
            key = found.fill_null(AT_FRONT).to_numpy().astype(np.int64)
        seq = notices["seq"].fill_null(AT_FRONT).to_numpy()
        width = 2 + max(int(seq.max()), int(seqs.max()))
        codes = keys * width + seqs
        order = np.argsort(codes, kind="stable")
        wanted = key * width + seq
        at = np.minimum(np.searchsorted(codes[order], wanted), codes.size - 1)
        place = np.where(codes[order][at] == wanted, order[at], AT_FRONT)
        return np.maximum.accumulate(place)


def _in_order(tables: list[pa.Table], places: list[Int64s], names: list[str]) -> pa.Table:
    """Return notices in the order of events, those of the stream itself first."""
    whole = pa.concat_tables(tables, promote_options="permissive")
    last = [name for name in whole.column_names if name not in names]
    whole = whole.select([*names[:-1], *last, names[-1]]).unify_dictionaries().combine_chunks()
    order = np.argsort(np.concatenate(places), kind="stable")
    if (np.diff(order) == 1).all():
        return whole
    return whole.take(pa.array(order))
