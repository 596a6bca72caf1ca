"""Times of batches that come in several units and zones, and time that is moved by hand."""

from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import everquery as eq

SECOND = 10**9
MORNING = datetime(2024, 1, 1, 8)
BERLIN = timezone(timedelta(hours=1))


def engine_of(**changes):
    engine = eq.Engine(eq.Stream("s", key="k", time="t", attributes=["x"], **changes))
    engine.register(eq.Range("all", {}))
    return engine


def feed(engine, *times, kind):
    column = pa.array(times, pa.int32() if kind == pa.date32() else pa.int64()).cast(kind)
    table = pa.table({"k": ["a"] * len(times), "t": column, "x": [1.0] * len(times)})
    return engine.process(table)


class TestOtherTypes:
    @pytest.mark.parametrize(
        ("first", "kind", "time", "expected"),
        [
            (pa.timestamp("us"), pa.timestamp("ns"), 5_000, 5),
            (pa.timestamp("us"), pa.timestamp("s"), 5, 5_000_000),
            (pa.timestamp("us"), pa.date32(), 1, 86_400_000_000),
            (pa.timestamp("s", "UTC"), pa.timestamp("s", "Europe/Berlin"), 5, 5),
            (pa.timestamp("ns", "UTC"), pa.timestamp("s", "+01:00"), 5, 5 * SECOND),
            (pa.date32(), pa.timestamp("s"), 86_400, 1),
            (pa.date64(), pa.date32(), 1, 86_400_000),
        ],
    )
    def test_are_converted_to_the_first(self, first, kind, time, expected):
        engine = engine_of()
        feed(engine, 0, kind=first)
        notices = feed(engine, time, kind=kind)
        assert notices.schema.field("time").type == first
        raw = pa.int32() if first == pa.date32() else pa.int64()
        assert notices["time"].cast(raw).to_pylist() == [expected]

    @pytest.mark.parametrize(
        ("first", "kind", "time", "said"),
        [
            (pa.timestamp("us"), pa.timestamp("ns"), 5_001, r"can't hold 1970.* \(row 1\) exactly"),
            (pa.timestamp("ns"), pa.timestamp("s"), 2**40, "can't hold"),
            (pa.date32(), pa.timestamp("s"), 1, "can't hold"),
            (pa.timestamp("us"), pa.timestamp("us", "UTC"), 1, "with a time zone, and had"),
            (pa.timestamp("us", "UTC"), pa.timestamp("us"), 1, "with no time zone, and had"),
            (pa.timestamp("us", "UTC"), pa.date32(), 1, "with no time zone"),
            (pa.timestamp("us"), pa.int64(), 1, "had timestamp.* before; cast it"),
            (pa.int64(), pa.timestamp("us"), 1, "had int64 before; cast it"),
        ],
    )
    def test_are_refused_where_that_is_not_exact(self, first, kind, time, said):
        engine = engine_of()
        feed(engine, 0, kind=first)
        before = engine.snapshot()
        with pytest.raises(eq.InvalidBatchError, match=said):
            feed(engine, 0, time, kind=kind)
        assert engine.snapshot() == before

    def test_null_times_convert(self):
        engine = engine_of()
        feed(engine, 0, kind=pa.timestamp("us"))
        notices = feed(engine, 1_000, None, kind=pa.timestamp("ns"))
        assert notices.num_rows == 1
        assert engine.stats()["dead_letters_by_reason"]["null_time"] == 1

    def test_deadlines_are_as_without(self):
        told = []
        for kind, factor in ((pa.timestamp("us"), 1), (pa.timestamp("ns"), 1_000)):
            engine = eq.Engine(eq.Stream("s", key="k", time="t", attributes=["x"], grace="2us"))
            engine.register(eq.Border("in", {"x": (0, 2)}, dwell="3us"))
            feed(engine, 1, kind=pa.timestamp("us"))
            notices = feed(engine, 2 * factor, 9 * factor, kind=kind)
            told.append(pa.concat_tables([notices, engine.flush()]).to_pylist())
        assert told[0] == told[1]


class TestAdvance:
    def advance(self, kind, time):
        engine = engine_of(expire_after=None)
        feed(engine, 0, kind=kind)
        engine.advance(time)
        return engine

    @pytest.mark.parametrize(
        ("kind", "time"),
        [
            (pa.int64(), 5),
            (pa.int64(), 5.0),
            (pa.int64(), np.int32(5)),
            (pa.float64(), 5),
            (pa.float64(), 0.5),
            (pa.timestamp("us"), MORNING),
            (pa.timestamp("us"), MORNING.date()),
            (pa.timestamp("s"), MORNING),
            (pa.timestamp("ns"), pd.Timestamp("2024-01-01T00:00:00.000000001")),
            (pa.timestamp("ns"), np.datetime64("2024-01-01T00:00:00.000000001")),
            (pa.timestamp("us", "UTC"), MORNING.replace(tzinfo=BERLIN)),
            (pa.timestamp("us", "Europe/Berlin"), MORNING.replace(tzinfo=UTC)),
            (pa.date32(), date(2024, 1, 1)),
            (pa.date32(), datetime(2024, 1, 1)),
            (pa.date64(), date(2024, 1, 1)),
        ],
    )
    def test_takes_times_of_the_stream(self, kind, time):
        self.advance(kind, time)

    @pytest.mark.parametrize(
        ("kind", "time", "said"),
        [
            (pa.int64(), 5.5, "between two"),
            (pa.int64(), True, "give a number"),
            (pa.int64(), "5", "give a number"),
            (pa.int64(), MORNING, "give a number"),
            (pa.int64(), 2**62, "64 bits"),
            (pa.float64(), float("nan"), "64 bits"),
            (pa.float64(), 2**53 + 1, "between two"),
            (pa.timestamp("us"), 5, "give a datetime"),
            (pa.timestamp("us"), None, "give a datetime"),
            (pa.timestamp("us"), pd.NaT, "give"),
            (pa.timestamp("us"), np.datetime64("NaT"), "datetime64 with a unit"),
            (pa.timestamp("us"), MORNING.replace(tzinfo=UTC), "without time zone"),
            (pa.timestamp("us", "UTC"), MORNING, "with a time zone"),
            (pa.timestamp("us", "UTC"), MORNING.date(), "with a time zone"),
            (pa.timestamp("s"), MORNING.replace(microsecond=1), "between two"),
            (pa.timestamp("us"), pd.Timestamp("2024-01-01T00:00:00.000000001"), "between two"),
            (pa.timestamp("ns"), datetime(9999, 1, 1), "beyond the last"),
            (pa.date32(), MORNING, "between two"),
            (pa.date32(), 5, "give a date"),
        ],
    )
    def test_is_as_strict_as_process(self, kind, time, said):
        with pytest.raises(eq.InvalidBatchError, match=said):
            self.advance(kind, time)

    def test_the_moment_counts_and_not_the_zone(self):
        engine = eq.Engine(eq.Stream("s", key="k", time="t", attributes=["x"], expire_after="1h"))
        engine.register(eq.Border("in", {"x": (0, 2)}))
        feed(engine, 0, kind=pa.timestamp("us", "UTC"))
        assert engine.advance(datetime(1970, 1, 1, 1, 59, 59, tzinfo=BERLIN)).num_rows == 0
        (notice,) = engine.advance(datetime(1970, 1, 1, 2, tzinfo=BERLIN)).to_pylist()
        assert notice["reason"] == "expired"
