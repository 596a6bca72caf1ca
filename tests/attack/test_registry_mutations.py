"""A registry whose rows are changed: an error that says so or the right answers, never a crash.

With digests as they were, every change must be found. With digests that were made anew, as by
somebody who may write to the database, rows must hold queries that could have been registered.
"""

import contextlib
import sqlite3

from everquery.errors import EverqueryError
from tests.attack import registry_rows as rows
from tests.attack.harness import attack, rounds


def with_old_digests(registry, chance):
    changed = rows.copied(registry, forged=False)
    with contextlib.suppress(sqlite3.OperationalError):  # a second change of a table that is gone
        rows.change(changed, chance)
    return changed


def with_new_digests(registry, chance):
    changed = rows.copied(registry, forged=True)
    with contextlib.suppress(sqlite3.OperationalError):
        rows.change(changed, chance)
    return changed


def judge(registry):
    """Return what came of opening a registry; whatever is raised but for our errors is raised."""
    try:
        queries, notices = rows.answers(registry.url)
    except EverqueryError as error:
        assert registry.changed, error
        assert str(error)
        return "refused"
    right = queries.equals(registry.expected[0]) and notices.equals(registry.expected[1])
    assert right or registry.forged, "other answers, and no error"
    return "right" if right else "valid"


def judge_repair(registry):
    """Repair a registry; then it must be whole, and open."""
    from everquery.engine import damaged_registry, open_registry, unreadable_streams

    judge(registry)
    opened = damaged_registry(registry.url)
    try:
        opened.find_damage()
        opened.repair()
        left = opened.find_damage()
    finally:
        opened.close()
    assert all(damage.what == "stream" for damage in left), left
    for stream in (rows.STREAM, rows.PLAIN):
        opened = open_registry(registry.url)
        opened.create_stream(stream)  # again, if it was taken away
        opened.close()
    opened = damaged_registry(registry.url)
    opened.repair()  # what of its log was damaged besides
    assert opened.find_damage() == []
    opened.close()
    assert registry.forged or unreadable_streams(registry.url) == []
    return "repaired"


def test_a_change_that_the_digests_do_not_know_is_found():
    outcome = attack(rows.make_registry, with_old_digests, judge, rounds(250), 1)
    outcome.check()
    assert outcome.counts["refused"] > outcome.counts["right"]


def test_a_change_with_new_digests_is_refused_or_valid():
    outcome = attack(rows.make_registry, with_new_digests, judge, rounds(250), 1_000_001)
    outcome.check()
    assert outcome.counts["refused"] > 0
    assert outcome.counts["valid"] > 0


def test_whatever_is_damaged_can_be_repaired():
    outcome = attack(rows.make_registry, with_old_digests, judge_repair, rounds(80), 2_000_001)
    outcome.check()


def test_whatever_is_forged_can_be_repaired():
    outcome = attack(rows.make_registry, with_new_digests, judge_repair, rounds(40), 3_000_001)
    outcome.check()
