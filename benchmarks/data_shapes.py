"""Awkward data: equal values and crowded queries, through the engine, beside uniform ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

import everquery as eq
from benchmarks.findings import Findings, Table
from benchmarks.harness import Scale, Stopwatch
from everquery.core.arrays import Floats

NAME = "data_shapes"
ALIKE = 1.25  # notices that differ by less are left as they are
AT_MOST = 3.0
UNKNOWN = "10% null"
AT_MOST_UNKNOWN = 1.3
BATCHES = 6
COUNTED = 3  # batches to count notices in
DEPTH = 10.0  # queries around a value
OCTAVES = 60
ROUNDS = 3 * BATCHES
TOTAL = 20
EPSILON = 0.0005
UNIFORM = "uniform"

Draw = Callable[[np.random.Generator, int], Floats]
Lay = Callable[[Floats, int], Floats]


# Where events are, in the unit interval; a layout then says which values these places have. In the
# uniform one, the middle is zero.
EVENTS: dict[str, Draw] = {
    UNIFORM: lambda rng, n: rng.random(n),
    "constant": lambda _, n: np.full(n, 0.5),
    "two values": lambda rng, n: rng.choice([0.25, 0.75], n),
    "90% zeros": lambda rng, n: np.where(rng.random(n) < 0.9, 0.5, rng.random(n)),
    UNKNOWN: lambda rng, n: np.where(rng.random(n) < 0.1, np.nan, rng.random(n)),
}


def centred(places: Floats, _: int) -> Floats:
    """Move places so that zero is in the middle."""
    return places - 0.5


def clustered(places: Floats, _: int) -> Floats:
    """Crowd places together towards zero: as many in each octave."""
    crowded: Floats = np.exp2(OCTAVES * (places - 1))
    return crowded


def adjacent(places: Floats, queries: int) -> Floats:
    """Turn the step from one query to the next into one from a float to the next, at 0.5."""
    floats: Floats = 0.5 + np.rint(queries * places) * np.spacing(0.5)
    return floats


def one_far_end(places: Floats, _: int) -> Floats:
    """Let places be, except for the highest end, which is as far away as can be."""
    return np.where((places > 1.0) & (places == places.max()), 1e300, places)


def all_ranks(places: Floats, _: int) -> Floats:
    """Let places be."""
    return places


def one_far_rank(places: Floats, _: int) -> Floats:
    """Crowd ranks together below 0.01, except for the highest."""
    return np.where(places == places.max(), 1.0, places / 100)


LAYOUTS: dict[str, Lay] = {
    UNIFORM: centred,
    "exponentially clustered": clustered,
    "adjacent floats": adjacent,
    "one far end": one_far_end,
}
RANKS: dict[str, Lay] = {**LAYOUTS, UNIFORM: all_ranks, "one far end": one_far_rank}


@dataclass(frozen=True)
class Case:
    """What a kind is given.

    Attributes
    ----------
    kind : str
    queries, batch : int
    events, layout : str
        Names in `EVENTS`, and in `LAYOUTS` or `RANKS`.
    depth : float
        How many queries are around a value.
    last : int
        The rows of a window; 0 for none.
    paused : bool
        Whether all queries are paused once windows are full, so that nothing is told.
    """

    kind: str
    queries: int
    batch: int
    events: str = UNIFORM
    layout: str = UNIFORM
    depth: float = DEPTH
    last: int = 0
    paused: bool = False

    @property
    def label(self) -> str:
        """What the case is called."""
        if self.kind != "quantile":
            return self.kind
        return f"quantile, last {self.last:,} rows" if self.last else "quantile, all rows"

    def table(self, rng: np.random.Generator) -> pa.Table:
        """Return the queries, in an order of no meaning."""
        names = [f"q{i}" for i in range(self.queries)]
        places = rng.permutation(self.queries) / self.queries
        if self.kind == "quantile":
            phi = RANKS[self.layout](places + 1 / self.queries, self.queries)
            asked = {"id": names, "phi": phi, "epsilon": np.full(self.queries, EPSILON)}
            window = {"last": np.full(self.queries, self.last)} if self.last else {}
            return pa.table({**asked, **window})
        low, high = self.laid_out(places), self.laid_out(places + self.depth / self.queries)
        boxes = {"id": names, "x_lo": low, "x_hi": np.maximum(high, np.nextafter(low, 2.0))}
        if self.kind == "threshold":
            boxes |= {"total": np.full(self.queries, TOTAL), "repeat": np.ones(self.queries, bool)}
        return pa.table(boxes)

    def rows(self, rng: np.random.Generator, n: int) -> pa.Table:
        """Return events."""
        places = EVENTS[self.events](rng, n)
        return pa.table(
            {"x": centred(places, 0) if self.kind == "quantile" else self.laid_out(places)}
        )

    def laid_out(self, places: Floats) -> Floats:
        """Return the values that places have."""
        return LAYOUTS[self.layout](places, self.queries)


@dataclass
class Player:
    """An engine with the queries of a case, and a few batches that are played over and over."""

    case: Case
    scale: Scale
    calls: int = 0
    notices: int = 0
    _engine: eq.Engine = field(init=False)
    _batches: list[pa.Table] = field(init=False)

    def __post_init__(self) -> None:
        rng = self.scale.generator(1)
        self._engine = eq.Engine(eq.Stream("s", attributes=["x"]))
        self._engine.register_table(self.case.table(rng), kind=self.case.kind)
        self._batches = [self.case.rows(rng, self.case.batch) for _ in range(BATCHES)]
        for batch in self._batches:  # fills windows, too
            self._engine.process(batch)
        if self.case.paused:
            self._engine.pause([f"q{i}" for i in range(self.case.queries)])

    def __call__(self) -> pa.Table:
        """Process the next batch."""
        notices = self._engine.process(self._batches[self.calls % BATCHES])
        self.calls += 1
        self.notices += notices.num_rows
        return notices

    def rate(self) -> float:
        """Return the notices of a batch."""
        while self.calls < COUNTED:
            self()
        return self.notices / self.calls


def run(scale: Scale) -> Findings:
    """Measure each kind on each shape, in turns with uniform data that tells as much."""
    queries, batch = scale.pick((100_000, 20_000), (500, 200))
    ranks, rows = scale.pick((4_000, 100_000), (20, 4_000))
    findings = Findings(
        {
            "queries": queries,
            "events of a batch": batch,
            "queries around a value": DEPTH,
            "quantile queries": ranks,
            "epsilon": EPSILON,
            "rows of a batch of quantiles": rows,
            "timing": f"median of {ROUNDS} batches, shaped and uniform data in turns",
        }
    )
    kinds = [Case(kind, queries, batch) for kind in ("range", "border", "threshold")]
    quantile = Case("quantile", ranks, rows)
    table: list[list[str | float | None]] = []
    for uniform in (*kinds, quantile, replace(quantile, last=4 * rows)):
        table += [compare(findings, scale, uniform, shaped) for shaped in shapes(uniform)]
    findings.tables.append(
        Table(
            "data-shapes",
            "Awkward data beside uniform data, through `engine.process`",
            [
                "kind",
                "data",
                "ms a batch",
                "uniform data",
                "times",
                "notices a batch",
                "uniform data",
            ],
            table,
            "Events with equal values come with uniform queries, and the other layouts of queries"
            " (of quantiles: of their ranks) with events that are where the queries are. Where the"
            " data tells more or less, the uniform queries beside it are as much wider or narrower,"
            " so that both tell about as much. What quantiles tell can't be made alike, and uniform"
            " data mostly tells more. The row with all queries paused, which tells nothing, shows"
            " how much of the ratios that may account for.",
        )
    )
    return findings


def shapes(uniform: Case) -> list[Case]:
    """Return a case for each awkward shape of events, then of queries.

    What quantiles tell can't be made alike, so for them one case says what telling takes.
    """
    events = [replace(uniform, events=name) for name in EVENTS if name != UNIFORM]
    layouts = [replace(uniform, layout=name) for name in LAYOUTS if name != UNIFORM]
    silent = [replace(uniform, paused=True)] if uniform.kind == "quantile" else []
    return events + layouts + silent


def compare(
    findings: Findings, scale: Scale, uniform: Case, shaped: Case
) -> list[str | float | None]:  # fmt: skip
    """Measure a shape and uniform data; return a row of the table."""
    players = {"shaped": Player(shaped, scale), "uniform": Player(uniform, scale)}
    told = {name: player.rate() for name, player in players.items()}
    more = told["shaped"] / max(told["uniform"], 1.0)
    if uniform.kind != "quantile" and not 1 / ALIKE < more < ALIKE:
        players["uniform"] = Player(replace(uniform, depth=more * uniform.depth), scale)
    ms = in_turns(players)
    told = {name: player.rate() for name, player in players.items()}
    shape = shaped.events if shaped.layout == UNIFORM else shaped.layout
    ratio = ms["shaped"] / ms["uniform"]
    if shaped.paused:
        shape = "uniform, all queries paused"
    else:
        what = f"{uniform.label[0].upper()}{uniform.label[1:]}, {shape}"
        most = AT_MOST_UNKNOWN if shape == UNKNOWN else AT_MOST
        findings.at_most(f"{what}: a batch against uniform data", ratio, most, "times")
    return [
        uniform.label, shape, ms["shaped"], ms["uniform"], ratio, told["shaped"], told["uniform"]
    ]  # fmt: skip


def in_turns(players: dict[str, Player]) -> dict[str, float]:
    """Return the milliseconds of a batch; batches differ, so that the usual one counts."""
    watches = {name: Stopwatch() for name in players}
    for _ in range(ROUNDS):
        for name, player in players.items():
            watches[name](player)
    return {name: watch.timing.median * 1e3 for name, watch in watches.items()}
