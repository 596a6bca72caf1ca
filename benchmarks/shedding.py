"""Overload: what outputs are worth when rows are shed by their graphs, and when they are not.

The network is the example of the Aurora report, `examples/tracking.yaml`: stickers on projectors
and laptops say where these are. The police is told of what leaves the building unbooked, a floor
plan shows where things are, usage is counted, and batteries that run low are changed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.findings import Figure, Findings, Panel, Table
from benchmarks.harness import ROOT, Scale
from everquery.network import Filter, Network
from everquery.network.utility import loss_graph, utilities, utility, value_graph

NAME = "shedding"
EXAMPLE = ROOT / "examples" / "tracking.yaml"
COSTS = {"outside": 1e-4, "leaving": 1e-4, "placed": 3e-4, "usage": 3e-4, "level": 2.9e-4}
CAPACITY_ROWS = 1000  # a second: what one core just holds at these costs
STEP = 0.25  # seconds between two batches
ASKED_UTILITY, ASKED_TRAINS = 1.5, 100.0
GENEROUS = 0.97  # random dropping knows the load, and drops no more than this asks for
SHED, RANDOM, NOTHING = "everquery", "random dropping", "no shedding"
ITEMS = 50

Clock = Callable[[], float]


def rows_at(rng: np.random.Generator, count: int, second: float) -> pa.Table:
    """Return what stickers say at one moment."""
    return pa.table(
        {
            "item": rng.integers(0, ITEMS, count),
            "ts": np.full(count, int(second)),
            "x": rng.uniform(-5, 105, count),
            "y": rng.uniform(0, 100, count),
            "battery": rng.uniform(0, 1, count),
            "booked": rng.integers(0, 2, count).astype(np.float64),
        }
    )


def batches(scale: Scale, rates: Sequence[float]) -> Iterator[tuple[float, pa.Table]]:
    """Return batches with the time of each, so many rows in each second."""
    rng = scale.generator(71)
    for second, rate in enumerate(rates):
        for part in range(round(1 / STEP)):
            now = second + part * STEP
            yield now, rows_at(rng, round(rate * STEP), now)


@dataclass
class Weights:
    """What each output gave in each second of its rows: by rows, by values, by what was counted."""

    network: Network
    at: dict[str, dict[int, float]] = field(default_factory=dict)

    def add(self, given: dict[str, pa.Table]) -> None:
        """Take in rows."""
        for name, table in given.items():
            if not table.num_rows:
                continue
            seconds = table.column("window_start" if name == "usage" else "ts").to_numpy()
            sums = np.bincount(seconds.astype(np.int64), weights=self._of(name, table))
            own = self.at.setdefault(name, {})
            for second in np.flatnonzero(sums):
                own[int(second)] = own.get(int(second), 0.0) + float(sums[second])

    def _of(self, name: str, table: pa.Table) -> Any:  # noqa: ANN401 - an array
        if name == "usage":
            return table.column("n").to_numpy().astype(np.float64)
        graph = value_graph(self.network.outputs[name].qos)
        if graph is None:
            return np.ones(table.num_rows)
        return utilities(graph[1], table.column(graph[0]).to_numpy())


@dataclass
class Play:
    """A run to its end: utility by output and second, longest delays, the loss report."""

    utility: dict[str, list[float]]
    delays: dict[str, float]
    shed: int
    adds_up: bool

    def total(self, seconds: slice) -> float:
        """Return the mean over outputs and seconds."""
        return float(np.mean([np.mean(own[seconds]) for own in self.utility.values()]))


def play(scale: Scale, rates: Sequence[float], way: str) -> Play:
    """Run the network in the time that its costs take."""
    network = Network.load(EXAMPLE)
    whole, seen = Weights(network), Weights(network)
    plain = network.start(optimize=False)
    run = network.start(costs=COSTS, shed=way == SHED)
    rng = scale.generator(72)
    came = 0
    for now, batch in batches(scale, rates):
        whole.add(plain.process({"stickers": batch}))
        if way == RANDOM:
            share = min(GENEROUS * CAPACITY_ROWS * STEP / max(batch.num_rows, 1), 1.0)
            batch = batch.filter(pa.array(rng.random(batch.num_rows) < share))
        came += batch.num_rows
        seen.add(run.process({"stickers": batch}, now=now))
    whole.add(plain.finish())
    seen.add(run.work(float(len(rates))))
    report, quality = run.shed_report().to_pylist(), run.quality().to_pylist()
    adds_up = _adds_up(run, came)
    found = {
        name: _by_second(name, network, whole, seen, quality, len(rates))
        for name in network.outputs
    }
    delays = {
        name: max(
            (row["longest_delay"] for row in quality if row["output"] == name and row["rows"]),
            default=0.0,
        )
        for name in network.outputs
    }
    return Play(found, delays, sum(row["shed"] for row in report), adds_up)


def _adds_up(run: Any, came: int) -> bool:  # noqa: ANN401 - a run
    """Tell whether, at each arrow from the stream, rows that came are those shed or passed on."""
    report = run.shed_report().to_pylist()
    arcs = [row for row in run.stats().to_pylist() if row["what"] == "arc"]
    shed: dict[str, int] = {}
    for row in report:
        if row["offered"] != row["shed"] + row["passed"]:
            return False
        shed[row["place"]] = shed.get(row["place"], 0) + row["shed"]
    firsts = [row for row in arcs if row["name"].startswith("stickers -> ")]
    return all(row["rows_in"] + shed.get(row["name"], 0) == came for row in firsts)


def _by_second(
    name: str,
    network: Network,
    whole: Weights,
    seen: Weights,
    quality: list[dict[str, Any]],
    seconds: int,
) -> list[float]:
    """Return what an output was worth: its loss against all rows, times how timely it was."""
    graph = loss_graph(network.outputs[name].qos)
    delay = network.outputs[name].qos.delay  # type: ignore[union-attr]
    assert delay is not None
    timely = {
        int(row["since"]): utility(delay, row["delay"])
        for row in quality
        if row["output"] == name and row["rows"]
    }
    found = []
    for second in range(seconds):
        had = whole.at.get(name, {}).get(second, 0.0)
        got = seen.at.get(name, {}).get(second, 0.0)
        lost = 1 - min(got / had, 1.0) if had else 0.0
        found.append(utility(graph, lost) * timely.get(second, 1.0 if got else 0.0))
    return found


def _overload(findings: Findings, scale: Scale) -> None:
    seconds = scale.pick(60, 20)
    settled = slice(seconds // 3, seconds - 3)  # the last windows are open still
    rows: list[list[str | float | None]] = []
    for times in (2, 5):
        rates = [CAPACITY_ROWS * times] * seconds
        plays = {way: play(scale, rates, way) for way in (SHED, RANDOM, NOTHING)}
        totals = {way: one.total(settled) for way, one in plays.items()}
        for way, one in plays.items():
            rows.append(
                [f"{times} times, {way}", totals[way], one.delays["police"], float(one.shed)]
            )
        if times == 2:
            findings.at_least(
                "Overload at 2 times capacity: utility against random dropping",
                totals[SHED] / totals[RANDOM],
                ASKED_UTILITY,
                "times",
            )
        findings.at_most(
            f"Overload at {times} times capacity: longest delay of the most important output",
            plays[SHED].delays["police"],
            2.0,  # the end of its good zone
            "s",
        )
        findings.at_least(
            f"Overload at {times} times capacity: the loss report adds up to the row (1: yes)",
            float(plays[SHED].adds_up),
            1.0,
            "",
        )
    findings.tables.append(
        Table(
            "overload",
            "Utility under overload, in the time that costs say",
            ["load, way", "utility", "longest delay of police, s", "rows shed"],
            rows,
            "Utility is the mean over outputs and seconds, from the rows that came out.",
        )
    )


def _over_time(findings: Findings, scale: Scale) -> None:
    part = scale.pick(20, 6)
    times = [0.8] * part + [2.0] * part + [5.0] * part + [0.8] * part
    rates = [CAPACITY_ROWS * one for one in times]
    plays = {way: play(scale, rates, way) for way in (SHED, RANDOM, NOTHING)}
    seconds = list(range(len(rates) - 3))
    total: dict[str, list[float | None]] = {
        way: [float(np.mean([own[at] for own in one.utility.values()])) for at in seconds]
        for way, one in plays.items()
    }
    single: dict[str, list[float | None]] = {
        name: [own[at] for at in seconds] for name, own in plays[SHED].utility.items()
    }
    findings.figures.append(
        Figure(
            "shedding_over_time",
            "Utility over time: 0.8, 2, 5 and 0.8 times what one core holds",
            "seconds",
            [float(at) for at in seconds],
            [
                Panel("All outputs, mean", "utility", total, log_y=False),
                Panel("Each output, shed by graphs", "utility", single, log_y=False),
            ],
            seen="Load is shed for outputs that bear it, and taken back when the load falls.",
            log_x=False,
        )
    )


CHAIN = 10


def chain() -> Network:
    """Return ten filters and maps behind one another."""
    boxes = "".join(
        f'  b{at}: {{box: filter, from: {_before(at)}, where: "x > {at}"}}\n'
        if at % 2
        else f'  b{at}: {{box: map, from: {_before(at)}, select: "x + 1 AS x"}}\n'
        for at in range(CHAIN)
    )
    return Network.load(
        f"network: chain\nstreams: {{s: {{attributes: [x]}}}}\nboxes:\n{boxes}"
        f"outputs: {{o: {{from: b{CHAIN - 1}}}}}\n"
    )


def _before(at: int) -> str:
    return "s" if at == 0 else f"b{at - 1}"


def _trains(findings: Findings, scale: Scale) -> None:
    rng = scale.generator(73)
    speeds = {}
    for train, count in ((1, scale.pick(2_000, 100)), (1 << 16, scale.pick(4_000_000, 200_000))):
        network, best = chain(), 0.0
        values = pa.table({"x": rng.uniform(20, 1000, count)})
        for _ in range(3):
            run = network.start(costs={}, train=train)
            run.process({"s": values}, now=0.0)
            began = time.perf_counter()
            given = run.finish()
            best = max(best, count / (time.perf_counter() - began))
            assert given["o"].num_rows == count
        speeds[train] = best
    one, many = speeds.values()
    findings.at_least(
        "Trains of rows through ten boxes against one row at a time",
        many / one,
        ASKED_TRAINS,
        "times",
    )


REAL = """
network: real
streams: {s: {time: ts, attributes: [x]}}
boxes:
  vital: {box: filter, from: s, where: "x > 0.99"}
  level: {box: map, from: s, select: "ts, x * 100 AS percent"}
outputs:
  vital: {from: vital, shed: never, qos: {delay: [[0, 1], [1, 1], [3, 0]]}}
  dear: {from: s, qos: {delay: [[0, 1], [1, 1], [4, 0]], loss: [[0, 1], [0.7, 0.9], [1, 0]]}}
  fair: {from: level, qos: {delay: [[0, 1], [1, 1], [4, 0]],
         values: {percent: [[50, 0], [100, 1]]}}}
"""
PASSES = 60  # over a column: what makes a box dear


def heavy(rows: pa.Table) -> pa.Array:
    """Let all rows through, after some work."""
    values = rows.column(1).to_numpy()
    total = np.zeros(rows.num_rows)
    for _ in range(PASSES):
        total += np.sin(values)
    return pa.array(total < PASSES + 1)


def real_network() -> Network:
    """Return a network with boxes that are worth shedding for, by the machine's clock."""
    base = Network.load(REAL)
    boxes = {**base.boxes, "dear": Filter("s", where=heavy), "fair": Filter("level", where=heavy)}
    outputs = {
        **base.outputs,
        "dear": replace(base.outputs["dear"], source="dear"),
        "fair": replace(base.outputs["fair"], source="fair"),
    }
    return Network("real", base.streams, boxes, outputs)


def real(scale: Scale, rate: float, seconds: float, *, shed: bool) -> dict[str, float]:
    """Return the mean utility of each output when rows come this fast, by the machine's clock."""
    pool = scale.generator(74).random(1 << 20)
    run = real_network().start(clock=time.monotonic, shed=shed, interval=0.25, patience=1)
    began, sent = time.monotonic(), 0
    while (now := time.monotonic() - began) < seconds:
        due = int(now * rate)
        if due == sent:
            continue
        oldest = began + sent / rate
        count = min(due - sent, pool.size)
        table = pa.table({"ts": np.arange(sent, sent + count), "x": pool[:count]})
        run.process({"s": table}, now=oldest, read=[])
        run.read()
        sent += count
    quality = [row for row in run.quality().to_pylist() if row["utility"] is not None]
    return {
        name: float(np.mean([row["utility"] for row in quality if row["output"] == name]))
        for name in ("vital", "dear", "fair")
    }


def _real(findings: Findings, scale: Scale) -> None:
    sample = pa.table({"ts": np.arange(200_000), "x": scale.generator(75).random(200_000)})
    found = real_network().check(rates={"s": 1.0}, samples={"s": sample})
    rate, seconds = found.holds_until, scale.pick(10.0, 2.0)
    rows: list[list[str | float | None]] = []
    for times in (2, 5):
        for shed in (True, False):
            own = real(scale, rate * times, seconds, shed=shed)
            label = f"{times} times, {SHED if shed else NOTHING}"
            rows.append([label, *own.values(), float(np.mean(list(own.values())))])
    findings.tables.append(
        Table(
            "overload_real",
            "Utility under overload, by the machine's clock",
            ["load, way", "vital", "dear", "fair", "mean"],
            rows,
            "The load is a multiple of what a calibration run holds on this machine.",
        )
    )


def by_costs(scale: Scale) -> Findings:
    """Return what needs no clock, and is the same on every machine."""
    findings = Findings({"rows a second at capacity": CAPACITY_ROWS, "costs": COSTS})
    _overload(findings, scale)
    _over_time(findings, scale)
    return findings


def run(scale: Scale) -> Findings:
    """Measure utility under overload, and trains."""
    findings = by_costs(scale)
    _trains(findings, scale)
    _real(findings, scale)
    return findings
