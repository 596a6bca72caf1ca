"""Packed sort keys say what was packed, and refuse what would not fit."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import everquery as eq
from everquery.index import sort_keys
from everquery.index.sort_keys import (
    MOST_ROWS,
    MOST_SLOTS,
    as_notices,
    at_events,
    codes_of,
    pack_findings,
    slots_of,
    unpack_notices,
)
from everquery.kinds import KINDS
from everquery.kinds.limits import check_limits

STREAM = eq.Stream("s", key="k", time="t", attributes=["x"], grace=5)


def test_the_largest_numbers_keep_their_order_and_come_back_14():
    position = np.array([0, 1, 2 * (MOST_ROWS - 1) + 1])
    slot = np.array([0, 7, MOST_SLOTS - 1], np.int64)
    packed = pack_findings(position, slot) | 7
    assert (packed > 0).all()
    assert (np.diff(packed) > 0).all()
    assert slots_of(packed).tolist() == slot.tolist()
    assert codes_of(packed).tolist() == [7, 7, 7]
    out_slot, out_position = np.empty(3, np.int64), np.empty(3, np.int64)
    unpack_notices(as_notices(packed), out_slot, out_position)
    assert out_slot.tolist() == slot.tolist()
    assert out_position.tolist() == position.tolist()


def test_rows_become_the_positions_of_their_events():
    packed = at_events(pack_findings(np.array([0, 3, MOST_ROWS - 1]), np.array([1, 2, 3])))
    assert (packed >> sort_keys.PLACE_SHIFT).tolist() == [1, 7, 2 * MOST_ROWS - 1]


def test_a_batch_that_is_too_large_is_refused_whole_14(monkeypatch):
    monkeypatch.setattr(sort_keys, "MOST_ROWS", 4)
    engine = eq.Engine(STREAM)
    engine.register(eq.Range("all", {}))
    batch = pa.table({"k": ["a"] * 3, "t": [1, 2, 3], "x": [1.0] * 3})
    assert engine.process(batch).num_rows == 0  # all are held back
    with pytest.raises(eq.InvalidBatchError, match="has 6 events; the limit is 3"):
        engine.process(batch)
    assert engine.flush()["seq"].to_pylist() == [0, 1, 2]


def test_more_keys_than_positions_are_refused_14(monkeypatch):
    monkeypatch.setattr(sort_keys, "MOST_ROWS", 4)
    engine = eq.Engine(eq.Stream("s", key="k", attributes=["x"]))
    engine.process(pa.table({"k": ["a", "b"], "x": [1.0, 1.0]}))
    with pytest.raises(eq.InvalidBatchError, match="there may be 4 keys after this batch"):
        engine.process(pa.table({"k": ["c", "d"], "x": [1.0, 1.0]}))
    assert engine.stats()["events"] == 2


def test_a_kind_with_too_many_options_or_outcomes_is_refused_14():
    kind = KINDS["border"]
    index = type("Index", (kind.index,), {"outcomes": kind.index.outcomes * 2})
    spec = type("Spec", (kind.spec,), {})
    spec.options = tuple("abcdefghi")
    for many in (replace(kind, index=index), replace(kind, spec=spec)):
        with pytest.raises(eq.InvalidQueryError, match="a kind can have 8 o"):
            check_limits(many)


def test_more_queries_than_slots_are_refused_14(monkeypatch):
    monkeypatch.setattr(sort_keys, "MOST_SLOTS", 3)
    engine = eq.Engine(STREAM)
    engine.register([eq.Range("a", {}), eq.Range("b", {})])
    with pytest.raises(eq.InvalidQueryError, match="can hold 2; divide them"):
        engine.register(eq.Range("c", {}))
    with pytest.raises(eq.InvalidQueryError, match="can hold 2; divide them"):
        engine.register_table(pa.table({"id": ["d"]}), kind="range")
    assert engine.queries()["id"].to_pylist() == ["a", "b"]
