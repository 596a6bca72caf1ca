"""Takes contestants through a stream of threshold queries: whole, or samples of it."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from benchmarks.harness import Stopwatch, check_equal
from benchmarks.threshold_peers import Contestant, Fires
from benchmarks.threshold_ways import Ours
from benchmarks.threshold_work import DOMAIN, WEIGHT, Boxes, Moment, Setting, Stream
from everquery.core.arrays import Floats, Int64s

Kind = type[Contestant]
FEWEST, MOST = 16, 300  # elements of a sample
POINTS = (0.0, 0.2, 0.4, 0.6, 0.8, 0.98)  # of a stream, where it is sampled


@dataclass
class Played:
    """How long each run of a stream took, registration and termination included.

    Attributes
    ----------
    elements, operations : how many there were until the end of each run; an operation is an
        element, or a query that comes, ends or fires
    seconds : of each run
    alive : queries at the beginning of each run
    fires : all of them, elements counted from the stream's first
    """

    elements: list[int] = field(default_factory=list)
    operations: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    alive: list[int] = field(default_factory=list)
    fires: list[Fires] = field(default_factory=list)

    @property
    def total(self) -> float:
        """Seconds of the whole stream."""
        return sum(self.seconds)

    @property
    def rate(self) -> float:
        """Elements a second over the whole stream."""
        return self.elements[-1] / self.total

    def per_operation(self) -> list[float]:
        """Return the microseconds of an operation, on average from the first to each run."""
        return amortized(self, np.array(self.seconds))

    def note(self, moment: Moment, fires: Fires, seconds: float, alive: int) -> None:
        """Add a run."""
        done = moment.weight.size + moment.born.size + moment.ended.size + fires.row.size
        self.elements.append(moment.first + moment.weight.size)
        self.operations.append(done + (self.operations[-1] if self.operations else 0))
        self.seconds.append(seconds)
        self.alive.append(alive)
        self.fires.append(Fires(fires.element + moment.first, fires.row, fires.seen))


@dataclass
class Sampled:
    """What a contestant took for some elements at some points of a stream.

    Attributes
    ----------
    build : float
        Seconds to index the queries of the first point.
    at : the elements that came before each point
    each : the seconds that one took there, for each query that was alive
    """

    build: float = 0.0
    at: list[int] = field(default_factory=list)
    each: list[float] = field(default_factory=list)

    def seconds(self, played: Played) -> Floats:
        """Return the seconds that the runs of a stream would take, searches and counts alone."""
        sizes = np.diff(played.elements, prepend=0)
        first = np.array(played.elements) - sizes
        spent: Floats = np.interp(first, self.at, self.each) * sizes * np.array(played.alive)
        spent[0] += self.build
        return spent

    def total(self, played: Played) -> float:
        """Return the seconds that the whole stream would take."""
        return float(self.seconds(played).sum())


def amortized(played: Played, seconds: Floats) -> list[float]:
    """Return microseconds an operation, on average from the first to each run."""
    spent: list[float] = (1e6 * np.cumsum(seconds) / np.array(played.operations)).tolist()
    return spent


@dataclass
class Sampling:
    """Which contestants are sampled, where, and for how long.

    Attributes
    ----------
    kinds : the contestants, by name
    points : numbers of runs
    budget_s : seconds for each of the two passes of a contestant at a point
    """

    kinds: Mapping[str, Kind]
    points: Collection[int]
    budget_s: float = 0.15
    found: dict[str, Sampled] = field(default_factory=dict)

    def take(self, ours: Ours, stream: Stream, first: int) -> None:
        """Time all contestants on elements of their own; raise if they do not fire as they should.

        They begin with the queries that run now, and what each still lacks. A few elements tell how
        many there is time for; those are taken twice, and the faster pass counts.
        """
        rows = np.flatnonzero(stream.alive)
        lacks = ours.lacks(rows)
        values, weight = even_elements(stream.setting.attributes, FEWEST + MOST)
        for name, kind in self.kinds.items():
            contestant = kind(stream.boxes)
            begin = time.perf_counter()
            contestant.register(rows, lacks)
            sampled = self.found.setdefault(name, Sampled(time.perf_counter() - begin))
            contestant.process(values[:, :0], weight[:0])
            pieces = [slice(0, FEWEST)]
            fires, watch = [], Stopwatch()
            for turn in range(3):
                here = values[:, pieces[turn]], weight[pieces[turn]]
                fires.append(watch(contestant.process, *here))
                size = int(self.budget_s * FEWEST / watch.timing.samples[0])
                pieces.append(slice(FEWEST, FEWEST + max(FEWEST, min(MOST, size))))
            n = pieces[1].stop - FEWEST
            sampled.at.append(first)
            sampled.each.append(min(watch.timing.samples[1:]) / n / max(1, rows.size))
            order = np.concatenate([np.arange(FEWEST + n), np.arange(FEWEST, FEWEST + n)])
            picked = Boxes(stream.boxes.low[:, rows], stream.boxes.high[:, rows])
            expected = brute_force(picked, lacks, values[:, order], weight[order])
            found = np.sort(np.concatenate([each.row for each in fires]))
            check_equal(f"fires of a sample of {name}", rows[expected], found)


def even_elements(attributes: int, n: int) -> tuple[Floats, Int64s]:
    """Return elements that cover the space evenly, however few of them are taken.

    Random ones would need to be many: what an element costs depends much on where it is.
    """
    steps = {1: [0.6180339887], 2: [0.7548776662, 0.5698402910]}[attributes]
    shares = (0.5 + np.outer(steps, np.arange(n))) % 1.0
    return np.floor(shares * (DOMAIN + 1)), np.full(n, WEIGHT)


def brute_force(boxes: Boxes, lacks: Int64s, values: Floats, weight: Int64s) -> Int64s:
    """Return which boxes fire, by looking at all that are close to it."""
    near = np.flatnonzero(lacks <= weight.sum())
    seen = np.zeros(near.size, np.int64)
    for value, weighs in zip(values.T[:, :, None], weight, strict=True):
        inside = (boxes.low[:, near] <= value) & (value < boxes.high[:, near])
        seen += weighs * inside.all(axis=0)
    fired: Int64s = near[seen >= lacks[near]]
    return fired


def points_of(setting: Setting, shares: Sequence[float] = POINTS) -> list[int]:
    """Return the runs at some shares of a stream's length."""
    runs = (setting.elements or setting.expected_life) / setting.run
    return sorted({int(share * runs) for share in shares})


def play(kind: Kind, setting: Setting, seed: list[int], sampling: Sampling | None = None) -> Played:
    """Take a contestant through a whole stream; sample others on the way if it is ours."""
    stream = Stream(setting, seed)
    contestant = kind(stream.boxes)
    played = Played()
    for number, moment in enumerate(stream):
        alive = int(np.count_nonzero(stream.alive))
        watch = Stopwatch()
        watch(contestant.terminate, moment.ended)
        watch(contestant.register, moment.born, np.full(moment.born.size, setting.total))
        if sampling is not None and number in sampling.points and isinstance(contestant, Ours):
            sampling.take(contestant, stream, moment.first)
        fires = watch(contestant.process, moment.values, moment.weight)
        stream.fired(fires.row)
        played.note(moment, fires, watch.timing.total, alive)
    return played


def check_same(what: str, expected: Played, found: Played) -> None:
    """Raise unless two contestants told the same fires of a stream."""
    for one, other in zip(expected.fires, found.fires, strict=True):
        for column, same in zip(one, other, strict=True):
            check_equal(what, column, same)


def verify(kinds: Mapping[str, Kind], setting: Setting, seed: list[int]) -> int:
    """Take all contestants through a small stream, raise unless all tell the same as the first.

    Returns how many fires there were.
    """
    played = {name: play(kind, setting, seed) for name, kind in kinds.items()}
    first = next(iter(played.values()))
    for name, each in played.items():
        check_same(f"fires of {name}", first, each)
    return sum(fires.row.size for fires in first.fires)
