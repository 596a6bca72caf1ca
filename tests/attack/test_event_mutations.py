"""Damaged files of events and queries: an error of ours, or what can be read of them."""

from tests.attack import files
from tests.attack.harness import attack, rounds


def test_damaged_events_are_refused_or_read():
    outcome = attack(files.make_events, files.damage, files.judge, rounds(150), 1)
    outcome.check()
    assert outcome.counts["refused"] > 0
    assert outcome.counts["read"] > 0


def test_damaged_queries_are_refused_or_read():
    outcome = attack(files.make_queries, files.damage, files.judge, rounds(150), 1_000_001)
    outcome.check()
    assert outcome.counts["refused"] > 0
    assert outcome.counts["read"] > 0
