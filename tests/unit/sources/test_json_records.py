"""Values of records as events: in bulk or one by one, the same; one record is one event."""

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import everquery as eq
from everquery.errors import InvalidStreamError
from everquery.sources import json_records
from everquery.sources.json_records import JsonRecords
from everquery.state.events import UNREADABLE

STREAM = eq.Stream("trades", key="symbol", time="ts", attributes=["price"], weight="shares")
SCHEMA = pa.schema(
    [
        ("symbol", pa.string()),
        ("ts", pa.timestamp("us", "UTC")),
        ("price", pa.float64()),
        ("shares", pa.int64()),
        ("venue", pa.string()),
        ("day", pa.date32()),
        ("fee", pa.decimal128(10, 2)),
        ("local", pa.timestamp("us")),
        ("fine", pa.bool_()),
    ]
)
EVENT = {"symbol": "IBM", "ts": "2026-01-05T09:30:00Z", "price": 45.5, "shares": 3}
GOOD = json.dumps(EVENT).encode()
LOST = dict.fromkeys(SCHEMA.names) | {UNREADABLE: [("symbol", "a record")]}
MANY = 3 * json_records.FEW


def one_by_one(values, zone="UTC"):
    records = JsonRecords(STREAM, SCHEMA, zone)
    return [row for value in values for row in rows_of(records.read([value]))]


def rows_of(table):
    """Return rows in which what could not be read is a list, empty or not."""
    return [{**row, UNREADABLE: row[UNREADABLE] or []} for row in table.to_pylist()]


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"symbol": None},
        {"symbol": ""},
        {"symbol": "\N{SNOWMAN}"},
        {"ts": "2026-01-05T09:30:00.123456+01:00"},
        {"ts": "2026-01-05T09:30:00.1234567Z"},
        {"ts": "2026-01-05 09:30:00"},
        {"ts": "2026-03-08 02:30:00"},  # there is no such time in New York
        {"ts": "2026-11-01 01:30:00"},  # and this one twice
        {"ts": "2026-01-05"},
        {"ts": "2026-01-05T09:30Z"},
        {"ts": "2026-01-05T09+01:00"},
        {"ts": "tomorrow"},
        {"ts": 1767605400},
        {"ts": None},
        {"price": 9007199254740993},
        {"price": 2**53},
        {"price": "45.5"},
        {"price": float("nan")},
        {"price": float("inf")},
        {"price": None},
        {"shares": 3.0},
        {"shares": 2**63},
        {"venue": "N"},
        {"venue": 1.5},
        {"venue": {"a": [1, None]}},
        {"day": "2026-01-05"},
        {"day": "2026-01-05T09:30:00"},
        {"day": "2026-02-30"},
        {"fee": 1.25},
        {"fee": 1.255},
        {"fee": "1.25"},
        {"fee": 1e10},
        {"local": "2026-01-05T09:30:00"},
        {"local": "2026-01-05T09:30:00Z"},
        {"fine": True},
        {"fine": 1},
        {"other": [{"price": 1}, "}\\n{"]},
    ],
    ids=str,
)
def test_in_bulk_as_one_by_one(more, zone):
    value = json.dumps({**EVENT, **more}).encode()
    values = [GOOD] * MANY + [value] * MANY
    table = JsonRecords(STREAM, SCHEMA, zone).read(values)
    assert table.column_names == [*SCHEMA.names, UNREADABLE]
    assert [field.type for field in table.schema][:-1] == SCHEMA.types
    expected = one_by_one([GOOD], zone) * MANY + one_by_one([value], zone) * MANY
    assert repr(rows_of(table)) == repr(expected)


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b" ",
        b"\n",
        b"null",
        b"17",
        b"gibberish",
        b"[" + GOOD + b"]",
        GOOD + GOOD,
        GOOD + b"\n" + GOOD,
        GOOD + b" " + GOOD,
        GOOD + b",",
        GOOD[:-1],
        GOOD[1:],
        GOOD.replace(b"IBM", b"IB\xe9"),
        GOOD.replace(b"IBM", b"IB\x01"),
        GOOD.replace(b"45.5", b"045.5"),
        b"\xef\xbb\xbf" + GOOD,
        GOOD.decode().encode("utf-16"),
        b'{"a": ' + b"[" * 100_000,
        b"{1: 2}",
    ],
)
def test_what_is_no_object_is_one_event_that_is_refused(value):
    values = [GOOD] * MANY + [value] + [GOOD] * MANY
    rows = rows_of(JsonRecords(STREAM, SCHEMA).read(values))
    assert rows[MANY] == LOST
    assert rows[:MANY] == rows[MANY + 1 :] == one_by_one([GOOD]) * MANY


def test_objects_over_several_lines_are_read():
    pretty = json.dumps(EVENT, indent=2).encode()
    padded = b"\r\n\t" + GOOD + b"\n"
    rows = rows_of(JsonRecords(STREAM, SCHEMA).read([GOOD] * MANY + [pretty, padded] * MANY))
    assert rows == one_by_one([GOOD]) * 3 * MANY


def test_tombstones_do_not_slow_down_the_others(monkeypatch):
    monkeypatch.setattr(JsonRecords, "_one_by_one", None)
    rows = rows_of(JsonRecords(STREAM, SCHEMA).read([GOOD, None] * MANY))
    assert rows[1::2] == [LOST] * MANY
    assert rows[::2] == rows[:1] * MANY


def test_nothing_is_no_event():
    assert JsonRecords(STREAM, SCHEMA).read([]).num_rows == 0


def test_what_is_unread_is_told_of_the_streams_columns_only():
    value = json.dumps({**EVENT, "price": "high", "fee": "none", "ts": {"at": 1}}).encode()
    (row,) = rows_of(JsonRecords(STREAM, SCHEMA).read([value]))
    assert dict(row[UNREADABLE]) == {"price": "high", "ts": '{"at":1}'}
    assert row["fee"] is None


def test_a_type_that_is_not_read_is_refused():
    with pytest.raises(InvalidStreamError, match="'price' has type list"):
        JsonRecords(STREAM, pa.schema([("price", pa.list_(pa.int64()))]))


@given(
    st.lists(
        st.one_of(
            st.none(),
            st.binary(max_size=12),
            st.sampled_from([GOOD, b"{}", GOOD + b"\n", GOOD + GOOD, b"{", b"}", b"}\n{", b"{}\r"]),
        ),
        max_size=12,
    )
)
def test_whatever_comes_one_record_is_one_event(values):
    records = JsonRecords(STREAM, SCHEMA)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(json_records, "FEW", 1)
        halved = rows_of(records.read(values))
    assert halved == one_by_one(values)
