"""Texts of a table of queries: what a spec refuses, a table does."""

import pyarrow as pa
import pytest

import everquery as eq
from everquery.queries.spec import LONGEST_ID, LONGEST_KEY

STREAM = eq.Stream("trades", key="symbol", attributes=["price"])


def errors(**columns):
    engine = eq.Engine(STREAM)
    done = engine.register_table(pa.table(columns), kind="range", on_error="skip")
    assert done.registered == len(columns["id"]) - done.errors.num_rows
    return {line["id"]: line["reason"] for line in done.errors.to_pylist()}


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("owner", "", "owner is empty"),
        ("owner", "x" * (LONGEST_ID + 1), "owner is longer than 1,024 bytes"),
        ("owner", "\N{EURO SIGN}" * (LONGEST_ID // 3 + 1), "owner is longer than 1,024 bytes"),
        ("key", "x" * (LONGEST_KEY + 1), "key is longer than 1,048,576 bytes"),
    ],
    ids=["empty owner", "long owner", "long owner in bytes", "long key"],
)
def test_what_a_spec_refuses_14(column, value, reason):
    bad = errors(id=["bad", "good", "none"], **{column: [value, "fine", None]})
    assert list(bad) == ["bad"]
    assert bad["bad"].startswith(reason)
    with pytest.raises(eq.InvalidQueryError):
        eq.Range("bad", {}, **{column: value})


@pytest.mark.parametrize(
    ("column", "value"), [("owner", "x" * LONGEST_ID), ("key", ""), ("key", "x" * LONGEST_KEY)]
)
def test_what_a_spec_takes_14(column, value):
    assert errors(id=["a"], **{column: [value]}) == {}
    assert getattr(eq.Range("a", {}, **{column: value}), column) == value


def test_integer_keys_have_no_length_14():
    assert errors(id=["a"], key=[7]) == {}


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("{}", None),
        (" { } ", None),
        ('{"b":"1", "a":"\\u00e9"}', '{"a": "é", "b": "1"}'),
        ('{"a": "1", "a": "2"}', '{"a": "2"}'),
    ],
)
def test_labels_are_as_specs_write_them_and_can_be_restored_13(text, read):
    stream = eq.Stream("s", attributes=["x"])
    engine = eq.Engine(stream)
    engine.register_table(pa.table({"id": ["q"], "x_lo": [1.0], "labels": [text]}), kind="range")
    assert engine.queries()["labels"].to_pylist() == [read]
    again = eq.Engine(stream)
    again.restore(engine.snapshot())
    assert again.queries().equals(engine.queries())


@pytest.mark.parametrize("text", ["null", "7", "[]", '{"a": 1}', '{"a": ""}', "{"])
def test_what_is_no_object_of_strings_is_no_labels_13(text):
    engine = eq.Engine(eq.Stream("s", attributes=["x"]))
    table = pa.table({"id": ["q"], "x_lo": [1.0], "labels": [text]})
    with pytest.raises(eq.InvalidTableError, match="labels is not a JSON object of strings"):
        engine.register_table(table, kind="range")
