"""The demo in this process: a market, a million queries, changes before each batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import pyarrow as pa

from everquery.cli.demo.counts import count_words, ended_by_firing
from everquery.cli.demo.plan import THRESHOLD, Plan
from everquery.cli.demo.run import COMPILING, Look, Run, Step
from everquery.cli.numbers import megabytes, percent
from everquery.cli.this_process import Clock, broken_off, peak_bytes, resident_bytes
from everquery.engine import Engine
from everquery.sources.market import market_stream, query_ids


@dataclass(slots=True)
class Level:
    """What happened at one fluctuation level; seconds are those inside `process`."""

    fluctuation: float
    batches: int = 0
    events: int = 0
    notices: int = 0
    process_seconds: float = 0.0


class EmbeddedRun(Run):
    """The demo with an engine of its own; `recent` are the notices of the last batch."""

    engine_name = "embedded"

    def __init__(self, plan: Plan, *, clock: Clock) -> None:
        super().__init__(plan, clock=clock)
        self.engine = Engine(market_stream())
        self.levels = {level: Level(level) for level in plan.fluctuations}
        self.told_at_registration = 0
        self._level = self.levels[plan.fluctuations[0]]
        self._notices = pa.table({})
        self._batch_seconds = 0.0
        self._ended: set[str] = set()  # ids

    def prepare(self) -> Iterator[Step]:
        """Compile or load the loops, and register the queries."""
        yield Step("warming up", COMPILING)
        with broken_off():
            self.warm_up()
        yield from self.register()

    def warm_up(self) -> None:
        """Run a tiny demo, so that the loops are compiled, or loaded, before anything is timed."""
        started = self.clock()
        tiny = replace(self.plan, queries=20, symbols=2, batch_size=8, events=24, changes=10)
        run = EmbeddedRun(tiny, clock=self.clock)
        with run.engine:
            for _ in (*run.register(), *run.run()):
                pass
        self.tally.seconds["warm_up"] = self.clock() - started

    def register(self) -> Iterator[Step]:
        """Register the queries and index them."""
        yield from self._register(self.engine)
        started = self.clock()
        self.engine.stats()  # builds the indexes, which would otherwise happen in the first batch
        self.tally.seconds["register"] += self.clock() - started

    def run(self) -> Iterator[bool]:
        """Process batches until the plan's limit."""
        plan, tally = self.plan, self.tally
        began = self.clock()
        while (plan.events is None or tally.events < plan.events) and (
            plan.seconds is None or tally.run_seconds < plan.seconds
        ):
            self._level = self.levels[plan.fluctuation(tally.batches, tally.run_seconds)]
            left = plan.batch_size if plan.events is None else plan.events - tally.events
            self._step(min(plan.batch_size, left))
            tally.run_seconds = self.clock() - began
            yield True

    def _step(self, size: int) -> None:
        seconds = self.tally.seconds
        started = self.clock()
        batch = self.market.batch(size, fluctuation=self._level.fluctuation)
        generated = self.clock()
        self._change()
        changed = self.clock()
        self._notices = self.engine.process(batch)
        ended = self.clock()
        self._batch_seconds = ended - changed
        seconds["market"] += generated - started
        seconds["changes"] += changed - generated
        seconds["process"] += self._batch_seconds
        self.tally.add_batch(size, self._notices.num_rows, ended)
        self._count(size)

    def _change(self) -> None:
        """Register new queries, and drop as many of the oldest, without those that have ended."""
        at_first, tally = self.plan.by_kind(), self.tally
        for kind, size in self.plan.changes_by_kind().items():
            if size:
                before = tally.registered[kind]
                oldest = query_ids(kind, before, size).to_pylist()
                live = [query_id for query_id in oldest if query_id not in self._ended]
                self.engine.register_table(
                    self._table(kind, at_first[kind] + before, size), kind=kind
                )
                self.engine.deregister(live)
                tally.registered[kind] += size
                tally.dropped[kind] += len(live)

    def _count(self, events: int) -> None:
        tally, notices, level = self.tally, self._notices, self._level
        counts = count_words(notices["event"])
        for event, count in counts.items():
            tally.by_event[event] += count
        if counts.get("fire"):
            ended = ended_by_firing(notices)
            self._ended.update(ended.to_pylist())
            tally.ended[THRESHOLD] += len(ended)
        self.told_at_registration += count_words(notices["reason"]).get("registered", 0)
        level.batches += 1
        level.events += events
        level.notices += notices.num_rows
        level.process_seconds += self._batch_seconds

    # -- what it tells ----------------------------------------------------------------------------

    def look(self) -> Look:
        """Return the fluctuation level, how long a batch takes, and the memory."""
        return Look(
            doing=f"fluctuation {percent(self._level.fluctuation)}",
            events={
                "a batch": f"{self._batch_seconds * 1e3:.1f} ms",
                "batches": f"{self.tally.batches:,}",
            },
            queries={"memory": megabytes(resident_bytes())},
        )

    def recent(self) -> pa.Table:
        """Return the notices of the last batch."""
        return self._notices

    def numbers(self) -> dict[str, Any]:
        """Return what the engine knows, and what happened at each level."""
        stats, spent = self.engine.stats(), self.tally.seconds
        steps = ("warm_up", "generate_queries", "register", "market", "changes", "process")
        return {
            "events_per_process_second": _ratio(self.tally.events, spent["process"]),
            "notices_at_registration": self.told_at_registration,
            "levels": [
                {
                    **asdict(level),
                    "events_per_process_second": _ratio(level.events, level.process_seconds),
                }
                for level in self.levels.values()
            ],
            "queries": {kind: stats["queries"][kind] for kind in self.plan.by_kind()},
            "dead_letters": stats["dead_letters"],
            "seconds": {step: spent[step] for step in steps},
            "bytes": {name: size for name, size in stats["bytes"].items() if size},
            "peak_resident_bytes": peak_bytes(),
        }

    def close(self) -> None:
        """Leave the engine open, for the summary: nothing runs in the background."""


def _ratio(count: float, by: float) -> float:
    return count / by if by else 0.0
