"""Traffic for Linear Road, by its public rules: cars report every 30 seconds until they leave.

An expressway has 100 segments of a mile and two directions. Most cars drive through; slow ones fill
a stretch of one direction. Some stop for a while: alone, for too short a time, or two at one place,
which is an accident.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

EVERY = 30  # seconds between two reports of a car
MILE = 5280  # feet
SEGMENTS = 100
FEET = 44  # in 30 seconds, for each mile an hour
LANES = 5
SHORTEST, LONGEST = 2, 12  # miles that a car drives
SLOW = 0.7  # of the cars in direction 0 are slow,
JAM = (30, 50)  # and start at these miles

Numbers = npt.NDArray[Any]


@dataclass(frozen=True)
class Cars:
    """Cars by column: when and where each starts, how it drives, and at which report it stops."""

    start: Numbers
    pos: Numbers
    direction: Numbers
    lane: Numbers
    speed: Numbers
    reports: Numbers
    stop: Numbers
    stay: Numbers  # reports from one place; 0: it does not stop


def drawn(rng: np.random.Generator, count: int, seconds: int) -> Cars:
    """Return cars that drive through."""
    direction = rng.integers(0, 2, count)
    slow = (direction == 0) & (rng.random(count) < SLOW)
    speed = np.where(slow, rng.integers(15, 40, count), rng.integers(45, 70, count))
    miles = rng.integers(SHORTEST, LONGEST, count)
    mile = np.where(slow, rng.integers(*JAM, count), rng.integers(0, SEGMENTS - LONGEST, count))
    pos = np.where(direction == 0, mile, SEGMENTS - 1 - mile) * MILE + rng.integers(0, MILE, count)
    nothing = np.zeros(count, np.int64)
    return Cars(
        rng.integers(-seconds // 3, seconds, count),
        pos,
        direction,
        rng.integers(1, LANES - 1, count),
        speed,
        miles * MILE // (speed * FEET) + 1,
        nothing,
        nothing,
    )


def stopping(rng: np.random.Generator, places: int, seconds: int) -> Cars:
    """Return two cars for each place, which both stop there: for long, or one only briefly."""
    direction = np.repeat(rng.integers(0, 2, places), 2)
    sign = 1 - 2 * direction
    speed = rng.integers(30, 60, 2 * places)
    driven = rng.integers(2, 6, 2 * places)
    place = np.repeat(rng.integers(20 * MILE, (SEGMENTS - 20) * MILE, places), 2)
    lane = np.repeat(rng.integers(1, LANES - 1, places), 2)
    kind = np.arange(places) % 4
    second = np.zeros(2 * places, np.int64)
    second[1::2] = kind
    stay = np.where(second == 1, 4, rng.integers(8, 16, 2 * places))  # 3 times where it stopped
    lane = np.where(second == 2, lane % (LANES - 2) + 1, lane)  # beside the other
    start = np.repeat(rng.integers(0, max(seconds - 400, 1), places), 2)
    start = start + rng.integers(0, EVERY, 2 * places)
    return Cars(
        start,
        place - sign * driven * speed * FEET,
        direction,
        lane,
        speed,
        driven + stay + 10,
        driven,
        np.where(second == 3, 0, stay),  # or it does not stop at all
    )


def reports_of(cars: Cars, rng: np.random.Generator, seconds: int) -> pa.Table:
    """Return the reports of cars on one expressway, in the order of time."""
    total = int(cars.reports.sum())
    car = np.repeat(np.arange(cars.reports.size), cars.reports)
    first = np.cumsum(cars.reports) - cars.reports
    number = np.arange(total) - first[car]
    t = cars.start[car] + number * EVERY
    stayed = np.clip(number - cars.stop[car], 0, np.maximum(cars.stay[car] - 1, 0))
    sign = 1 - 2 * cars.direction[car]
    pos = cars.pos[car] + sign * (number - stayed) * cars.speed[car] * FEET
    after = number - cars.stop[car]
    stands = (cars.stay[car] > 0) & (after >= 0) & (after < cars.stay[car])
    speed = np.where(stands, 0, np.maximum(cars.speed[car] + rng.integers(-3, 4, total), 1))
    kept = (t >= 0) & (t < seconds) & (pos >= 0) & (pos < SEGMENTS * MILE)
    order = np.flatnonzero(kept)[np.argsort(t[kept], kind="stable")]
    columns = {
        "car": car,
        "t": t,
        "speed": speed.astype(float),
        "lane": cars.lane[car].astype(float),
        "dir": cars.direction[car].astype(float),
        "seg": (pos // MILE).astype(float),
        "pos": pos.astype(float),
    }
    return pa.table({name: values[order] for name, values in columns.items()})


def expressway(seed: int, *, cars: int, seconds: int, stops: int) -> pa.Table:
    """Return all reports of one expressway: cars that drive through, and pairs that stop."""
    rng = np.random.default_rng(seed)
    through, halting = drawn(rng, cars, seconds), stopping(rng, stops, seconds)
    fields = Cars.__dataclass_fields__
    both = Cars(*(np.concatenate([getattr(through, one), getattr(halting, one)]) for one in fields))
    return reports_of(both, rng, seconds)


def expressways(one: pa.Table, count: int, cars: int | None = None) -> pa.Table:
    """Return so many expressways with the traffic of one, and cars of their own.

    Parameters
    ----------
    cars : int, optional
        How many one expressway has; as many as there are in the table, unless given.
    """
    most = int(np.max(one["car"].to_numpy(), initial=0)) + 1 if cars is None else cars
    times = np.tile(one["t"].to_numpy(), count)
    order = np.argsort(times, kind="stable")
    xway = np.repeat(np.arange(count), one.num_rows)[order]
    rows = one.take(pa.array(order % max(one.num_rows, 1)))
    car = rows["car"].to_numpy() + xway * most
    return rows.set_column(0, "car", pa.array(car)).append_column(
        "xway", pa.array(xway.astype(float))
    )


def steps(table: pa.Table, seconds: int) -> Iterator[pa.Table]:
    """Yield the reports of so many seconds each."""
    t = table["t"].to_numpy()
    ends = np.searchsorted(t, np.arange(seconds, int(t[-1]) + seconds + 1, seconds))
    begin = 0
    for end in ends.tolist():
        yield table.slice(begin, end - begin)
        begin = end
