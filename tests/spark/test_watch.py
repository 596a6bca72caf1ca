"""What a DataFrame may look like: each case is told as by an engine in this process."""

import os
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import StructField, StructType

import everquery as eq
from everquery.errors import EverqueryError, InvalidBatchError, InvalidStreamError, SparkError
from everquery.shard.layout import in_full
from everquery.spark import read_files, watch
from tests.spark.job import FRAME, SOURCES, partitioned

START = datetime(2026, 1, 5, 9, 30)
NUMBERS = range(60)
LONG_KEY = "k" * (1 << 20)


@dataclass
class Case:
    """Events, of which the first half comes in a batch of its own, and queries over them."""

    stream: eq.Stream
    columns: dict[str, tuple[str, pa.DataType, list]]  # the type in Spark and in Arrow, the values
    queries: list
    carry: list[str] = field(default_factory=list)
    quarantined: list[str] = field(default_factory=list)
    zone: str = "UTC"  # of the session

    def table(self):
        arrays = [pa.array(values, kind) for _, kind, values in self.columns.values()]
        return pa.table(arrays, names=list(self.columns))

    def halves(self):
        table = self.table()
        half = table.num_rows // 2
        return [table.slice(0, half), table.slice(half)]

    def schema(self):
        kinds = {name: kind for name, (kind, _, _) in self.columns.items()}
        return StructType(
            [
                StructField(name, StructType.fromDDL(f"x {kind}")[0].dataType)
                for name, kind in kinds.items()
            ]
        )


def odd_columns():
    """Keys of 32 bits, decimals, times without zone, weights, names that need quotes."""
    numbers = [Decimal(i * 7 % 40) / 4 for i in NUMBERS]
    numbers[5] = Decimal("0.1")  # float64 has no such number
    numbers[6] = None
    keys = [i % 3 - 1 for i in NUMBERS]
    keys[7] = None
    weights = [0 if i == 8 else i + 1 for i in NUMBERS]
    words = [["a", None] * (i % 3) for i in NUMBERS]
    structs = [{"name": f"n{i}", "at": (START + timedelta(i)).replace(tzinfo=UTC)} for i in NUMBERS]
    struct = pa.struct([("name", pa.string()), ("at", pa.timestamp("us", "UTC"))])
    return Case(
        eq.Stream("odd", key="order id", time="a.b", attributes=["tick`s"], weight="weight"),
        {
            "order id": ("int", pa.int32(), keys),
            "a.b": (
                "timestamp_ntz",
                pa.timestamp("us"),
                [START + timedelta(0, i) for i in NUMBERS],
            ),
            "tick`s": ("decimal(20,4)", pa.decimal128(20, 4), numbers),
            "weight": ("smallint", pa.int16(), weights),
            "row.number": ("int", pa.int32(), list(NUMBERS)),
            "some words": ("array<string>", pa.list_(pa.string()), words),
            "struct": ("struct<name: string, at: timestamp>", struct, structs),
            "sent": ("timestamp", pa.timestamp("us", "UTC"), [row["at"] for row in structs]),
            "tags": (
                "map<string, int>",
                pa.map_(pa.string(), pa.int32()),
                [[("x", i)] if i % 2 else [] for i in NUMBERS],
            ),
        },
        [
            eq.Border("one", {"tick`s": (2, 6)}, key=1),
            eq.Border("negative", {"tick`s": (2, 6)}, key=-1),
            eq.Range("all", {"tick`s": (5, 9)}),
        ],
        carry=["row.number", "some words", "struct", "sent", "tags"],
    )


def dates():
    """Dates as times, integers that float64 may not hold, and a key of a megabyte."""
    sizes = [i * 11 % 50 for i in NUMBERS]
    sizes[9] = 2**53 + 1
    keys = [(LONG_KEY, "short", "")[i % 3] for i in NUMBERS]
    days = [date(2026, 1, 1) + timedelta(i // 3) for i in NUMBERS]
    days[10] = None
    return Case(
        eq.Stream("dates", key="k", time="day", attributes=["size"], expire_after=timedelta(9)),
        {
            "k": ("string", pa.string(), keys),
            "day": ("date", pa.date32(), days),
            "size": ("bigint", pa.int64(), sizes),
        },
        [
            eq.Border("long", {"size": (10, 30)}, key=LONG_KEY),
            eq.Border("empty", {"size": (10, 30)}, key=""),
            eq.Range("any", {"size": (40, 1e18)}),
        ],
    )


def one_series():
    """Neither key nor time."""
    prices = [float(i * 13 % 37) for i in NUMBERS]
    prices[11], prices[12], prices[13] = float("nan"), None, float("inf")
    return Case(
        eq.Stream("series", attributes=["price", "small"]),
        {
            "price": ("double", pa.float64(), prices),
            "small": ("tinyint", pa.int8(), [i - 30 for i in NUMBERS]),
            "n": ("int", pa.int32(), list(NUMBERS)),
        },
        [
            eq.Border("band", {"price": (10, 20)}),
            eq.Border("top", {"price": (30, None), "small": (-10, 10)}),
            eq.Range("low", {"price": (0, 5)}),
            eq.Quantile("median", "price", phi=0.5, epsilon=0.1),
        ],
        carry=["n"],
    )


def numbers_as_times(kind, arrow, one, key=4):
    """Return a case with times that are numbers, one of them late, and keys of 8 bits."""
    times = [one(i) for i in NUMBERS]
    times[50] = one(3)
    return Case(
        eq.Stream("numbers", key="k", time="t", attributes=["x"], grace=4),
        {
            "k": ("tinyint", pa.int8(), [i % 5 for i in NUMBERS]),
            "t": (kind, arrow, times),
            "x": ("float", pa.float32(), [i * 17 % 31 / 2 for i in NUMBERS]),
        },
        [eq.Border("b", {"x": (3, 9)}), eq.Range("r", {"x": (10, 12)}, key=key)],
        quarantined=[] if key == 4 else ["r"],
    )


def in_new_york():
    """Instants as times, while the session is in another zone."""
    times = [(START + timedelta(0, 0, i)).replace(tzinfo=UTC) for i in NUMBERS]
    return Case(
        eq.Stream("zoned", time="ts", attributes=["x"]),
        {
            "ts": ("timestamp", pa.timestamp("us", "UTC"), times),
            "x": ("double", pa.float64(), [float(i * 17 % 31) for i in NUMBERS]),
            "then": ("timestamp", pa.timestamp("us", "UTC"), times),
        },
        [eq.Border("b", {"x": (3, 9)})],
        carry=["then"],
        zone="America/New_York",
    )


CASES = {
    "odd columns": odd_columns(),
    "dates": dates(),
    "one series": one_series(),
    "bigint times": numbers_as_times("bigint", pa.int64(), int),
    "double times": numbers_as_times("double", pa.float64(), lambda i: i / 2, key="4"),
    "in New York": in_new_york(),
}


class Runs:
    """Runs each case once."""

    def __init__(self, spark, folder):
        self._spark, self._folder = spark, folder
        self._told = {}

    def told(self, name, source=FRAME):
        """Return what a case was told."""
        if (name, source) not in self._told:
            zone = self._spark.conf.get("spark.sql.session.timeZone")
            self._spark.conf.set("spark.sql.session.timeZone", CASES[name].zone)
            with partitioned(self._spark, source.partitions):
                self._told[name, source] = self._run(name, CASES[name], source)
            self._spark.conf.set("spark.sql.session.timeZone", zone)
        return self._told[name, source]

    def _events(self, folder, case, source):
        if source.kind == "files":
            return read_files(self._spark, case.stream, [folder], max_files_a_batch=1)
        reader = self._spark.readStream.schema(case.schema()).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(folder))

    def _run(self, name, case, source):
        folder = self._folder / f"{name} {source.kind} {source.partitions}".replace(" ", "-")
        (folder / "in").mkdir(parents=True)
        for number, half in enumerate(case.halves()):
            path = folder / "in" / f"{number}.parquet"
            pq.write_table(half, path)
            os.utime(path, (1000 * number, 1000 * number))
        url = f"sqlite:///{folder}/queries.db"
        eq.Engine(case.stream, registry=url, create=True).register(case.queries)
        notices = watch(
            self._events(folder / "in", case, source),
            case.stream.name,
            registry=url,
            shards=3,
            carry=case.carry,
            dead_letters=True,
        )
        told = []
        writer = notices.writeStream.foreachBatch(lambda batch, _: told.append(batch.toArrow()))
        writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
        assert writer.trigger(availableNow=True).start().awaitTermination(120)
        assert len(told) == 2
        return pa.concat_tables(told)


@pytest.fixture(scope="module")
def runs(spark, tmp_path_factory):
    return Runs(spark, tmp_path_factory.mktemp("watch"))


def plain(row):
    """Return a row in values that compare: instants in UTC, and NaN equal to itself."""
    changed = dict(row)
    for name, value in row.items():
        if isinstance(value, datetime) and value.tzinfo is not None:
            changed[name] = value.astimezone(UTC)
        elif isinstance(value, float) and value != value:
            changed[name] = "NaN"
    return changed


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
@pytest.mark.parametrize("name", CASES)
def test_as_by_an_engine(runs, name, source):
    case = CASES[name]
    told = [plain(row) for row in runs.told(name, source).to_pylist()]
    engine = eq.Engine(case.stream, all_columns=True)
    engine.register([query for query in case.queries if query.id not in case.quarantined])
    expected = [
        {in_full(name) if name in case.carry else name: value for name, value in plain(row).items()}
        for half in case.halves()
        for row in engine.process(half).to_pylist()
    ]
    names = list(expected[0])
    notices = [row for row in told if row["query_id"] not in (None, *case.quarantined)]
    by_id = {row["notice_id"]: row for row in notices}
    assert len(by_id) == len(notices)
    assert {i: {n: row[n] for n in names} for i, row in by_id.items()} == {
        row["notice_id"]: row for row in expected
    }
    assert len(expected) > 8

    letters = [row for row in told if row["kind"] == "dead_letter"]
    of_interest = ["reason", "key", *case.stream.attributes]
    assert Counter(tuple(row[n] for n in of_interest) for row in letters) == Counter(
        tuple(row[n] for n in of_interest) for row in map(plain, engine.dead_letters().to_pylist())
    )
    assert len({row["notice_id"] for row in letters}) == len(letters)

    quarantined = [row for row in told if row["query_id"] in case.quarantined]
    assert [row["query_id"] for row in quarantined] == case.quarantined
    assert {row["event"] for row in quarantined} <= {"quarantined"}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_carried_columns_are_those_of_the_event(runs, source):
    case = CASES["odd columns"]
    events = {row["row.number"]: row for row in case.table().to_pylist()}
    told = runs.told("odd columns", source)
    carried = [row for row in told.to_pylist() if row["row.number"] is not None]
    assert {row["kind"] for row in carried} == {"border", "range", "dead_letter"}
    for row in carried:
        event = plain(events[row["row.number"]])
        assert {name: plain(row)[name] for name in case.carry} == {
            name: event[name] for name in case.carry
        }
        if row["kind"] != "dead_letter":
            assert (row["key"], row["tick`s"]) == (event["order id"], event["tick`s"])


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_carried_instants_are_the_same_in_every_zone(runs, source):
    for row in map(plain, runs.told("in New York", source).to_pylist()):
        assert row["then"] == row["time"]


STREAM = eq.Stream("trades", key="symbol", time="ts", attributes=["price"], weight="n")
GOOD = "symbol string, ts timestamp, price double, n int"


def frame(spark, tmp_path, ddl):
    return spark.readStream.schema(ddl).parquet(str(tmp_path))


@pytest.mark.parametrize(
    ("ddl", "message"),
    [
        ("symbol string, price double, n int", "needs column 'ts', and the DataFrame has symbol"),
        ("Symbol string, ts timestamp, price double, n int", "needs column 'symbol'"),
        ("symbol double, ts timestamp, price double, n int", "'symbol' has type double"),
        ("symbol string, ts string, price double, n int", "'ts' has type string; it must be times"),
        ("symbol string, ts timestamp, price string, n int", "'price' has type string; it must be"),
        ("symbol string, ts timestamp, price array<int>, n int", "'price' has type array<int>"),
        ("symbol string, ts timestamp, price double, n boolean", "'n' has type boolean; it must"),
    ],
)  # fmt: skip
def test_columns_that_do_not_fit_are_an_error_at_once(spark, tmp_path, ddl, message):
    with pytest.raises(InvalidBatchError, match=message):
        watch(
            frame(spark, tmp_path, ddl),
            STREAM,
            registry=f"sqlite:///{tmp_path}/queries.db",
            create=True,
        )


def test_a_column_twice_is_an_error_at_once(spark, tmp_path):
    df = frame(spark, tmp_path, GOOD).select("*", "price")
    with pytest.raises(InvalidBatchError, match="the DataFrame has it twice"):
        watch(df, STREAM, registry=f"sqlite:///{tmp_path}/queries.db", create=True)


def test_spans_that_times_have_no_unit_for_are_an_error_at_once(spark, tmp_path):
    stream = eq.Stream("trades", time="ts", attributes=["price"], grace=timedelta(0, 5))
    df = frame(spark, tmp_path, "ts bigint, price double")
    with pytest.raises(InvalidBatchError, match="has no unit for a span"):
        watch(df, stream, registry=f"sqlite:///{tmp_path}/queries.db", create=True)


def test_a_dataframe_that_does_not_stream_is_an_error(spark, tmp_path):
    for df in (spark.createDataFrame([], GOOD), None):
        with pytest.raises(SparkError, match="takes a streaming DataFrame"):
            watch(df, STREAM, registry=f"sqlite:///{tmp_path}/queries.db", create=True)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"carry": "price"}, SparkError, "give a list of names"),
        ({"carry": ["venue"]}, SparkError, "'venue' is to be carried, and the events have"),
        ({"carry": ["price"]}, SparkError, "notices have one of that name"),
        ({"shards": 0}, SparkError, "takes 1 to 256"),
        ({"wide_shards": -1}, SparkError, "takes 0 to 256"),
        ({"shards": "2"}, SparkError, "it takes an integer"),
        ({"place": "n"}, SparkError, "give a list of names"),
        ({"place": ["offset"]}, SparkError, "no such column"),
        ({"place": ["n", "price"]}, SparkError, "'price', which holds no integers"),
        ({"stream": 5}, InvalidStreamError, "5 is no stream"),
        ({"stream": "other"}, EverqueryError, "other"),
    ],
)
def test_what_else_is_wrong_is_said_at_once(spark, tmp_path, options, error, message):
    chosen = {"stream": STREAM, "registry": f"sqlite:///{tmp_path}/queries.db", **options}
    eq.Engine(STREAM, registry=chosen["registry"], create=True)
    with pytest.raises(error, match=message):
        watch(frame(spark, tmp_path, GOOD), chosen.pop("stream"), **chosen)
