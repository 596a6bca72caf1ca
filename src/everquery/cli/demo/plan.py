"""How large a demo is, and which queries it registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from everquery.kinds.window.spec import Window
from everquery.sources.market import market_queries

THRESHOLD = "threshold"  # the kind whose queries may end by themselves
SHARES = {"range": 0.1, THRESHOLD: 0.1}  # of the queries; the rest are borders
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
        Queries registered, and as many dropped if they have not ended: embedded before each batch,
        on Spark in the whole run.
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
        """Return how many queries of each kind are replaced."""
        at_first = self.by_kind()
        return {kind: min(n, at_first[kind]) for kind, n in _split(self.changes).items()}

    def table(self, kind: str, first: int, count: int, *, symbols: Sequence[str]) -> pa.Table:
        """Return queries of a kind, from the number `first` on, over the market's symbols."""
        return market_queries(
            count, kind, symbols=symbols, width=self.width, seed=self.seed, first=first
        )

    def window(self, symbol: str) -> Window:
        """Return the query beside all others: how much the price of a symbol moves about.

        Of one symbol, not of each: approximate windows take a microsecond an event.
        """
        return Window("volatility", "variance", "price", last=100, epsilon=0.1, key=symbol)

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

    def progress(self, events: int, seconds: float) -> tuple[float, str]:
        """Return how much of a run is done, by the limit that is nearer, and in words."""
        limits = []
        if self.events is not None:
            limits.append((events / self.events, f"{events:,} of {self.events:,} events"))
        if self.seconds:
            shown = min(seconds, self.seconds)
            limits.append((seconds / self.seconds, f"{shown:.1f} of {self.seconds:g} s"))
        return max(limits, default=(0.0, f"{seconds:.1f} s"))


def _split(queries: int) -> dict[str, int]:
    others = {kind: int(queries * share) for kind, share in SHARES.items()}
    return {"border": queries - sum(others.values()), **others}
