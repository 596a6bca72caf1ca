"""Forged snapshots: a `SnapshotError`, or an engine with which nothing can go wrong."""

import pytest

import everquery as eq
from tests.attack import snapshots
from tests.attack.harness import attack, rounds


def test_a_forged_snapshot_is_refused_or_harmless():
    outcome = attack(snapshots.make_snapshots, snapshots.forge, snapshots.judge, rounds(150), 1)
    outcome.check()
    assert outcome.counts["refused"] > 0
    assert outcome.counts["restored"] > 0


@pytest.mark.parametrize("thing", [None, "text", 7, [b"x"], object()])
def test_what_is_no_bytes_is_no_snapshot(thing):
    engine = eq.Engine(snapshots.STREAMS[0])
    with pytest.raises(eq.SnapshotError, match="a snapshot is bytes"):
        engine.restore(thing)
