"""Which queries are taken out, how many at most, and what a shard remembers of it."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import everquery as eq
from everquery.kinds.range.index import RangeIndex
from everquery.queries.changes import Deregister, Register
from everquery.registry.quarantined import Quarantined, as_json, from_json
from everquery.sharding import quarantine
from everquery.sharding.journal import MemoryStore
from everquery.sharding.live import forget_live
from everquery.sharding.quarantine import HeldOut, Quarantine
from tests.unit.sharding.test_operator import OneShard, told


@pytest.fixture(autouse=True)
def _alone(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    forget_live()


@pytest.fixture
def poison(monkeypatch):
    """Let ranges whose box begins at a number of a set make the index raise."""
    plain = RangeIndex.process
    numbers = {13.0}

    def process(self, step):
        for rows in self.rows(step.flags):
            if np.isin(rows.low[0], list(numbers)).any():
                raise ZeroDivisionError("a bad box")
        return plain(self, step)

    monkeypatch.setattr(RangeIndex, "process", process)
    return numbers


def ranges(*numbers, name="q"):
    return Register(tuple(eq.Range(f"{name}{i}", {"price": (float(i), 100.0)}) for i in numbers))


EVENT = ("IBM", 1, 50.0, "x")


def search(bad, new, old, *, already=0):
    """Search where some queries fail, each by itself; return what was found and the rehearsals."""
    rehearsals = []

    def rehearse(left_out):
        rehearsals.append(left_out)
        failing = [name for name in (*new, *old) if name in bad and name not in left_out]
        if failing:
            raise ZeroDivisionError(failing[0])

    error = ZeroDivisionError("all")
    found = Quarantine(error, rehearse, already=already).culprits(
        [("range", name) for name in new], lambda: [("range", name) for name in old]
    )
    return [name for _, name in found], len(rehearsals)


def test_a_few_are_found_among_many():
    names = [f"q{i}" for i in range(1_000)]
    found, rehearsals = search({"q3", "q700"}, [], names)
    assert sorted(found) == ["q3", "q700"]
    assert rehearsals < 60


@pytest.mark.parametrize("side", ["new", "old"])
def test_more_than_a_few_are_no_fault_of_theirs_14(side):
    names = [f"q{i}" for i in range(4_000)]
    new, old = (names, []) if side == "new" else ([], names)
    with pytest.raises(ZeroDivisionError, match="all") as told:
        search(set(names), new, old)
    (note,) = told.value.__notes__
    assert "more than 5 queries fail, each by itself" in note
    assert "no query is quarantined" in note


def test_what_happens_without_any_query_is_ours_14():
    def rehearse(left_out):
        raise ZeroDivisionError("always")

    error = ZeroDivisionError("all")
    with pytest.raises(ZeroDivisionError) as told:
        Quarantine(error, rehearse).culprits([("range", "q")], lambda: [("range", "r")])
    assert told.value is error
    assert "it happens without any query, too" in error.__notes__[0]


def test_what_no_query_causes_by_itself_is_raised_14():
    def rehearse(left_out):
        if not left_out & {"a", "b"}:
            raise ZeroDivisionError("together")

    with pytest.raises(ZeroDivisionError) as told:
        Quarantine(ZeroDivisionError("all"), rehearse).culprits(
            [("range", "a"), ("range", "b")], list
        )
    assert "no query causes it by itself" in told.value.__notes__[0]


def test_not_more_than_so_many_in_all_14():
    assert search({"q"}, ["q"], [], already=quarantine.MOST_IN_ALL - 1)[0] == ["q"]
    with pytest.raises(ZeroDivisionError) as told:
        search({"q"}, ["q"], [], already=quarantine.MOST_IN_ALL)
    assert "50 queries of this shard are quarantined already" in told.value.__notes__[0]


def test_an_error_of_ours_does_not_empty_the_query_set_14(poison):
    poison.clear()
    shard = OneShard()
    shard.run(ranges(*range(20)), rows=[EVENT])
    poison.update(float(i) for i in range(20))
    before = dict(shard.store)
    with pytest.raises(ZeroDivisionError):
        shard.run(rows=[("IBM", 2, 50.0, "x")])
    assert dict(shard.store) == before  # nothing was written
    poison.clear()
    assert len(told(shard.run(rows=[("IBM", 2, 50.0, "x")]))) == 20


def test_what_is_out_is_remembered_and_told_again_14(poison):
    shard = OneShard()
    first = shard.run(ranges(12, 13, 14), rows=[EVENT])
    expected = (Quarantined("q13", "range", "ZeroDivisionError: a bad box", 3),)
    assert first.held_out == expected
    kept = shard.run(rows=[("IBM", 2, 50.0, "x")])
    assert (kept.found, kept.held_out) == ("kept", expected)
    forget_live()
    assert shard.run(rows=[("IBM", 3, 50.0, "x")]).held_out == expected
    # Dropped and registered again, it is given back, and if it still fails, taken out again.
    again = Deregister(pa.array(["q13"]))
    output = shard.run(again, ranges(13), rows=[("IBM", 4, 50.0, "x")])
    assert output.held_out == (expected[0]._replace(position=5),)
    poison.clear()
    output = shard.run(again, ranges(13), rows=[("IBM", 5, 50.0, "x")])
    assert output.held_out == ()
    assert sorted(name for name, _, _ in told(output)) == ["q12", "q13", "q14"]
    forget_live()
    assert shard.run(rows=[("IBM", 6, 50.0, "x")]).held_out == ()
    assert shard.run(rows=[("IBM", 7, 50.0, "x")]).held_out is None  # without a look at the cell


def test_a_query_that_is_refused_from_the_start_is_listed_too_14():
    shard = OneShard()
    shard.job = replace(shard.job, key_type=pa.string())
    output = shard.run(Register((eq.Range("r", {}, key=7),)), rows=[EVENT])
    (query,) = output.held_out
    assert (query.id, query.failed) == ("r", False)
    assert HeldOut(shard.store).failed == 0
    assert shard.run(Deregister(pa.array(["r"]))).held_out == ()


def test_the_list_has_an_end_14(monkeypatch):
    monkeypatch.setattr(quarantine, "MOST_LISTED", 3)
    held_out = HeldOut(MemoryStore())
    held_out.add({("range", f"q{i}"): "x" * 999 for i in range(9)}, 1, failed=False)
    held_out.add({("range", "bad"): "y"}, 1, failed=True)
    assert [query.id for query in held_out.all()] == ["q0", "q1", "q2", "bad"]
    assert len(held_out.all()[0].reason) == quarantine.LONGEST_REASON
    assert from_json(as_json(held_out.all())) == list(held_out.all())
