"""When totals start again: the days of time zones, and the period that a time is in.

A period is a number that grows with time. Without a zone, periods are multiples of their length
since 1970 in UTC (or since 0, where times are numbers); whole weeks begin on Mondays. In a zone,
whole days are those of its calendar, and parts of a day are counted from the beginning of the day.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

import numpy as np

from everquery.core.arrays import Array, Int32s, Int64s
from everquery.core.jit import part

DAY = 86_400  # seconds
WEEK = 7  # days
MONDAY = 4  # the first one of 1970, as a number of days since the first of January
NO_ZONE = -1
FAR = int(np.iinfo(np.int64).max)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_DATE = date(1970, 1, 1).toordinal()
_CALENDAR = date(2, 1, 1).toordinal() - _FIRST_DATE, date(9998, 12, 31).toordinal() - _FIRST_DATE
_FEW_DAYS = 4_096
_LIMITS = np.iinfo(np.int64)


@lru_cache(maxsize=1 << 16)
def day_start(zone: str, day: int) -> int:
    """Return when a day begins in a zone, in seconds since 1970 in UTC.

    It begins with the first instant at which the zone's calendar shows that day or a later one. So
    days follow each other even where clocks are put back over midnight. Before the year 2 and
    after 9998 days are those of UTC.

    Parameters
    ----------
    day : int
        Days since 1970-01-01.

    Examples
    --------
    >>> (day_start("Europe/Berlin", 1) - day_start("Europe/Berlin", 0)) // 3_600
    24
    """
    if not _CALENDAR[0] <= day <= _CALENDAR[1]:
        return day * DAY
    tz = ZoneInfo(zone)
    midnight = datetime.combine(date.fromordinal(_FIRST_DATE + day), time(), tz)
    start = _seconds(midnight)
    if _shown(start, tz) == midnight.replace(tzinfo=None):
        return start
    # Clocks were put forward over midnight: the day begins where they were.
    before = _seconds(midnight.replace(fold=1))
    while before < start:
        middle = (before + start) // 2
        if _shown(middle, tz) >= midnight.replace(tzinfo=None):
            start = middle
        else:
            before = middle + 1
    return start


def _seconds(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(seconds=1)


def _shown(seconds: int, tz: ZoneInfo) -> datetime:
    """Return what clocks show."""
    return (_EPOCH + timedelta(seconds=seconds)).astimezone(tz).replace(tzinfo=None)


class Days(NamedTuple):
    """The days of zones that some times may be in.

    Attributes
    ----------
    first : int64, shape (zones + 1,)
        Where the days of each zone begin in the other columns.
    start : int64
        When each day begins, in ticks of the time column, ascending.
    day : int64
        Which day it is, since 1970-01-01.
    """

    first: Int64s
    start: Int64s
    day: Int64s


def days_of(zones: Sequence[str], times: Array, ticks: int) -> Days:
    """Return the days that times are in, for each zone.

    Parameters
    ----------
    times : int64
        In ticks since 1970 in UTC.
    ticks : int
        How many are a second.
    """
    if not zones or not times.size:
        nothing = np.empty(0, np.int64)
        return Days(np.zeros(len(zones) + 1, np.int64), nothing, nothing)
    days = _days_around(times, ticks).tolist()
    starts = [
        min(max(day_start(zone, day) * ticks, _LIMITS.min), _LIMITS.max)
        for zone in zones
        for day in days
    ]
    return Days(
        np.arange(len(zones) + 1, dtype=np.int64) * len(days),
        np.array(starts, np.int64),
        np.tile(np.array(days, np.int64), len(zones)),
    )


def _days_around(times: Array, ticks: int) -> Int64s:
    """Return the days in UTC of times, with those before and behind: no zone is a day off."""
    first, last = int(times.min()) // (DAY * ticks), int(times.max()) // (DAY * ticks)
    if last - first < _FEW_DAYS:
        return np.arange(first - 1, last + 2)
    here = np.unique(times // (DAY * ticks))
    around: Int64s = np.unique(np.concatenate([here - 1, here, here + 1]))
    return around


class Periods(NamedTuple):
    """How queries divide time, by slot.

    Attributes
    ----------
    every : like time
        The length of a period in ticks; 0 for a query whose total never starts again.
    origin : like time
        Where the first period after 0 begins; below `every`.
    zone : int32
        Whose days are meant, or `NO_ZONE`.
    days : int64
        Where there is a zone: how many whole days a period is, or 0 if it is a part of one.
    """

    every: Array
    origin: Array
    zone: Int32s
    days: Int64s

    @classmethod
    def of(cls, size: int, dtype: type[np.int64] | type[np.float64]) -> Periods:
        """Return room for so many queries, of which none divides time."""
        return cls(
            np.zeros(size, dtype),
            np.zeros(size, dtype),
            np.full(size, NO_ZONE, np.int32),
            np.zeros(size, np.int64),
        )


@part
def plain_period(time: float, every: float, origin: float) -> int:
    """Return in which multiple of `every` a time is; it may be infinite."""
    if time - time != 0:  # it is infinite
        return FAR if time > 0 else -FAR
    count = time // every
    if time % every < origin:
        count -= 1
    if count >= FAR:
        return FAR
    return int(np.int64(count)) if count > -FAR else -FAR


@part
def period_of(time: float, slot: int, periods: Periods, days: Days) -> int:
    """Return the period of a query that a time is in."""
    every = periods.every[slot]
    if every == 0:
        return 0
    zone = periods.zone[slot]
    if zone < 0:
        return plain_period(time, every, periods.origin[slot])
    low = days.first[zone]
    high = days.first[zone + 1]
    while high - low > 1:  # the last day that has begun
        middle = (low + high) >> 1
        if days.start[middle] <= time:
            low = middle
        else:
            high = middle
    whole = periods.days[slot]
    if whole > 0:
        return int((days.day[low] - (MONDAY if whole % WEEK == 0 else 0)) // whole)
    start = days.start[low]
    return int(start + np.int64(time - start) // np.int64(every) * np.int64(every))
