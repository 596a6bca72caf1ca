"""Range queries on two attributes: ours beside rtree, and what each access path costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from benchmarks.findings import Curves, Figure, Findings, Panel, Table
from benchmarks.harness import Scale, check_count, check_equal, race
from benchmarks.peers import rtree_of, whole_step
from everquery.core.arrays import Floats, Int64s
from everquery.index.access_paths import BoxSegment
from everquery.index.cei import CeiSegment
from everquery.index.few_boxes import FewBoxes
from everquery.index.rows import NO_KEY, Rows, Shape, Step
from everquery.index.tiles import TileSegment, Tiling

NAME = "range_boxes"
SIDE = 0.001
CHECKED_POINTS = 200
Part = CeiSegment | TileSegment | FewBoxes


@dataclass(frozen=True)
class Boxes:
    """Boxes in the unit square, and points to search for."""

    rows: Rows
    points: Floats

    @classmethod
    def draw(cls, generator: np.random.Generator, sides: Floats, points: int) -> Boxes:
        """Draw lower corners uniformly; `sides` has a row an attribute."""
        n = sides.shape[1]
        low = generator.uniform(0, 1, (2, n)) * (1 - sides)
        slot = np.arange(n, dtype=np.int32)
        rows = Rows(Shape((0, 1), False), slot, np.full(n, NO_KEY, np.int32), low, low + sides)
        return cls(rows, generator.uniform(0, 1, (2, points)))

    def step(self) -> Step:
        """Return the points as a batch of events."""
        return whole_step(self.points, np.ones(len(self.rows), np.uint16))

    def check(self, what: str, ends: Int64s, slots: Int64s) -> None:
        """Compare the first points' matches with brute force."""
        low, high = self.rows.low, self.rows.high
        for i, point in enumerate(self.points.T[:CHECKED_POINTS, :, None]):
            inside = np.all((low <= point) & (point < high), axis=0)
            found = slots[ends[i - 1] if i else 0 : ends[i]]
            check_equal(f"{what}, point {i}", np.flatnonzero(inside), np.sort(found))


class Search:
    """A search of the parts of a segment, as `RangeIndex` does it."""

    def __init__(self, parts: tuple[Part, ...], step: Step) -> None:
        self._parts = parts
        self._step = step
        self._out = np.empty(1 << 16, np.int32)

    def __call__(self) -> int:
        """Search all points; return the number of matches."""
        used = 0
        for part in self._parts:
            ends, self._out = part.search(self._step, self._out, used)
            used = int(ends[-1])
        return used

    def check(self, work: Boxes) -> int:
        """Compare with brute force; return the number of matches."""
        found = [part.search(self._step, np.empty(1, np.int32), 0) for part in self._parts]
        point = np.concatenate([np.searchsorted(e, np.arange(e[-1]), "right") for e, _ in found])
        slots = np.concatenate([out[: ends[-1]] for ends, out in found])[np.argsort(point)]
        ends = np.sum([ends for ends, _ in found], axis=0)
        work.check("everquery", ends, slots)
        return int(ends[-1])


def run(scale: Scale) -> Findings:
    """Measure squares of growing number against rtree, then each access path."""
    findings = Findings(
        {
            "side": scale.pick(SIDE, 0.02),
            "points": scale.pick(50_000, 500),
            "points_of_rtree": scale.pick(10_000, 200),
            "timing": "best of up to 9 rounds, all contestants in turns; matches written out",
        }
    )
    against_rtree(findings, scale)
    access_paths(findings, scale)
    return findings


def against_rtree(findings: Findings, scale: Scale) -> None:
    """Squares of 0.1% of each side."""
    sizes = scale.pick([10_000, 100_000, 1_000_000], [500, 2_000])
    asked = sizes[1]
    search = Curves(["everquery", "rtree"])
    for n in sizes:
        sides = np.full((2, n), findings.parameters["side"])
        work = Boxes.draw(scale.generator(5, n), sides, findings.parameters["points"])
        ours = Search(BoxSegment.build(work.rows).parts, work.step())
        peer = rtree_of(work.rows.low.T.copy(), work.rows.high.T.copy())
        some = work.points.T[: findings.parameters["points_of_rtree"]].copy()
        few = Search(BoxSegment.build(work.rows).parts, _first(work, len(some)).step())
        found, counts = peer.intersection_v(some, some)
        work.check("rtree", np.cumsum(counts.astype(np.int64)), found)
        check_count("everquery and rtree", len(found), few.check(work))
        ours.check(work)
        calls: dict[str, Callable[[], object]] = {
            "everquery": ours,
            "rtree": partial(peer.intersection_v, some, some),
        }
        times = race(calls, rounds=9)
        ns = {
            "everquery": times["everquery"].best / work.points.shape[1] * 1e9,
            "rtree": times["rtree"].best / len(some) * 1e9,
        }
        search.add(ns)
        if n == asked:
            what = f"Range, two attributes, {n:,} squares: search against rtree"
            findings.at_least(what, ns["rtree"] / ns["everquery"], 20, "times as fast")
    ratios = zip(sizes, search.series["rtree"], search.series["everquery"], strict=True)
    findings.figures.append(
        Figure(
            name="boxes",
            title="Range, two attributes: squares of 0.1% of each side",
            x_label="queries",
            x=[float(n) for n in sizes],
            panels=[Panel("search, matches written out", "ns a search", search.series)],
            seen="rtree takes "
            + ", ".join(
                f"{peer / own:,.0f} times ours at {n:,}" for n, peer, own in ratios if peer and own
            )
            + ". It is bulk-loaded, searched by its batch call, and tuned (nodes of 10).",
        )
    )


def _first(work: Boxes, points: int) -> Boxes:
    return Boxes(work.rows, np.ascontiguousarray(work.points[:, :points]))


def shapes(generator: np.random.Generator, n: int) -> dict[str, Floats]:
    """Return the sides of some kinds of boxes."""
    half = n // 2
    thin = np.stack([np.full(n, SIDE), np.full(n, 0.5)])
    both = np.concatenate([thin[:, :half], thin[::-1, half:]], axis=1)
    return {
        "squares 0.1%": np.full((2, n), SIDE),
        "squares 1%": np.full((2, n), 0.01),
        "squares 10%": np.full((2, n), 0.1),
        "thin 0.1% x 50%": thin,
        "thin, half each way": both,
        "mixed 0.01% to 30%": 10 ** generator.uniform(-4, -0.5, (2, n)),
    }


def access_paths(findings: Findings, scale: Scale) -> None:
    """One attribute and a check, or tiles of two: what each costs, and which one is chosen."""
    n = scale.pick(100_000, 1_000)
    points = scale.pick(5_000, 200)
    rows: list[list[str | float | None]] = []
    for number, (shape, sides) in enumerate(shapes(scale.generator(6), n).items()):
        work = Boxes.draw(scale.generator(7, number), sides, points)
        chosen = BoxSegment.build(work.rows)
        tiling = Tiling.plan(work.rows, (0, 1))
        paths: dict[str, tuple[Part, ...]] = {
            "first attribute": (CeiSegment.build(work.rows, primary=0),),
            "second attribute": (CeiSegment.build(work.rows, primary=1),),
            "tiles": (TileSegment.build(work.rows, tiling),),
            "chosen": chosen.parts,
        }
        searches = {path: Search(parts, work.step()) for path, parts in paths.items()}
        matches = {path: search.check(work) for path, search in searches.items()}
        for path, count in matches.items():
            check_count(f"{shape}, {path}", matches["tiles"], count)
        times = race(searches, rounds=5, budget_s=0.5)
        for path, parts in paths.items():
            ns = times[path].best / points * 1e9
            met = sum(candidates(part, work.points) for part in parts) / points
            rows.append([shape, path, ns, met, ns / max(met, 1e-9), _names(parts)])
    findings.tables.append(
        Table(
            "access-paths",
            f"Boxes on two attributes: what each access path costs, {n:,} boxes",
            ["boxes", "path", "ns an event", "candidates an event", "ns a candidate", "structures"],
            rows,
            "The choice is per box (`access_paths.py`), so that 'chosen' may search several"
            " structures. A candidate is a box that is looked at; matches are among them.",
        )
    )


def candidates(part: Part, points: Floats) -> float:
    """Return how many boxes the points look at, all together."""
    if isinstance(part, TileSegment):
        return float(np.sum(part.hit_rate) * points.shape[1])
    assert isinstance(part, CeiSegment)  # there are too many rows for anything else
    low, high = np.sort(part.rows.low[part.primary]), np.sort(part.rows.high[part.primary])
    values = points[part.primary]
    met = np.searchsorted(low, values, "right") - np.searchsorted(high, values, "right")
    return float(np.sum(met))


def _names(parts: tuple[Part, ...]) -> str:
    return ", ".join(
        f"tiles ({len(part.rows):,})"
        if isinstance(part, TileSegment)
        else f"attribute {part.primary + 1} ({len(part.rows):,})"
        for part in parts
        if not isinstance(part, FewBoxes)
    )
