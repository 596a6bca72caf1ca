"""Days of time zones, against what Python's calendar shows second by second."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest

import everquery as eq
from everquery.kinds.threshold.periods import DAY, day_start, days_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Around days on which clocks, or calendars, were changed.
CHANGES = [
    ("Europe/Berlin", "2026-03-29"),  # 23 hours
    ("Europe/Berlin", "2026-10-25"),  # 25 hours
    ("America/New_York", "2026-11-01"),
    ("America/Sao_Paulo", "2018-11-04"),  # midnight was skipped
    ("America/Sao_Paulo", "2018-02-18"),  # back at midnight
    ("America/St_Johns", "2010-11-07"),  # back at a minute past midnight
    ("America/Toronto", "1919-03-31"),  # 23:30 became 0:30
    ("Pacific/Apia", "2011-12-30"),  # a day that was not
    ("Asia/Manila", "1844-12-31"),
    ("Pacific/Kwajalein", "1993-08-21"),
    ("Asia/Kolkata", "2026-05-05"),
    ("Africa/Monrovia", "1972-01-07"),  # 44 minutes and 30 seconds
    ("UTC", "2026-05-05"),
]


def shown(seconds, zone):
    return (EPOCH + timedelta(seconds=seconds)).astimezone(ZoneInfo(zone)).date()


@pytest.mark.parametrize(("zone", "day"), CHANGES)
def test_a_day_begins_when_the_calendar_first_shows_it(zone, day):
    first = datetime.fromisoformat(day).date()
    number = first.toordinal() - EPOCH.date().toordinal()
    for at in range(number - 1, number + 3):
        wanted = EPOCH.date() + timedelta(days=at)
        # By brute force: the first of all half minutes around, then the second.
        around = range((at - 2) * DAY, (at + 2) * DAY, 30)
        half = next(second for second in around if shown(second, zone) >= wanted)
        begin = next(
            second for second in range(half - 30, half + 1) if shown(second, zone) >= wanted
        )
        assert day_start(zone, at) == begin


def test_years_beyond_the_calendar_have_days_of_utc():
    for day in (-(10**9), 10**9):
        assert day_start("Europe/Berlin", day) == day * DAY


@pytest.mark.parametrize("spread", [1, 1_000])
def test_the_days_of_times(spread):
    rng = np.random.default_rng(7)
    times = np.sort(rng.integers(0, 400 * DAY, 40)) * spread * 1_000
    days = days_of(["Europe/Berlin", "Asia/Tokyo"], times, 1_000)
    for number, zone in enumerate(["Europe/Berlin", "Asia/Tokyo"]):
        here = slice(days.first[number], days.first[number + 1])
        place = np.searchsorted(days.start[here], times, side="right") - 1
        found = days.day[here][place].tolist()
        ordinals = [shown(int(each) // 1_000, zone).toordinal() for each in times]
        assert [each + EPOCH.date().toordinal() for each in found] == ordinals


def test_no_zones_or_no_times():
    assert days_of([], np.array([5]), 1).start.size == 0
    assert days_of(["UTC"], np.array([], np.int64), 1).first.tolist() == [0, 0]


def periods_of(zone, every):
    """Return a function from moments to the number of their period, straight from the calendar."""

    def period(moment):
        local = moment.astimezone(ZoneInfo(zone))
        days = local.toordinal() - EPOCH.toordinal()
        length = timedelta(days=1)
        if every % length == timedelta(0):
            count = every // length
            return (days - (4 if count % 7 == 0 else 0)) // count
        midnight = local.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
        return days, (moment - midnight.astimezone(UTC)) // every

    return period


@pytest.mark.parametrize("unit", ["s", "us"])
@pytest.mark.parametrize(
    "every", [timedelta(days=1), timedelta(days=7), timedelta(days=2), timedelta(hours=6)]
)
def test_totals_start_again_where_the_calendar_says(every, unit):
    """Events a quarter of an hour apart over days with 23 and 25 hours, in two zones at once."""
    zones = ["Europe/Berlin", "America/New_York"]
    stream = eq.Stream("s", time="t", attributes=[])
    engine = eq.Engine(stream)
    engine.register([eq.Threshold(zone, {}, total=1, every=every, zone=zone) for zone in zones])
    for begin in (datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 10, 20, tzinfo=UTC)):
        moments = [begin + timedelta(minutes=15 * i) for i in range(20 * 96)]
        table = pa.table({"t": pa.array(moments, pa.timestamp(unit, "UTC"))})
        notices = engine.process(table).select(["query_id", "time"]).to_pylist()
        for zone in zones:
            period = periods_of(zone, every)
            before, wanted = None, []
            for moment in moments:  # one fire a period, at its first event
                if period(moment) != before:
                    wanted.append(moment)
                before = period(moment)
            assert [row["time"] for row in notices if row["query_id"] == zone] == wanted
