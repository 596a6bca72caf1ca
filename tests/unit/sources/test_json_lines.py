"""Reading JSON lines in bulk gives what reading them one by one gives."""

import json
import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import everquery as eq
from everquery.sources.formats import Unreadable
from everquery.sources.json_lines import JsonLines

STREAM = eq.Stream("t", key="k", time="ts", attributes=["x", "y"])

numbers = st.one_of(
    st.integers(-100, 100),
    st.sampled_from([2**53 - 1, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 10**30, -(2**53) - 1]),
    st.floats(allow_nan=False),
)
words = st.sampled_from(["", "IBM", "é🎈", 'a"b\\c\n', "2024-01-01T00:00:00Z", "7", "\ud800"])
values = st.one_of(numbers, words, st.none(), st.booleans(), st.just([1]), st.just({"x": 1}))
tame = st.fixed_dictionaries(
    {"k": st.sampled_from(["IBM", "AAPL"]), "ts": st.integers(0, 99), "x": numbers},
    optional={"y": numbers, "more": values},
)
wild = st.dictionaries(st.sampled_from(["k", "ts", "x", "y", "more"]), values)
raw = st.sampled_from(
    [
        "{}", "{} {}", '{"k": "a"} ', "[1]", "nonsense", '{"x": 1, "x": 2}', '{"x": NaN}', "",
        '{"x": 1e999}', '{"x": -0}', '{"x": 01}', '{"k": {"x":', "}}", '{"x": 1}{"x": 2}', "\ufeff",
        '{"k": "a\tb"}', '{"\\u0078": 1.5}', "{'x': 1}", '{"x": 1}\r', '{"x": 1.0, "ts": 2.0}',
    ]
)  # fmt: skip
lines = st.lists(
    st.one_of(tame.map(json.dumps), tame.map(json.dumps), wild.map(json.dumps), raw), min_size=1
)


def read(text, *, bulk):
    reader = JsonLines(STREAM, Unreadable())
    if not bulk:
        reader._in_bulk = lambda _block: None
    try:
        columns = reader.read(text.encode(), "here")
    except eq.EverqueryError as error:
        return str(error)
    found = {name: [same(v) for v in column.to_pylist()] for name, column in columns.items()}
    return found, reader.key_type, reader.line, reader._unreadable


def same(value):
    return "nan" if isinstance(value, float) and math.isnan(value) else value


@given(lines)
@example(['{"k": "a", "ts": 1, "x": 1, "y": 9007199254740993}'])
@example(['{"k": "a", "ts": 1, "x": 1}{"x": 2}', '{"k": "a", "ts":', '2, "x": 3}'])
@example(['{"k": "a", "ts": ""}'])
@example(['{"k": "a", "ts": 1, "x": 1}', '{"k": "a", "ts": 2.5, "x": 1}'])
def test_in_bulk_is_one_by_one(lines):
    for end in ("", "\n", "\r\n"):
        text = (end or "\n").join(lines) + end
        assert read(text, bulk=True) == read(text, bulk=False)


@pytest.mark.parametrize("time", ["1", "1.5", '"2024-05-01T10:00:00Z"'])
def test_usual_lines_are_read_in_bulk(time):
    line = f'{{"k": "IBM", "ts": {time}, "x": 1, "y": 0.5, "more": [1, {{"a": "b"}}]}}\n'
    reader = JsonLines(STREAM, Unreadable())
    assert reader._in_bulk(line.encode() * 3)["x"].to_pylist() == [1.0] * 3
