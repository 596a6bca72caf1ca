"""Single values, as Spark's reader takes them."""

import json
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from everquery.sources.json_values import UNFIT, instant, members_of, text_of_value


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:01Z", 1),
        ("1970-01-01 00:00:01", 1),
        ("1970-1-1 0:0:1.5", 1.5),
        ("1970-01-01T00:00:00.0000019Z", 0.000001),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01T01:00:00+0100", 0),
        ("1970-01-01T01:00:00+1", 0),
        ("1970-01-01T01:00:00UTC+1", 0),
        ("1970-01-01T01:00:00 Europe/Berlin", 0),
        ("1970-01-01T00:00", 0),
        ("1970", 0),
        ("1970-01", 0),
        (" 1970-01-01\n", 0),
        ("1970-01-01T", None),
        ("1970-01-01T00:00Z", None),
        ("1970-01-01T24:00:00", None),
        ("1970-02-30", None),
        ("197-01-01", None),
        ("00:00:01", None),
        ("1970-01-01T00:00:00+18:01", None),
        ("1970-01-01T00:00:00z", None),
        ("1970-01-01T00:00:00 Nowhere/Else", None),
        ("1970-01-01T00:00:00 ../../etc/passwd", None),
        ("", None),
        ("soon", None),
    ],
)
def test_times(text, seconds):
    found = instant(text, UTC)
    assert found is UNFIT if seconds is None else found == round(seconds * 1_000_000)


def test_a_time_that_a_zone_leaves_out_is_that_much_later():
    found = instant("2026-03-08T02:30:00", ZoneInfo("America/New_York"))
    assert found == datetime(2026, 3, 8, 7, 30, tzinfo=UTC).timestamp() * 1_000_000


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("IBM", "IBM"),
        ("\ud800", "?"),
        (17, "17"),
        (1.5, "1.5"),
        (1e7, "1.0E7"),
        (0.00025, "2.5E-4"),
        (-123456789.5, "-1.234567895E8"),
        (True, "true"),
        ({"a": [1, None, "\xe9"], "b": {}}, '{"a":[1,null,"\xe9"],"b":{}}'),
    ],
)
def test_any_value_is_a_text(value, text):
    assert text_of_value(value, json.dumps(value)) == text


def test_members():
    assert members_of(' {"a" : 1.50 , "b": [1, 2]}\n') == {
        "a": (1.5, "1.50"),
        "b": ([1, 2], "[1, 2]"),
    }
    assert members_of('{"a": 1, "a": 2}') == {"a": (2, "2")}
    assert members_of("{ }") == {}
    for text in ("", "{", '{"a"}', '{"a": }', '{"a": 1,}', '{"a": 1} 2', "[]", '{"a": 1 "b": 2}'):
        assert members_of(text) is None
