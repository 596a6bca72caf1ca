"""The workloads of range-thresholding, section 8: queries that come, fire and end in a stream.

Queries come and go between runs of elements, at the same moments for every contestant: the paper
lets them do so at every element. A life that was drawn to end within a run lasts until its end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from everquery.core.arrays import Floats, Int64s
from everquery.index.flags import Flags
from everquery.index.rows import NO_KEY, Grouped, Rows, Shape, Step

DOMAIN = 100_000
VOLUME = 0.1  # of the space, which a query covers
CENTRE, CENTRE_DEVIATION = 0.5 * DOMAIN, 0.15 * 0.5 * DOMAIN
WEIGHT, WEIGHT_DEVIATION = 100, 15
SURVIVORS = 0.1  # the part of all queries that lives until it is expected to fire
TOTAL = 20_000_000
WORDS = {1: "one attribute", 2: "two attributes"}


@dataclass(frozen=True)
class Setting:
    """What a stream and its queries are like.

    Attributes
    ----------
    attributes, queries, total
        Of the queries: on how many attributes, how many there are at first, and what they ask for.
    run : int
        Elements between two moments at which queries come and go.
    elements : int
        Of the whole stream; 0 for one that lasts until no query is left.
    inserts : float
        The chance that an element of the first two thirds brings a new query.
    fixed_load : bool
        Whether a new query comes for each that has fired or ended.
    """

    attributes: int
    queries: int
    total: int = TOTAL
    run: int = 100_000
    elements: int = 0
    inserts: float = 0.0
    fixed_load: bool = False

    @property
    def expected_life(self) -> int:
        """After how many elements a query is expected to fire."""
        return round(self.total / (VOLUME * WEIGHT))


class Moment(NamedTuple):
    """What happens between two runs, and the run that follows.

    Attributes
    ----------
    first : int
        How many elements came before.
    born, ended : int64
        The queries to register, and to terminate.
    values, weight : float64 (attributes, n), int64 (n,)
    """

    first: int
    born: Int64s
    ended: Int64s
    values: Floats
    weight: Int64s


@dataclass(frozen=True)
class Boxes:
    """All queries that a stream will ever see: half-open boxes with whole ends."""

    low: Floats
    high: Floats

    @classmethod
    def draw(cls, generator: np.random.Generator, attributes: int, queries: int) -> Boxes:
        """Draw boxes around normal centres; one that leaves the space is drawn again."""
        side = round(VOLUME ** (1 / attributes) * DOMAIN)
        low = np.full((attributes, queries), -1.0)
        while (outside := (low < 0) | (low + side > DOMAIN)).any():
            centres = generator.normal(CENTRE, CENTRE_DEVIATION, int(outside.sum()))
            low[outside] = np.round(centres - side / 2)
        return cls(low, low + side)


class Stream:
    """A seeded stream, moment by moment.

    It is told which queries have fired (`fired`), as some modes answer that with new queries; all
    contestants tell it the same, so that all see the same stream.
    """

    def __init__(self, setting: Setting, seed: list[int]) -> None:
        self.setting = setting
        self._seed = seed
        generator = np.random.default_rng(seed)
        most = _most_queries(setting)
        self.boxes = Boxes.draw(generator, setting.attributes, most)
        chance = 1 - SURVIVORS ** (1 / setting.expected_life)
        self._life = generator.geometric(chance, most)
        self.alive = np.zeros(most, np.bool_)
        self._end = np.zeros(most, np.int64)
        self._known = 0
        self._first = 0
        self._left_since = 0

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> Moment:
        """Return the next moment; the stream ends with its elements, or its queries."""
        setting = self.setting
        ended = np.flatnonzero(
            self.alive[: self._known] & (self._end[: self._known] <= self._first)
        )
        self.alive[ended] = False
        self._left_since += ended.size
        number = self._first // setting.run
        generator = np.random.default_rng([*self._seed, 1 + number])
        born = self._births(generator)
        self._left_since = 0
        size = setting.run
        if setting.elements:
            size = min(size, setting.elements - self._first)
        elif not self.alive.any():
            size = 0
        if size <= 0:
            raise StopIteration
        moment = Moment(self._first, born, ended, *draw_elements(generator, setting, size))
        self._first += size
        return moment

    def _births(self, generator: np.random.Generator) -> Int64s:
        setting, first = self.setting, self._first
        count = setting.queries
        if first and setting.fixed_load:
            count = self._left_since
        elif first:
            during = max(0, min(setting.run, 2 * setting.elements // 3 - first))
            count = int(generator.binomial(during, setting.inserts))
        born = np.arange(self._known, self._known + count)
        self._known += count
        self.alive[born] = True
        self._end[born] = first + self._life[born]
        return born

    def fired(self, rows: Int64s) -> None:
        """Take note of queries that have fired."""
        self.alive[rows] = False
        self._left_since += rows.size


def draw_elements(
    generator: np.random.Generator, setting: Setting, size: int
) -> tuple[Floats, Int64s]:
    """Draw uniform values and normal weights; a weight below 1 is drawn again."""
    values = generator.integers(0, DOMAIN + 1, (setting.attributes, size)).astype(np.float64)
    weight = np.zeros(size, np.int64)
    while (light := weight < 1).any():
        weight[light] = np.round(generator.normal(WEIGHT, WEIGHT_DEVIATION, int(light.sum())))
    return values, weight


def _most_queries(setting: Setting) -> int:
    """Return how many queries may come in all."""
    if setting.fixed_load:
        lives = setting.elements / setting.expected_life
        return round(setting.queries * (1.5 + 2.6 * lives)) + 1_000
    more = setting.inserts * 2 * setting.elements / 3
    return setting.queries + round(1.1 * more + 1_000 * (more > 0))


def rows_of(boxes: Boxes, rows: Int64s) -> Rows:
    """Return queries as our indexes take them."""
    return Rows(
        Shape(tuple(range(len(boxes.low))), keyed=False),
        rows.astype(np.int32),
        np.full(rows.size, NO_KEY, np.int32),
        np.ascontiguousarray(boxes.low[:, rows]),
        np.ascontiguousarray(boxes.high[:, rows]),
    )


def step_of(values: Floats, weight: Int64s, flags: Flags) -> Step:
    """Return elements as our indexes take them."""
    n = weight.size
    grouped = Grouped(
        np.full(1, NO_KEY, np.int32), np.array([0, n], np.int64), 2 * np.arange(n) + 1, values
    )
    nothing = np.empty(0, np.uint8)
    return Step(grouped, nothing, nothing, values[:, :0], flags, True, weight)
