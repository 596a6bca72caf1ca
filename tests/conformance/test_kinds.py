"""The checks that every kind of query passes on every runtime.

A kind is discovered from `everquery.kinds.KINDS`, and its package brings the twin and strategies;
so does the toy, which is defined beside these tests.
"""

import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import everquery as eq
from everquery.kinds import KINDS
from everquery.testing import assert_unique_ids, notices_of
from everquery.testing.strategies import histories, queries
from tests.conformance.histories import (
    assert_same,
    ends_of,
    in_one_shard,
    play,
    play_notices,
    play_twin,
    rows_by_key,
    without_changes,
)
from tests.conformance.toy.kind import KIND as TOY

SPECS = [*(kind.spec for kind in KINDS.values()), TOY.spec]
KIND_SETS = [*([spec] for spec in SPECS), SPECS]

every_kind = pytest.mark.parametrize(
    "kinds", KIND_SETS, ids=lambda kinds: "+".join(kind.kind for kind in kinds)
)
cuts = st.lists(st.integers(0, 30), max_size=6)


@every_kind
@given(data=st.data())
def test_equals_brute_force(kinds, new_runner, data):
    history = data.draw(histories(kinds, steps=hasattr(new_runner, "advance")))
    ends = ends_of(history, new_runner, data.draw(cuts))
    runner = new_runner(history.stream)
    wanted, twin = play_twin(history, ends)
    assert_same(play_notices(history, runner, ends), wanted, in_one_shard=in_one_shard(new_runner))
    refused = {}
    for _, reason in twin.refused:
        refused[reason] = refused.get(reason, 0) + 1
    stats = runner.stats()
    assert stats["dead_letters_by_reason"] == refused
    if "partial" in stats:  # else what runs it counts elsewhere
        assert (stats["partial"], stats["partial_by_column"]) == (
            twin.partial,
            twin.partial_by_column,
        )
    assert sorted(runner.dead_letters()["reason"].to_pylist()) == sorted(
        reason for _, reason in twin.refused
    )


@every_kind
@given(data=st.data())
def test_batches_are_invisible(kinds, new_runner, data):
    history = data.draw(histories(kinds, in_order=True, steps=hasattr(new_runner, "advance")))
    one = play(history, new_runner(history.stream), [])
    many = play(history, new_runner(history.stream), data.draw(cuts))
    each = play(history, new_runner(history.stream), list(range(len(history.events))))
    one = without_changes(one, history)
    for other in (without_changes(many, history), without_changes(each, history)):
        assert_same(
            notices_of(other, history.stream),
            notices_of(one, history.stream),
            in_one_shard=in_one_shard(new_runner),
        )
        assert sorted(other["notice_id"].to_pylist()) == sorted(one["notice_id"].to_pylist())


@every_kind
@given(data=st.data())
def test_snapshot_and_restore_at_every_batch_change_nothing(kinds, new_runner, data):
    history = data.draw(histories(kinds, steps=hasattr(new_runner, "advance")))
    ends = ends_of(history, new_runner, data.draw(cuts))

    def restart(runner):
        fresh = new_runner(history.stream)
        fresh.restore(runner.snapshot())
        assert fresh.stats()["queries"] == runner.stats()["queries"]
        assert fresh.queries().equals(runner.queries())
        assert repr(fresh.dead_letters().to_pylist()) == repr(runner.dead_letters().to_pylist())
        return fresh

    plain = play(history, new_runner(history.stream), ends)
    restarted = play(history, new_runner(history.stream), ends, restart=restart)
    assert rows_by_key(restarted) == rows_by_key(plain)


@every_kind
@given(data=st.data())
def test_replay_is_deterministic_and_ids_are_unique(kinds, new_runner, data):
    history = data.draw(histories(kinds, steps=hasattr(new_runner, "advance")))
    ends = ends_of(history, new_runner, data.draw(cuts))
    first = play(history, new_runner(history.stream), ends)
    second = play(history, new_runner(history.stream), ends)
    assert rows_by_key(first) == rows_by_key(second)
    rows = [tuple(row.values()) for row in first.to_pylist()]
    # Telling the same twice (registered, dropped and registered again between two events) has one
    # id; different notices have different ids.
    assert len(set(first["notice_id"].to_pylist())) == len(set(rows))


@every_kind
@given(data=st.data())
def test_specs_are_frozen_picklable_and_hashable(kinds, data):
    stream = eq.Stream("s", key="k", attributes=["x", "y"])
    query = data.draw(queries(data.draw(st.sampled_from(kinds)), "q", stream))
    copy = pickle.loads(pickle.dumps(query))
    assert copy == query
    assert hash(copy) == hash(query)
    with pytest.raises(AttributeError):
        query.id = "other"


def test_ids_of_a_plain_run_are_unique(new_runner):
    stream = eq.Stream("s", key="k", attributes=["x"])
    runner = new_runner(stream)
    runner.register([eq.Range(f"r{i}", {"x": (i, i + 5)}) for i in range(20)])
    runner.register([eq.Border(f"b{i}", {"x": (i, i + 5)}) for i in range(20)])
    rng = np.random.default_rng(0)
    batch = pa.table({"k": rng.choice(["a", "b"], 1_000), "x": rng.uniform(-2, 30, 1_000)})
    notices = runner.process(batch)
    assert notices.num_rows > 4_000
    assert_unique_ids(notices)
