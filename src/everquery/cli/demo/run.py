"""A run of the demo: what it tells its view and its report, whichever runtime it is on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from everquery.cli.demo.counts import Tally
from everquery.cli.demo.plan import Plan
from everquery.cli.this_process import Clock
from everquery.engine import Engine
from everquery.sources.market import Market

CHUNK = 100_000  # queries a call of register_table, so that there is progress to show
COMPILING = "preparing the loops: some seconds on the first run, then they are cached"


@dataclass(frozen=True, slots=True)
class Step:
    """What a run does next, before its first batch or behind its last.

    Attributes
    ----------
    doing : str
        In a word or two.
    words : str
        In a sentence.
    queries : int or None
        How many are registered, where that is what is done.
    """

    doing: str
    words: str
    queries: int | None = None


@dataclass(frozen=True, slots=True)
class Look:
    """What a runtime tells of this moment, besides the tally.

    Attributes
    ----------
    doing : str
        In a word or two.
    events, queries : dict
        Names and values.
    """

    doing: str
    events: dict[str, str]
    queries: dict[str, str]


class Run(ABC):
    """The demo on a runtime: the loops `prepare` and `run` may be left at any step, then `close`.

    Parameters
    ----------
    plan : Plan
    clock : function
        Returns seconds.
    """

    engine_name: ClassVar[str]
    closing: ClassVar[Step | None] = None  # where closing takes a while

    def __init__(self, plan: Plan, *, clock: Clock) -> None:
        self.plan = plan
        self.clock = clock
        self.tally = Tally()
        self.market = Market(symbols=plan.symbols, seed=plan.seed)

    @abstractmethod
    def prepare(self) -> Iterator[Step]:
        """Get everything ready; yield each step, in front of it or as it comes along."""

    @abstractmethod
    def run(self) -> Iterator[bool]:
        """Run until the plan's limit; yield True for each batch, and False now and then."""

    @abstractmethod
    def look(self) -> Look:
        """Return what there is to tell of the last batch."""

    @abstractmethod
    def recent(self) -> pa.Table:
        """Return the newest notices; the tally of notices and of ended queries is brought up."""

    @abstractmethod
    def numbers(self) -> dict[str, Any]:
        """Return what only this runtime tells, for the summary; ``seconds`` join the others."""

    @abstractmethod
    def close(self) -> None:
        """Stop all that runs in the background."""

    def queries(self) -> dict[str, int]:
        """Return how many live queries of each kind there are."""
        tally = self.tally
        return {
            kind: count + tally.registered[kind] - tally.dropped[kind] - tally.ended[kind]
            for kind, count in self.plan.by_kind().items()
        }

    def _table(self, kind: str, first: int, count: int) -> pa.Table:
        return self.plan.table(kind, first, count, symbols=self.market.symbols)

    def _register(self, engine: Engine, where: str = "") -> Iterator[Step]:
        """Register the queries that are there at first."""
        words = f"registering {self.plan.queries:,} queries{where}"
        seconds, done = self.tally.seconds, 0
        for kind, count in self.plan.by_kind().items():
            for first in range(0, count, CHUNK):
                size = min(CHUNK, count - first)
                started = self.clock()
                table = self._table(kind, first, size)
                generated = self.clock()
                engine.register_table(table, kind=kind)
                seconds["generate_queries"] += generated - started
                seconds["register"] += self.clock() - generated
                done += size
                yield Step("registering", words, done)
        engine.register(self.plan.window(self.market.symbols[0].as_py()))
