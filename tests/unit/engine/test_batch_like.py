"""What `Engine.process` takes besides Arrow tables."""

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import everquery as eq

MORNING = datetime(2024, 1, 1, 8)
EVENTS = [
    {"key": "a", "at": MORNING, "x": 1.5, "weight": 2},
    {"key": "b", "at": MORNING + timedelta(seconds=1), "x": 2, "weight": 1},
]
COLUMNS = {name: [event[name] for event in EVENTS] for name in EVENTS[0]}


def engine_of(**changes):
    stream = {"key": "key", "time": "at", "attributes": ["x"], **changes}
    engine = eq.Engine(eq.Stream("s", **stream))
    engine.register(eq.Range("all", {}))
    return engine


def told(engine, batch):
    notices = engine.process(batch)
    assert isinstance(notices, pa.Table)
    return notices.select(["key", "time", "x"]).to_pylist()


def refused(engine):
    letters = engine.dead_letters().select(["position", "reason"]).to_pylist()
    return [(letter["position"], letter["reason"]) for letter in letters]


def expected(kind=lambda time: time):
    return [{"key": e["key"], "time": kind(e["at"]), "x": float(e["x"])} for e in EVENTS]


class Capsule:
    """What has the interface of Arrow, and nothing else."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


class ArrayCapsule:
    def __init__(self, batch):
        self._batch = batch

    def __arrow_c_array__(self, requested_schema=None):
        return self._batch.__arrow_c_array__(requested_schema)


@pytest.mark.parametrize(
    "make",
    [
        lambda: EVENTS,
        lambda: tuple(EVENTS),
        lambda: iter(EVENTS),
        lambda: COLUMNS,
        lambda: {**COLUMNS, "x": np.array(COLUMNS["x"]), "key": pa.array(COLUMNS["key"])},
        lambda: (
            {name: pl.Series(column) for name, column in COLUMNS.items() if name != "x"}
            | {"x": (1.5, 2.0)}
        ),
        lambda: pa.table(COLUMNS),
        lambda: pa.table(COLUMNS).to_reader(),
        lambda: Capsule(pa.table(COLUMNS)),
        lambda: ArrayCapsule(pa.record_batch(COLUMNS)),
        lambda: pa.array(EVENTS),  # structs
        lambda: pl.DataFrame(COLUMNS, strict=False),
        lambda: duckdb.from_arrow(pa.table(COLUMNS)),
    ],
)
def test_the_same_events_in_many_hands(make):
    assert told(engine_of(weight="weight"), make()) == expected()


class TestPandas:
    def test_a_frame(self):
        frame = pd.DataFrame({**COLUMNS, "note": [object(), {}]}, index=[7, 9])
        assert told(engine_of(weight="weight"), frame) == expected(pd.Timestamp)

    def test_an_index_with_the_name_of_a_column(self):
        frame = pd.DataFrame(COLUMNS).set_index("at")
        assert told(engine_of(), frame) == expected(pd.Timestamp)

    def test_objects_are_numbers(self):
        frame = pd.DataFrame({"key": ["a"] * 3, "at": [1, 2, 3]})
        frame["x"] = pd.Series([1, 2.5, Decimal("0.5")], dtype=object)
        assert [row["x"] for row in told(engine_of(), frame)] == [1.0, 2.5, 0.5]

    def test_one_bad_object_is_a_dead_letter(self):
        frame = pd.DataFrame({"key": ["a"] * 3, "at": [1, 2, 3]})
        frame["x"] = pd.Series([1, "many", pd.NA], dtype=object)
        engine = engine_of()
        assert {row["time"] for row in told(engine, frame)} == {1, 3}  # the last is unknown
        assert refused(engine) == [(1, "unreadable_attribute")]

    def test_a_column_twice(self):
        frame = pd.DataFrame([["a", 1, 1.0, 2.0]], columns=["key", "at", "x", "x"])
        with pytest.raises(eq.InvalidBatchError, match="'x', and the batch has it twice"):
            engine_of().process(frame)

    def test_times_of_other_units_and_zones(self):
        engine = engine_of()
        first = pd.to_datetime(["2024-01-01T08:00Z"])
        told(engine, pd.DataFrame({"key": ["a"], "at": first, "x": [1.0]}))
        second = pd.to_datetime(["2024-01-01T10:30"]).tz_localize("Europe/Berlin").as_unit("s")
        (row,) = told(engine, pd.DataFrame({"key": ["a"], "at": second, "x": [1.0]}))
        assert row["time"] == datetime(2024, 1, 1, 9, 30, tzinfo=UTC)

    def test_a_table_of_queries(self):
        engine = engine_of()
        queries = pd.DataFrame({"id": ["p", "q"], "x_lo": [0.0, 1.0], "ttl": ["1h", None]})
        engine.register_table(queries.iloc[[1, 0]], kind="range")
        assert set(engine.queries()["id"].to_pylist()) == {"all", "p", "q"}


class TestPolars:
    def test_categories_and_nulls(self):
        key = pl.Series(["a", "b"], dtype=pl.Categorical)
        frame = pl.DataFrame({"key": key, "at": [1, 2], "x": [None, 2]})
        engine = engine_of()
        assert [row["key"] for row in told(engine, frame)][-1] == "b"

    def test_a_lazy_frame_is_no_batch(self):
        with pytest.raises(eq.InvalidBatchError, match="LazyFrame is no batch"):
            engine_of().process(pl.LazyFrame(COLUMNS, strict=False))


class TestListsOfDicts:
    def test_absent_fields_are_null(self):
        engine = engine_of(attributes=["x", "y"])
        engine.process([{"key": "a", "at": 1, "x": 1, "y": 1}, {"at": 2, "x": 1, "y": 1}])
        assert refused(engine) == [(1, "null_key")]

    def test_values_of_a_wrong_type_are_dead_letters_of_their_rows(self):
        engine = engine_of()
        fine = {"key": "a", "at": 5, "x": 1}
        rows = [
            fine,
            fine | {"x": "abc"},
            fine | {"x": True},
            fine | {"x": [1]},
            fine | {"x": np.array([1, 2])},
            fine | {"at": "soon"},
            fine | {"at": MORNING},
            fine | {"at": False},
            fine | {"key": 7},
            fine | {"key": "\ud800"},
            fine | {"key": b"a"},
            fine | {"x": 2**60 + 1},
            fine | {"x": 10**5_000},
            fine | {"x": 2.5},
        ]
        assert [row["x"] for row in told(engine, rows)] == [1.0, 2.5]
        assert [reason for _, reason in refused(engine)] == [
            *["unreadable_attribute"] * 4,
            *["unreadable_time"] * 3,
            *["unreadable_key"] * 3,
            *["inexact_attribute", "unreadable_attribute"],
        ]
        assert engine.refused_examples()["unreadable_attribute"][0].value == "abc"

    def test_numbers_of_all_sorts(self):
        engine = engine_of()
        numbers = [1, 2.5, Decimal("0.25"), np.int8(3), np.float32(0.5), 2**70, float("inf")]
        rows = [{"key": "a", "at": i, "x": x} for i, x in enumerate(numbers)]
        assert [row["x"] for row in told(engine, rows)] == [float(x) for x in numbers]

    def test_integers_and_floats_as_times(self):
        engine = engine_of()
        rows = [{"key": "a", "at": at, "x": 1} for at in (1, 2.5)]
        assert [row["time"] for row in told(engine, rows)] == [1.0, 2.5]
        assert [row["time"] for row in told(engine, [rows[0] | {"at": 3}])] == [3.0]
        assert [row["time"] for row in told(engine, [rows[0] | {"at": np.int64(4)}])] == [4.0]

    def test_a_fraction_in_a_stream_of_integers(self):
        engine = engine_of()
        row = {"key": "a", "at": 1, "x": 1}
        told(engine, [row])
        assert [each["time"] for each in told(engine, [row | {"at": at} for at in (2.0, 2.5)])] == [
            2
        ]
        assert refused(engine) == [(2, "unreadable_time")]

    @pytest.mark.parametrize(
        ("at", "kind"),
        [
            (MORNING, pa.timestamp("us")),
            (MORNING.replace(tzinfo=UTC), pa.timestamp("us", "UTC")),
            (MORNING.date(), pa.date32()),
            (np.datetime64("2024-01-01T08:00:00.000000001"), pa.timestamp("ns")),
            (np.datetime64("2024-01-01T08:00"), pa.timestamp("s")),
            (pd.Timestamp("2024-01-01T08:00:00.000000001"), pa.timestamp("ns")),
        ],
    )
    def test_types_of_times(self, at, kind):
        engine = engine_of()
        notices = engine.process([{"key": "a", "at": at, "x": 1}, {"key": "a", "x": 1}])
        assert notices.schema.field("time").type == kind
        assert notices["time"].null_count == 0
        assert refused(engine) == [(1, "null_time")]

    def test_naive_and_zoned_times_are_never_mixed(self):
        engine = engine_of()
        zoned = MORNING.replace(tzinfo=timezone(timedelta(hours=2)))
        rows = [{"key": "a", "at": at, "x": 1} for at in (zoned, MORNING, zoned)]
        assert len(told(engine, rows)) == 2
        assert refused(engine) == [(1, "unreadable_time")]

    @pytest.mark.parametrize("together", [True, False])
    def test_what_is_wrong_with_a_row_does_not_depend_on_others(self, together):
        engine = engine_of()
        told(engine, [{"key": "a", "at": 5, "x": 1}])
        rows = [
            {"key": "a", "at": MORNING, "x": 1}, {"key": "a", "x": 1}, {"key": 7, "at": 6}, {},
            {"other": 1}, {"key": "a", "at": 6, "x": 1},
        ]  # fmt: skip
        for batch in [rows] if together else [[row] for row in rows]:
            engine.process(batch)
        reasons = ["unreadable_time", "null_time", "unreadable_key", "null_key", "null_key"]
        assert [reason for _, reason in refused(engine)] == reasons

    @pytest.mark.parametrize("span", ["expire_after", "max_ahead", "grace"])
    def test_no_event_yet_has_no_type_of_time(self, span):
        engine = eq.Engine(eq.Stream("s", key="key", time="at", attributes=["x"], **{span: "9s"}))
        for rows in ([], [{"key": "a", "x": 1}], [{"key": "a", "at": "soon", "x": 1}]):
            assert engine.process(rows).num_rows == 0
        assert engine.stats()["dead_letters"] == 2
        engine.process([{"key": "a", "at": MORNING, "x": 1}])
        assert engine.stats()["dead_letters"] == 2

    def test_integer_keys(self):
        engine = engine_of()
        rows = [{"key": key, "at": 1, "x": 1} for key in (7, np.int64(8), "9", 2**63, True)]
        assert [row["key"] for row in told(engine, rows)] == [7, 8]
        assert [reason for _, reason in refused(engine)] == ["unreadable_key"] * 3

    def test_no_events(self):
        engine = engine_of()
        assert engine.process([]).num_rows == 0
        told(engine, [{"key": 7, "at": MORNING, "x": 1}])
        assert engine.process([]).num_rows == 0


class Refusing:
    def __arrow_c_stream__(self, requested_schema=None):
        raise RuntimeError("not today")


class NoCapsule:
    def __arrow_c_stream__(self, requested_schema=None):
        return 5


class Released:
    def __init__(self):
        self._capsule = pa.table(COLUMNS).__arrow_c_stream__()
        pa.RecordBatchReader.from_stream(self)

    def __arrow_c_stream__(self, requested_schema=None):
        return self._capsule


class NotEvenThat:
    def __getattr__(self, name):
        if name.startswith("__arrow_c"):
            return lambda *_: None
        raise AttributeError(name)


class Hostile(dict):
    def get(self, *_):
        raise OSError("gone")


@pytest.mark.parametrize(
    ("batch", "said"),
    [
        (Refusing(), "RuntimeError: not today"),
        (NoCapsule(), "can't be read"),
        (Released(), "released"),
        (NotEvenThat(), "can't be read"),
        (pa.chunked_array([[1, 2]]), "non-struct"),
        (pl.Series([1, 2]), "non-struct"),
        (pa.array([1, 2]), "can't be read"),
        ([Hostile(EVENTS[0])], "OSError: gone"),
        ([EVENTS[0], 5], "row 1 is 5, and no dict"),
        (["abc"], "row 0 is 'abc'"),
        ({}, "none of them; it has none"),
        ({"symbol": ["a"]}, "none of them; it has symbol"),
        (pd.DataFrame({"z": [1]}), "none of them; it has z"),
        (EVENTS[0], r"One event is a list of one: process\(\[event\]\)"),
        ({**COLUMNS, "x": [1.0]}, "'x' has 1"),
        ({**COLUMNS, "x": np.ones((2, 2))}, "column 'x' is array"),
        ("abc", "str is no batch"),
        (b"abc", "bytes is no batch"),
        (5, "int is no batch"),
        (None, "NoneType is no batch"),
    ],
)
def test_what_is_no_batch_changes_nothing(batch, said):
    engine = engine_of()
    before = engine.snapshot()
    with pytest.raises(eq.InvalidBatchError, match=said):
        engine.process(batch)
    assert engine.snapshot() == before


def test_a_missing_column_of_a_capsule():
    with pytest.raises(eq.InvalidBatchError, match="needs column 'key'"):
        engine_of().process(Capsule(pa.table({"at": [1], "x": [1.0]})))


def test_hostile_arrow_data_from_a_capsule():
    keys = pa.DictionaryArray.from_arrays(pa.array([9], pa.int32()), pa.array(["a"]), safe=False)
    table = pa.table({"key": keys, "at": [1], "x": [1.0]})
    with pytest.raises(eq.InvalidBatchError, match="broken"):
        engine_of().process(Capsule(table))


def test_a_table_of_queries_that_can_not_be_read():
    with pytest.raises(eq.InvalidTableError, match="not today"):
        engine_of().register_table(Refusing(), kind="range")


def test_dates_as_keys_are_none():
    engine = engine_of()
    engine.process([{"key": date(2024, 1, 1), "at": 1, "x": 1}])
    assert refused(engine) == [(0, "unreadable_key")]
