"""The state of shedding as plain values that JSON can hold, and back."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from everquery.network.analysis.layout import Place
from everquery.network.shedding.controller import Controller
from everquery.network.shedding.droppers import Count, Dropper, Interval
from everquery.network.shedding.gates import Gate, Gates
from everquery.network.shedding.histograms import Histogram
from everquery.network.shedding.monitor import Delivered, Monitor
from everquery.network.shedding.steps import Step


def save_gates(gates: Gates, controller: Controller) -> dict[str, Any]:
    """Return all droppers there ever were with their counts, and which steps stand."""
    steps = list({id(step): step for step, _ in gates.ever}.values())
    places = {id(step): at for at, step in enumerate(steps)}
    return {
        "steps": [_step_form(step) for step in steps],
        "droppers": [
            [places[id(step)], *_place_form(one.place), one.share, one.seen, _counts_form(one)]
            for step, one in gates.ever
        ],
        "standing": [places[id(step)] for step, _ in gates.standing],
        "came": [
            [*_place_form(place), list(gate.came.items())] for place, gate in gates.at.items()
        ],
        "bad": controller.bad,
        "good": controller.good,
        "tried": controller.tried,
    }


def load_gates(saved: dict[str, Any], gates: Gates, controller: Controller) -> None:
    """Take a state that `save_gates` gave."""
    steps = [_read_step(form) for form in saved["steps"]]
    droppers: dict[int, list[Dropper]] = {}
    for step, source, target, at, share, seen, counts in saved["droppers"]:
        place = Place(source, target, at)
        found = {tick: Count(offered, shed) for tick, offered, shed in counts}
        dropper = Dropper(place, share, steps[step].intervals.get(place), seen, found)
        gates.ever.append((steps[step], dropper))
        droppers.setdefault(step, []).append(dropper)
    for step in saved["standing"]:
        gates.stand(steps[step], droppers.get(step, []))
    for source, target, at, came in saved["came"]:
        place = Place(source, target, at)
        gates.at.setdefault(place, Gate(place)).came = dict(came)
    controller.steps = [step for step, _ in gates.standing]
    controller.bad, controller.good = saved["bad"], saved["good"]
    controller.tried = saved["tried"]


def save_monitor(monitor: Monitor) -> dict[str, Any]:
    """Return what each output was worth so far."""
    return {
        "seen": [
            [name, tick, asdict(one)]
            for name, ticks in monitor.seen.items()
            for tick, one in ticks.items()
        ],
        "queued": monitor.queued,
    }


def load_monitor(saved: dict[str, Any], monitor: Monitor) -> None:
    """Take a state that `save_monitor` gave."""
    for name, tick, one in saved["seen"]:
        monitor.seen.setdefault(name, {})[tick] = Delivered(**one)
    monitor.queued = saved["queued"]


def save_histogram(histogram: Histogram) -> dict[str, Any]:
    """Return the bins."""
    return {
        "frozen": histogram.frozen,
        "first": [value for part in histogram.first for value in part.tolist()],
        "edges": None if histogram.edges is None else histogram.edges.tolist(),
        "rows": histogram.rows.tolist(),
        "worth": histogram.worth.tolist(),
    }


def load_histogram(saved: dict[str, Any], histogram: Histogram) -> None:
    """Take a state that `save_histogram` gave."""
    histogram.restore(**saved)


def _place_form(place: Place) -> list[Any]:
    return [place.source, place.target, place.at]


def _counts_form(dropper: Dropper) -> list[list[int]]:
    return [[tick, count.offered, count.shed] for tick, count in dropper.counts.items()]


def _step_form(step: Step) -> dict[str, Any]:
    return {
        "outputs": sorted(step.outputs),
        "shares": [[*_place_form(place), share] for place, share in step.shares.items()],
        "lost": step.lost,
        "saved": step.saved,
        "intervals": [
            [*_place_form(place), one.column, repr(one.low), repr(one.high)]
            for place, one in step.intervals.items()
        ],
    }


def _read_step(form: dict[str, Any]) -> Step:
    return Step(
        frozenset(form["outputs"]),
        {Place(source, target, at): share for source, target, at, share in form["shares"]},
        form["lost"],
        {
            Place(source, target, at): Interval(column, float(low), float(high))
            for source, target, at, column, low, high in form["intervals"]
        },
        form["saved"],
    )
