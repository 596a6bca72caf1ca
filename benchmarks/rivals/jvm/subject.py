"""Whole calls of everquery beside Esper and Flink, on a core each."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.findings import Findings, Table
from benchmarks.harness import Scale, Stopwatch, check_count
from benchmarks.rivals.by_numpy import NumpyBorders, NumpyLists
from benchmarks.rivals.contestant import Contestant
from benchmarks.rivals.jvm.java import Found, play, write
from benchmarks.rivals.live import until_live
from benchmarks.rivals.ours import Ours, Pushed
from benchmarks.rivals.thresholds_by_numpy import NumpyNamed
from benchmarks.rivals.work import Borders, Events, Ranges, Thresholds, Work
from everquery.core.arrays import Int64s

NAME = "rivals_jvm"
OURS = Ours.name
RIVALS = {"esper-table": "Esper, table", "esper-context": "Esper, context", "flink": "Flink"}
NO_KEY = "has no key"
BATCHES = 10  # of the largest size, so that Java is warm when it is timed
SINGLE = 200  # events, one a call
Row = list[str | float | None]
Told = dict[str, Found | str]


def run(scale: Scale) -> Findings:
    """Play all kinds with all numbers of queries."""
    sizes = scale.pick((1_000, 100_000, 1_000_000), (200, 2_000))
    batch, limit_s = scale.pick((100_000, 3.0), (1_000, 0.3))
    findings = Findings(
        {
            "esper": "8.9.0, queries as rows of a table with a sorted index; in a context by key",
            "flink": "1.20.1, one task a step, state on the heap: a sorted index by hand a key",
            "batch": f"{batch:,} of ours; the others take one event after the other",
            "timing": f"up to {limit_s} s of events each, after as many again that warm up and are"
            " compared; ours: the best batch, and the median call with one event",
        }
    )
    rates: list[Row] = []
    single: list[Row] = []
    live: Told = {}
    for kind in (Borders, Ranges, Thresholds):
        for queries in sizes:
            work: Work = kind(scale, queries)
            last = kind is Borders and queries == sizes[-1]
            ours, found = compete(work, batch, limit_s, live=last)
            live = found if last else live
            rates.append(_rates(f"{work.kind}, {queries:,}", ours[OURS], found))
            single.append(_single(f"{work.kind}, {queries:,}", ours, found))
    _tables(findings, rates, single)
    _live(findings, Borders(scale, sizes[-1]), live)
    return findings


def compete(work: Work, batch: int, limit_s: float, *, live: bool) -> tuple[dict[str, float], Told]:
    """Let ours and all rivals take the same events.

    Returns the seconds of an event of ours, in batches and one a call, and what the rivals showed.
    """
    first = work.first()
    batches = [work.take(batch) for _ in range(BATCHES)]
    told = counted(work, batches)
    ours = our_seconds(work, batches, told)
    before = len(first) if first is not None else 0
    events = joined([first, *batches] if first is not None else batches)
    found: Told = {}
    with tempfile.TemporaryDirectory(prefix="everquery-rivals-") as name:
        folder = Path(name)
        write(folder, work, before, events, told)
        for rival, title in RIVALS.items():
            if rival == "esper-context" and not isinstance(work, Borders):
                found[title] = NO_KEY
            else:
                found[title] = play(rival, work, folder, limit_s=limit_s, live=live)
    return ours, found


def counted(work: Work, batches: Sequence[Events]) -> Int64s:
    """Return how much the first ``i`` events tell, first sights included, by NumPy."""
    counts = []
    by_hand: Contestant
    if isinstance(work, Borders):
        by_hand = NumpyBorders(work)
        counts.append(entered(work))
    elif isinstance(work, Ranges):
        by_hand = NumpyLists(work)
    else:
        assert isinstance(work, Thresholds)
        by_hand = NumpyNamed(work)
    for events in batches:
        rows = by_hand.process(by_hand.prepare(events))["row"]
        counts.append(np.bincount(rows, minlength=len(events)))
    return np.concatenate([[0], np.cumsum(np.concatenate(counts))]).astype(np.int64)


def entered(work: Borders) -> Int64s:
    """Return how many borders the first event of each key enters."""
    first = work.first()
    assert first.key is not None
    row = np.argsort(first.key)  # of each key
    value = first.value[row][work.key]
    inside = (work.low <= value) & (value < work.high)
    return np.bincount(row[work.key[inside]], minlength=len(first))


def our_seconds(work: Work, batches: Sequence[Events], told: Int64s) -> dict[str, float]:
    """Return the seconds of an event in batches, and one a call; counts are compared."""
    seconds = {}
    size = len(batches[0])
    expected = told[-1] - told[-1 - size * len(batches)]
    watch, notices = Stopwatch(), 0
    ours = Ours(work)
    for number, events in enumerate(batches):
        given = ours.prepare(events)
        notices += ours.count((watch if number else Stopwatch())(ours.process, given))
    check_count(f"notices, {work.kind}", int(expected), notices)
    seconds[OURS] = watch.timing.best / size
    ours.close()
    for kind in (Ours, Pushed):
        each = kind(work)
        watch, notices = Stopwatch(), 0
        for row in range(min(SINGLE, size)):
            given = each.prepare(part(batches[0], row))
            notices += each.count(watch(each.process, given))
        begin = len(told) - 1 - size * len(batches)
        check_count("notices, one a call", int(told[begin + SINGLE] - told[begin]), notices)
        seconds[f"{kind.name}, one"] = median(watch.timing.samples)
        each.close()
    return seconds


def part(events: Events, row: int) -> Events:
    """Return one event."""
    picked = {name: column[row : row + 1] for name, column in events.columns().items()}
    return Events(**picked)


def joined(many: Sequence[Events]) -> Events:
    """Return all events one behind the other."""
    columns = many[0].columns()
    return Events(**{name: np.concatenate([e.columns()[name] for e in many]) for name in columns})


def _rates(name: str, ours: float, found: Told) -> Row:
    rates = {title: each.rate for title, each in found.items() if isinstance(each, Found)}
    best = max(rates, key=rates.__getitem__)
    cells = [each / 1e6 if (each := rates.get(title)) else str(found[title]) for title in found]
    ratio = 1 / ours / rates[best]
    return [name, 1e-6 / ours, *cells, ratio, OURS if ratio >= 1 else best]


def _single(name: str, ours: dict[str, float], found: Told) -> Row:
    micros = {
        title: 1e6 / each.rate
        for title, each in found.items()
        if isinstance(each, Found) and title != RIVALS["flink"]
    }
    best = min(micros, key=micros.__getitem__)
    own = [1e6 * seconds for title, seconds in ours.items() if title.endswith("one")]
    cells = [micros.get(t, str(each)) for t, each in found.items() if t != RIVALS["flink"]]
    ratio = micros[best] / min(own)
    return [name, *own, *cells, ratio, OURS if ratio >= 1 else best]


def _tables(findings: Findings, rates: list[Row], single: list[Row]) -> None:
    behind = sum(row[-1] != OURS for row in rates)
    findings.tables.append(
        Table(
            "rivals-jvm",
            "Beside Esper and Flink: million events a second, a core",
            ["kind, queries", OURS, *RIVALS.values(), "ours / best other", "ahead"],
            rates,
            f"Another one is ahead in {behind} of {len(rates)} rows. Esper and Flink get the last"
            " value of a key, or an index, by hand; both share their core with Java's compiler.",
        )
    )
    columns = [
        "kind, queries",
        OURS,
        Pushed.name,
        "Esper, table",
        "Esper, context",
        "best other / ours",
    ]
    findings.tables.append(
        Table(
            "rivals-jvm-one",
            "Beside Esper: microseconds of a call with one event",
            [*columns, "ahead"],
            single,
            "Flink has no such call: an event goes through a job.",
        )
    )


def _live(findings: Findings, work: Borders, found: Told) -> None:
    """Add the table of single registrations; the part of ours is measured here."""
    ours = until_live(Findings({}), work, (Ours, Pushed))
    rows: list[Row] = [[name, micros] for name, micros in ours.items()]
    for title, each in found.items():
        rows.append([title, each.until_live_us if isinstance(each, Found) else each])
    findings.tables.append(
        Table(
            "rivals-jvm-live",
            f"From registering one border until it is live, {work.queries:,} there",
            ["", "us until live"],
            rows,
            "Median; the next event enters the new query, and its usual time is subtracted. Flink:"
            " through the job and back.",
        )
    )
