"""Bad input: an error says what, where and what to do, and leaves the engine as it was."""

import math
from datetime import timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import everquery as eq
from everquery.core import framing


@pytest.fixture
def engine():
    engine = eq.Engine(
        eq.Stream("trades", key="symbol", time="ts", attributes=["price", "volume"], weight="n")
    )
    engine.register(eq.Border("live", {"price": (40, 50)}))
    engine.process(batch())
    return engine


def batch(**columns):
    table = {
        "symbol": ["IBM", "AAPL"],
        "ts": [10, 11],
        "price": [45.0, 60.0],
        "volume": [1.0, 2.0],
        "n": [1, 2],
    }
    return pa.table({**table, **columns})


def state_of(engine):
    return repr((engine.stats(), engine.queries().to_pylist(), engine.dead_letters().to_pylist()))


@pytest.fixture
def unchanged(engine):
    """Assert after the test that the engine is as it was before it."""
    before = state_of(engine)
    yield
    assert state_of(engine) == before


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: eq.Range("q", {"price": (50, 40)}), "holds no value"),
        (lambda: eq.Range("q", {"price": (50, 50)}), "equal ends need closed='both'"),
        (lambda: eq.Range("q", {"price": eq.Interval(5, 5, closed="neither")}), "holds no value"),
        (lambda: eq.Range("q", {"price": (math.nan, 50)}), "lo is NaN"),
        (lambda: eq.Range("q", {"price": (40, math.nan)}), "hi is NaN"),
        (lambda: eq.Range("q", {"price": (40, Decimal("sNaN"))}), "hi is NaN"),
        (lambda: eq.Range("q", {"price": ("40", 50)}), "'40', which is not a number"),
        (lambda: eq.Range("q", {"price": (True, 50)}), "True, which is not a number"),
        (lambda: eq.Range("q", {"price": (2**53 + 1, None)}), "float64 can't hold exactly"),
        (lambda: eq.Range("q", {"price": (10**400, None)}), "float64 can't hold exactly"),
        (lambda: eq.Range("q", {"price": (Decimal("0.1"), 1)}), "the nearest is 0.1"),
        (lambda: eq.Range("q", {"price": 40}), "is no range"),
        (lambda: eq.Range("q", {"price": (1, 2, 3)}), "is no range"),
        (lambda: eq.Range("q", "price"), "mapping from attribute to range"),
        (lambda: eq.Interval(1, 2, closed="open"), "'left', 'right', 'both' or 'neither'"),
        (lambda: eq.Interval(math.inf, None, closed="neither"), "holds no value"),
        (lambda: eq.Border("q", {}, emit=()), "it takes 'enter', 'leave' or both"),
        (lambda: eq.Border("q", {}, emit=("exit",)), "it takes 'enter', 'leave' or both"),
        (lambda: eq.Range("q", {}, labels={"team": 7}), "names and values are strings"),
        (lambda: eq.Range("q", {}, labels="fx"), "give a mapping"),
        (lambda: eq.Range("q", {}, owner=""), "owner is empty"),
        (lambda: eq.Range("half \ud83d", {}), "half a surrogate pair"),
        (lambda: eq.Range("", {}), "query id is empty"),
        (lambda: eq.Range(7, {}), "is not a string"),
        (lambda: eq.Range("x" * 10_000, {}), "10,000 bytes; the limit is 1,024"),
        (lambda: eq.Range("q", {}, key=1.5), "a key is a string or an integer"),
        (lambda: eq.Range("q", {}, key=True), "a key is a string or an integer"),
    ],
)
def test_bad_specs(make, said):
    with pytest.raises(eq.InvalidQueryError) as caught:
        make()
    assert said in str(caught.value)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("query", "error", "said"),
    [
        (eq.Range("q", {"prise": (1, 2)}), eq.InvalidQueryError, "did you mean 'price'?"),
        (eq.Range("live", {"price": (1, 2)}), eq.DuplicateQueryError, "'live' is live already"),
        (eq.Range("q", {}, key=7), eq.InvalidQueryError, "keys of this stream are strings"),
        (eq.Range("q", {}, key=2**70), eq.InvalidQueryError, "can't be"),
        ("q", eq.InvalidQueryError, "give one of Range, Border"),
        ([eq.Range("a", {}), eq.Range("a", {})], eq.InvalidQueryError, "'a' occurs twice"),
        ([eq.Range("a", {}), eq.Range("live", {})], eq.DuplicateQueryError, "live already"),
    ],
)
@pytest.mark.usefixtures("unchanged")
def test_queries_that_do_not_fit(engine, query, error, said):
    with pytest.raises(error, match=said.replace("?", r"\?")):
        engine.register(query)


def test_a_key_on_a_stream_without_one():
    engine = eq.Engine(eq.Stream("s", attributes=["x"]))
    with pytest.raises(eq.InvalidQueryError, match="'s' has no key"):
        engine.register(eq.Range("q", {}, key="IBM"))


@pytest.mark.parametrize("method", ["deregister", "pause", "resume", "explain"])
@pytest.mark.usefixtures("unchanged")
def test_unknown_ids(engine, method):
    with pytest.raises(eq.UnknownQueryError) as caught:
        getattr(engine, method)("nobody")
    assert str(caught.value).startswith("no live query has the id 'nobody'")


@pytest.mark.usefixtures("unchanged")
def test_one_unknown_id_among_known_ones_ends_none(engine):
    with pytest.raises(eq.UnknownQueryError):
        engine.deregister(["live", "nobody"])


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"id": pa.array([], pa.string())}, "the table has no rows"),
        ({"price_lo": [1.0]}, "no column 'id'"),
        ({"id": ["a"], "prise_lo": [1.0]}, "did you mean 'price_lo'?"),
        ({"id": ["a"], "price_lo": ["x"]}, "'price_lo' has type string; it must be numbers"),
        ({"id": [7], "price_lo": [1.0]}, "'id' has type int64; it must be strings"),
        ({"id": ["a"], "key": [1.5]}, "it must be strings or integers"),
        ({"id": ["a"], "silent": [1]}, "'silent' has type int64; it must be true or false"),
    ],
)
@pytest.mark.usefixtures("unchanged")
def test_bad_tables(engine, table, said):
    with pytest.raises(eq.InvalidTableError) as caught:
        engine.register_table(pa.table(table), kind="border")
    assert said in str(caught.value)
    assert caught.value.errors.num_rows == 0


def bad_rows():
    """Return a table and the reason against each of its rows ('' for a good one)."""
    rows = [
        ("good", 1.0, 2.0, "left", ""),
        (None, 1.0, 2.0, "left", "id is null"),
        ("", 1.0, 2.0, "left", "id is empty"),
        ("x" * 10_000, 1.0, 2.0, "left", "id is longer than 1,024 bytes; use a shorter name"),
        ("good", 1.0, 2.0, "left", "id occurs in an earlier row of the table"),
        ("live", 1.0, 2.0, "left", "a query with this id is live already; deregister it first"),
        ("nan", math.nan, 2.0, "left", "price_lo is NaN, which no value compares with"),
        ("empty", 2.0, 2.0, "left", "price_lo is not below price_hi, so the range holds no value"),
        ("point", 2.0, 2.0, "both", ""),
        ("back", 3.0, 2.0, "both", "price_lo is not below price_hi, so the range holds no value"),
        ("odd", 1.0, 2.0, "open", "closed must be one of left, right, both, neither, or null"),
        ("above", None, 2.0, None, ""),
        ("top", math.inf, None, "neither",
         "price_lo is not below price_hi, so the range holds no value"),
        ("free", None, None, "left", ""),
    ]  # fmt: skip
    columns = list(zip(*rows, strict=True))
    table = pa.table(
        {"id": columns[0], "price_lo": columns[1], "price_hi": columns[2], "closed": columns[3]}
    )
    return table, columns[4]


@pytest.mark.usefixtures("unchanged")
def test_every_bad_row_is_reported_and_none_is_registered(engine):
    table, reasons = bad_rows()
    with pytest.raises(eq.InvalidTableError, match="10 of 14 rows are bad") as caught:
        engine.register_table(table, kind="range")
    errors = caught.value.errors.to_pylist()
    assert {line["row"]: line["reason"] for line in errors} == {
        row: reason for row, reason in enumerate(reasons) if reason
    }
    assert len(errors[2]["id"]) == 80  # shown, not repeated whole


def test_skip_registers_the_good_rows(engine):
    table, reasons = bad_rows()
    result = engine.register_table(table, kind="range", on_error="skip")
    good = [row for row, reason in enumerate(reasons) if not reason]
    assert result.registered == len(good)
    assert result.errors.num_rows == len(reasons) - len(good)
    ids = engine.queries()["id"].to_pylist()
    assert ids == ["live", *(table["id"][row].as_py() for row in good)]


def test_a_table_equals_the_same_queries_one_by_one(engine):
    other = eq.Engine(engine.stream)
    queries = [
        eq.Border("a", {"price": eq.Interval(1, 2, closed=closed)}, key=key, silent=silent)
        for closed, key, silent in [("both", "IBM", True)]
    ]
    queries.append(eq.Border("b", {"volume": (None, 3)}))
    queries.append(eq.Border("c", {"price": (0, None), "volume": (1, 3)}, key="X"))
    other.register(queries)
    table = pa.table(
        {
            "id": ["a", "b", "c"],
            "key": ["IBM", None, "X"],
            "price_lo": [1, None, 0],
            "price_hi": [2, None, None],
            "volume_lo": [None, None, Decimal("1.00")],
            "volume_hi": pa.array([None, 3, 3], pa.int8()),
            "closed": ["both", None, "left"],
            "silent": [True, False, None],
        }
    )
    fresh = eq.Engine(engine.stream)
    fresh.register_table(table, kind="border")
    assert fresh.queries().to_pylist() == other.queries().to_pylist()


def test_a_table_says_which_crossings_are_told(engine):
    words = ["enter", "leave", "enter,leave", "leave, enter", None]
    table = pa.table({"id": list("abcde"), "emit": words})
    engine.register_table(table, kind="border")
    told = {row["id"]: row["emit"] for row in engine.queries().to_pylist()}
    both = "enter,leave"
    assert [told[name] for name in "abcde"] == ["enter", "leave", both, both, both]
    # The flags say the same; they may stand alone, or beside it.
    flags = pa.table({"id": ["f", "g"], "emit": ["enter", None], "skip_enter": [False, True]})
    engine.register_table(flags, kind="border")
    told = {row["id"]: row["emit"] for row in engine.queries().to_pylist()}
    assert (told["f"], told["g"]) == ("enter", "leave")
    engine.register_table(pa.table({"id": ["h"], "emit": pa.nulls(1)}), kind="border")


@pytest.mark.usefixtures("unchanged")
def test_crossings_that_can_not_be_told(engine):
    words = ["exit", "", "enter,exit", "enter;leave", "enter"]
    skip = [False, False, False, False, True]
    table = pa.table({"id": list("abcde"), "emit": words, "skip_enter": skip})
    with pytest.raises(eq.InvalidTableError) as caught:
        engine.register_table(table, kind="border")
    reasons = caught.value.errors["reason"].to_pylist()
    assert reasons == [
        *4 * ["emit must be enter, leave or enter,leave, or null for both"],
        "it tells neither enter nor leave, so it would never tell anything",
    ]
    with pytest.raises(eq.InvalidTableError, match="'emit' has type int64; it must be strings"):
        engine.register_table(pa.table({"id": ["a"], "emit": [1]}), kind="border")
    with pytest.raises(eq.InvalidTableError, match="no column 'emit'"):
        engine.register_table(pa.table({"id": ["a"], "emit": ["enter"]}), kind="range")


@pytest.mark.parametrize("arguments", [{"kind": "circle"}, {"kind": "range", "on_error": "ignore"}])
@pytest.mark.usefixtures("unchanged")
def test_bad_arguments_of_register_table(engine, arguments):
    with pytest.raises(eq.InvalidQueryError, match="it takes"):
        engine.register_table(pa.table({"id": ["a"]}), **arguments)


@pytest.mark.parametrize(
    ("events", "said"),
    [
        (batch().drop_columns("ts"), "needs column 'ts', and the batch has it not at all"),
        (batch().drop_columns("symbol"), "needs column 'symbol'"),
        (batch().append_column("price", pa.array([1.0, 2.0])), "the batch has it twice"),
        (batch(price=["1", "2"]), "'price' has type string; it must be numbers"),
        (batch(price=[True, False]), "'price' has type bool; it must be numbers"),
        (batch(symbol=[1.5, 2.5]), "'symbol' has type double; it must be strings or integers"),
        (batch(symbol=[1, 2]), "keys of this stream are strings so far"),
        (batch(ts=["1", "2"]), "'ts' has type string"),
        (batch(ts=[1.0, 2.0]), "'ts' has type double, and had int64 before"),
        (batch(n=["1", "2"]), "'n' has type string; it must be integers"),
        ([1, 2], "row 0 is 1, and no dict"),
    ],
)
@pytest.mark.usefixtures("unchanged")
def test_bad_batches(engine, events, said):
    with pytest.raises(eq.InvalidBatchError) as caught:
        engine.process(events)
    assert said in str(caught.value)


def test_bad_values_are_dead_letters_and_the_rest_goes_on(engine):
    big = 2**53 + 1
    events = pa.table(
        {
            "symbol": ["IBM", None, "IBM", "IBM", "IBM", "IBM", "IBM", "IBM", "IBM", "AAPL"],
            "ts": pa.array([12, 12, None, 12, 12, 12, 12, 12, 5, 12]),
            "price": [51.0, 1.0, 1.0, None, math.nan, 1.0, 1.0, 1.0, 1.0, 45.0],
            "volume": pa.array([1, 1, 1, 1, 1, big, 1, 1, 1, 1]),
            "n": pa.array([1, 1, 1, 1, 1, 1, 0, None, 1, 1]),
        }
    )
    notices = engine.process(events).select(["event", "key", "seq"]).to_pylist()
    assert notices == [
        {"event": "leave", "key": "IBM", "seq": 1},
        {"event": "enter", "key": "AAPL", "seq": 1},
    ]
    assert engine.stats()["partial"] == 4  # accepted, whatever they lack
    assert engine.stats()["partial_by_column"] == {"price": 2, "n": 2}
    letters = engine.dead_letters().select(["position", "reason", "detail", "key"]).to_pylist()
    assert [tuple(letter.values()) for letter in letters] == [
        (3, "null_key", "null key", None),
        (4, "null_time", "null time", "IBM"),
        (7, "inexact_attribute", "volume is a number that float64 can't hold exactly", "IBM"),
        (10, "late", "older than the last accepted event of its key", "IBM"),
    ]
    stats = engine.stats()
    assert stats["dead_letters"] == 4
    assert stats["dead_letters_by_reason"]["late"] == 1
    assert stats["events"] == 8


@pytest.mark.parametrize(
    ("weights", "refused", "partial"),
    [
        (pa.array([1.0, 1.5, math.nan, math.inf, -1.0, 2.0**63, 0.0, -1.5]), 4, 3),
        (pa.array([1, 2**63, 2**64 - 1, 0], pa.uint64()), 2, 1),
        (pa.array([Decimal("1.0"), Decimal("1.5"), Decimal("-2.0"), None]), 1, 2),
        (pa.array([1, -(2**63), -(2**62), 2**62, 2**62 + 1]), 2, 1),
        (pa.array([0, -1, None, 7], pa.int8()), 0, 3),
        (pa.nulls(2), 0, 2),
    ],
)
def test_weights(weights, refused, partial):
    engine = eq.Engine(eq.Stream("s", attributes=["x"], weight="w"))
    engine.process(pa.table({"x": np.zeros(len(weights)), "w": weights}))
    assert engine.stats()["dead_letters"] == refused
    assert engine.stats()["events"] == len(weights) - refused
    assert engine.stats()["partial"] == partial
    assert engine.stats()["partial_by_column"] == ({"w": partial} if partial else {})


@pytest.mark.parametrize(
    ("values", "refused"),
    [
        (pa.array([2**53, 2**53 + 1, -(2**63), 2**63 - 1]), 2),
        (pa.array([2**64 - 1, 2**63], pa.uint64()), 1),
        (pa.array([Decimal("0.5"), Decimal("0.1"), None]), 1),
        (pa.array([1.5, math.inf, -math.inf, math.nan], pa.float32()), 0),
        (pa.nulls(3), 0),
    ],
)
def test_attributes_that_float64_can_not_hold(values, refused):
    engine = eq.Engine(eq.Stream("s", attributes=["x"]))
    engine.register(eq.Range("all", {}))
    notices = engine.process(pa.table({"x": values}))
    assert engine.stats()["dead_letters"] == refused
    kept = notices["x"].to_pylist()
    given = [None if value != value else value for value in values.to_pylist()]
    assert all(value in given for value in kept)
    assert len(kept) == len(values) - refused


def damaged(snapshot: bytes) -> bytes:
    middle = len(snapshot) // 2
    return snapshot[:middle] + bytes([snapshot[middle] ^ 0xFF]) + snapshot[middle + 1 :]


def newer(snapshot: bytes) -> bytes:
    header, arrays, strings = framing.unpack(snapshot)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(framing, "VERSION", 99)
        return framing.pack(header, {**arrays, **strings})


def with_part(change):
    def spoil(snapshot: bytes) -> bytes:
        header, arrays, strings = framing.unpack(snapshot)
        change(header["parts"])
        return framing.pack(header, {**arrays, **strings})

    return spoil


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda _: b"", "no everquery snapshot"),
        (lambda _: b"hello", "no everquery snapshot"),
        (lambda snapshot: snapshot[: len(snapshot) // 2], "no everquery snapshot"),
        (damaged, "no everquery snapshot"),
        (newer, "version 99, and this everquery reads up to 2; upgrade"),
        (
            with_part(lambda parts: parts["keys"].update(version=7)),
            "part 'keys' in version 7, and this everquery reads up to 1; upgrade",
        ),
        (
            with_part(lambda parts: parts.update(future=parts["keys"])),
            "part 'future', which this everquery does not know; upgrade",
        ),
        (with_part(lambda parts: parts.pop("rules")), "has no part 'rules'"),
        (with_part(lambda parts: parts["keys"].update(whole=False)), "only changes of part 'keys'"),
        (
            with_part(lambda parts: parts["queries"]["values"].update(kinds=["future"])),
            "a kind 'future' that this everquery does not know; upgrade",
        ),
    ],
)
@pytest.mark.usefixtures("unchanged")
def test_bad_snapshots(engine, spoil, said):
    with pytest.raises(eq.SnapshotError) as caught:
        engine.restore(spoil(engine.snapshot()))
    assert said in str(caught.value)
    assert "as it was" in str(caught.value)


def test_a_snapshot_that_knows_fewer_reasons(engine):
    engine.process(batch(symbol=["IBM", None], ts=[12, 12]))
    header, arrays, strings = framing.unpack(engine.snapshot())
    assert header["parts"]["letters"]["values"] == {"counts": {"null_key": 1}}
    fresh = eq.Engine(engine.stream)
    fresh.restore(framing.pack(header, {**arrays, **strings}))
    assert fresh.stats()["dead_letters_by_reason"] == {"null_key": 1}


@pytest.mark.usefixtures("unchanged")
def test_a_snapshot_of_another_stream(engine):
    other = eq.Engine(eq.Stream("quotes", key="symbol", attributes=["price"]))
    with pytest.raises(eq.SnapshotError, match=r"another stream .*name: 'quotes', here 'trades'"):
        engine.restore(other.snapshot())


@pytest.mark.parametrize(
    ("definition", "said"),
    [
        ({"attributes": []}, "no columns at all"),
        ({"attributes": "price"}, "give a list of names"),
        ({"attributes": ["x", "x"]}, "named twice"),
        ({"attributes": ["seq"]}, "name of a notice column"),
        ({"attributes": ["x"], "key": "x"}, "named twice"),
        ({"attributes": ["x"], "key": "k", "time": "k"}, "key and time at once"),
        ({"attributes": ["x"], "grace": 5}, "grace needs a time column"),
        ({"attributes": ["x"], "time": "t", "grace": -1}, "must be positive"),
        ({"attributes": ["x"], "time": "t", "expire_after": 0}, "must be positive"),
        ({"attributes": ["x"], "time": "t", "grace": "1x"}, "'x' is no unit of time"),
        ({"attributes": ["x"], "time": "t", "expire_after": "P1Y"}, "no fixed length"),
        ({"attributes": [f"x{i}" for i in range(61)]}, "the limit is 60"),
        ({"attributes": [""]}, "not a name"),
    ],
)
def test_bad_streams(definition, said):
    with pytest.raises(eq.InvalidStreamError, match=said):
        eq.Stream("s", **definition)


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda engine: engine.register(10**30), "is no standing query"),
        (lambda engine: engine.register([None]), "is no standing query"),
        (lambda engine: engine.expire(1e308), "is no string or integer"),
        (lambda engine: engine.expire(None), "is no string or integer"),
    ],
)
def test_what_is_no_query_and_no_key_14(engine, call, said):
    with pytest.raises(eq.EverqueryError, match=said):
        call(engine)


@pytest.mark.parametrize("unit", ["us", "ns"])
@pytest.mark.parametrize("name", ["grace", "expire_after"])
def test_a_span_that_the_times_of_the_stream_cannot_hold_14(unit, name):
    longest = timedelta(microseconds=2**61 - 1)
    with pytest.raises(eq.InvalidStreamError, match="longer than times are"):
        eq.Stream("s", time="t", attributes=["x"], **{name: timedelta.max})
    stream = eq.Stream("s", time="t", attributes=["x"], **{name: longest})
    engine = eq.Engine(stream)
    events = pa.table({"t": pa.array([1], pa.int64()).cast(pa.timestamp(unit)), "x": [1.0]})
    if unit == "us":
        engine.process(events)
        return
    with pytest.raises(eq.InvalidBatchError, match="is longer than times of type"):
        engine.process(events)
    assert engine.stats()["events"] == 0  # and not torn


@pytest.mark.parametrize("kind", [pa.timestamp("us"), pa.timestamp("s", "UTC"), pa.date32()])
@pytest.mark.parametrize("name", ["grace", "expire_after"])
def test_a_number_is_no_span_of_timestamps(kind, name):
    events = pa.table({"t": pa.array([1], pa.int32()).cast(pa.date32()).cast(kind), "x": [1.0]})
    engine = eq.Engine(eq.Stream("s", time="t", attributes=["x"], **{name: 5}))
    with pytest.raises(eq.InvalidBatchError, match='such as "5s", or a timedelta'):
        engine.process(events)
    assert engine.stats()["events"] == 0
    engine = eq.Engine(eq.Stream("s", time="t", attributes=["x"], **{name: "2 d"}))
    engine.process(events)
    assert engine.stats()["dead_letters"] == 0
