"""What the demo does, without what it shows: a market, a million queries, changes while it runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from everquery.cli.this_process import Clock
from everquery.engine import Engine
from everquery.kinds.threshold.spec import Threshold
from everquery.sources import (
    Market,
    market_queries,
    market_stream,
    query_ids,
    query_numbers,
    repeats,
)

CHUNK = 100_000  # queries a call of register_table, so that there is progress to show
SHARES = {"range": 0.1, "threshold": 0.1}  # of the queries; the rest are borders
ROUNDS = 2  # how often each fluctuation level has its turn


@dataclass(frozen=True, slots=True)
class Plan:
    """How large the demo is.

    Attributes
    ----------
    queries, symbols, batch_size : int
    events : int or None
        How many to process at most.
    seconds : float or None
        How long to run at most.
    changes : int
        Queries registered, and as many dropped if they have not ended, before each batch.
    fluctuations : tuple of float
        The levels, in turn.
    width : float
        The width of the queries' price ranges, as a share of the domain.
    seed : int
    """

    queries: int = 1_000_000
    symbols: int = 2_000
    batch_size: int = 100_000
    events: int | None = None
    seconds: float | None = 20.0
    changes: int = 100
    fluctuations: tuple[float, ...] = (0.0001, 0.0002, 0.0005, 0.001)
    width: float = 0.001
    seed: int = 7

    def by_kind(self) -> dict[str, int]:
        """Return how many queries of each kind there are at first."""
        return _split(self.queries)

    def changes_by_kind(self) -> dict[str, int]:
        """Return how many queries of each kind are replaced before each batch."""
        at_first = self.by_kind()
        return {kind: min(n, at_first[kind]) for kind, n in _split(self.changes).items()}

    def fluctuation(self, batches: int, seconds: float) -> float:
        """Return the level that has its turn after so many batches and seconds."""
        turns = ROUNDS * len(self.fluctuations)
        turn = 0
        if self.seconds:
            turn = int(seconds / self.seconds * turns)
        elif self.events is not None:
            in_all = -(-self.events // self.batch_size)
            turn = batches // -(-in_all // turns)
        return self.fluctuations[turn % len(self.fluctuations)]


def _split(queries: int) -> dict[str, int]:
    others = {kind: int(queries * share) for kind, share in SHARES.items()}
    return {"border": queries - sum(others.values()), **others}


def none_by_kind() -> dict[str, int]:
    """Return a count of none for each kind."""
    return dict.fromkeys(_split(0), 0)


def none_by_event() -> dict[str, int]:
    """Return a count of none for each event that the demo's queries tell of."""
    return dict.fromkeys(("enter", "leave", "match", "fire"), 0)


@dataclass(slots=True)
class Level:
    """What happened at one fluctuation level; seconds are those inside `process`."""

    fluctuation: float
    batches: int = 0
    events: int = 0
    notices: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class Tally:
    """What has happened so far.

    Attributes
    ----------
    warm_up_seconds, generate_seconds, register_seconds, run_seconds : float
        To compile or load the loops, to make the queries, to register and index them, and since
        the first batch began.
    first_result_seconds : float or None
        When the first notices came, on the job's clock.
    market_seconds, change_seconds, process_seconds : float
        What the run's time went into: events, live changes, queries. The rest is the view's.
    registered, dropped, ended : dict
        Live changes by kind; thresholds that don't repeat end with their fire.
    notices : dict
        By event.
    told_at_registration : int
        Those of them about keys that were inside a new query already.
    """

    levels: dict[float, Level]
    warm_up_seconds: float = 0.0
    generate_seconds: float = 0.0
    register_seconds: float = 0.0
    first_result_seconds: float | None = None
    market_seconds: float = 0.0
    change_seconds: float = 0.0
    process_seconds: float = 0.0
    run_seconds: float = 0.0
    batches: int = 0
    events: int = 0
    registered: dict[str, int] = field(default_factory=none_by_kind)
    dropped: dict[str, int] = field(default_factory=none_by_kind)
    ended: dict[str, int] = field(default_factory=none_by_kind)
    notices: dict[str, int] = field(default_factory=none_by_event)
    told_at_registration: int = 0

    @property
    def all_notices(self) -> int:
        """How many notices there were."""
        return sum(self.notices.values())


@dataclass(frozen=True, slots=True)
class Beat:
    """One batch, just processed."""

    fluctuation: float
    notices: pa.Table
    seconds: float


class DemoJob:
    """The demo: `warm_up`, then the loops `register` and `run`, which may be left at any step.

    Parameters
    ----------
    plan : Plan
    clock : function
        Returns seconds.
    """

    def __init__(self, plan: Plan, *, clock: Clock) -> None:
        self.plan = plan
        self.clock = clock
        self.market = Market(symbols=plan.symbols, seed=plan.seed)
        self.engine = Engine(market_stream())
        self.tally = Tally({level: Level(level) for level in plan.fluctuations})
        self._ended: set[str] = set()  # ids

    def warm_up(self) -> None:
        """Run a tiny demo, so that the loops are compiled, or loaded, before anything is timed."""
        started = self.clock()
        tiny = replace(self.plan, queries=20, symbols=2, batch_size=8, events=24, changes=10)
        job = DemoJob(tiny, clock=self.clock)
        with job.engine:
            for _ in (*job.register(), *job.run()):
                pass
        self.tally.warm_up_seconds = self.clock() - started

    def register(self) -> Iterator[int]:
        """Register the queries; yield how many there are so far."""
        done = 0
        for kind, count in self.plan.by_kind().items():
            for first in range(0, count, CHUNK):
                size = min(CHUNK, count - first)
                started = self.clock()
                table = self._queries(kind, first, size)
                generated = self.clock()
                self.engine.register_table(table, kind=kind)
                self.tally.generate_seconds += generated - started
                self.tally.register_seconds += self.clock() - generated
                done += size
                yield done
        started = self.clock()
        self.engine.stats()  # builds the indexes, which would otherwise happen in the first batch
        self.tally.register_seconds += self.clock() - started

    def run(self) -> Iterator[Beat]:
        """Process batches until the plan's limit; yield each."""
        plan, tally = self.plan, self.tally
        began = self.clock()
        while (plan.events is None or tally.events < plan.events) and (
            plan.seconds is None or tally.run_seconds < plan.seconds
        ):
            level = plan.fluctuation(tally.batches, tally.run_seconds)
            size = plan.batch_size
            if plan.events is not None:
                size = min(size, plan.events - tally.events)
            yield self._step(level, size)
            tally.run_seconds = self.clock() - began

    def _step(self, fluctuation: float, size: int) -> Beat:
        tally = self.tally
        started = self.clock()
        batch = self.market.batch(size, fluctuation=fluctuation)
        generated = self.clock()
        self._change()
        changed = self.clock()
        notices = self.engine.process(batch)
        ended = self.clock()
        if tally.first_result_seconds is None and notices.num_rows:
            tally.first_result_seconds = ended
        tally.market_seconds += generated - started
        tally.change_seconds += changed - generated
        tally.process_seconds += ended - changed
        self._count(fluctuation, size, notices, ended - changed)
        return Beat(fluctuation, notices, ended - changed)

    def _change(self) -> None:
        """Register new queries, and drop as many of the oldest, without those that have ended."""
        at_first = self.plan.by_kind()
        for kind, size in self.plan.changes_by_kind().items():
            if size:
                before = self.tally.registered[kind]
                new = self._queries(kind, at_first[kind] + before, size)
                oldest = query_ids(kind, before, size).to_pylist()
                live = [query_id for query_id in oldest if query_id not in self._ended]
                self.engine.register_table(new, kind=kind)
                self.engine.deregister(live)
                self.tally.registered[kind] += size
                self.tally.dropped[kind] += len(live)

    def _queries(self, kind: str, first: int, count: int) -> pa.Table:
        return market_queries(
            count,
            kind,
            symbols=self.market.symbols,
            width=self.plan.width,
            seed=self.plan.seed,
            first=first,
        )

    def _count(self, fluctuation: float, events: int, notices: pa.Table, seconds: float) -> None:
        tally = self.tally
        counts = count_words(notices["event"])
        for event, count in counts.items():
            tally.notices[event] += count
        if counts.get("fire"):
            ended = ended_by_firing(notices)
            self._ended.update(ended.to_pylist())
            tally.ended[Threshold.kind] += len(ended)
        tally.told_at_registration += count_words(notices["reason"]).get("registered", 0)
        tally.batches += 1
        tally.events += events
        level = tally.levels[fluctuation]
        level.batches += 1
        level.events += events
        level.notices += notices.num_rows
        level.seconds += seconds


def ended_by_firing(notices: pa.Table) -> pa.Array:
    """Return the ids of the thresholds that have ended with one of these notices."""
    ids = notices["query_id"].filter(pc.equal(notices["event"], "fire")).cast(pa.string())
    return ids.filter(pa.array(~repeats(query_numbers(ids)))).combine_chunks()


def count_words(words: pa.ChunkedArray) -> dict[str, int]:
    """Return how often each word of a dictionary-encoded column occurs."""
    counts: dict[str, int] = {}
    for chunk in words.chunks:
        numbers = np.bincount(np.asarray(chunk.indices.drop_null()))
        for word, count in zip(chunk.dictionary.to_pylist(), numbers.tolist(), strict=False):
            counts[word] = counts.get(word, 0) + count
    return counts
