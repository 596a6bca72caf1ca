"""The harness itself: what it must notice, it notices."""

import os
import random
import time

import pytest

from tests.attack.harness import attack


@pytest.fixture(autouse=True)
def own_seeds(monkeypatch):
    """Seeds are those of these tests, also where a long run begins with others."""
    monkeypatch.delenv("EVERQUERY_ATTACK_SEED", raising=False)


def number():
    return 0


def drawn(given, chance):
    return chance.randrange(100) if given == 0 else given


def is_fine(value):
    return "low" if value < 50 else "high"


def dies(value):
    if value > 80:
        os.abort()
    return "lives"


def hangs(value):
    if value > 80:
        time.sleep(60)
    return "lives"


def takes(value):
    return str(bool(bytearray((value > 80) << 36)))


def raises(value):
    if value > 80:
        raise ValueError("too high")
    return "lives"


def test_what_a_judge_says_is_counted():
    outcome = attack(number, drawn, is_fine, 40, 7)
    assert outcome.failures == {}
    assert outcome.counts.total() == 40
    assert set(outcome.counts) == {"low", "high"}
    outcome.check()


@pytest.mark.parametrize(
    ("judge", "told"),
    [(dies, "died with -6"), (hangs, "it hangs"), (takes, "MemoryError"), (raises, "too high")],
)
def test_what_must_not_be_is_a_failure_with_its_seed(judge, told):
    outcome = attack(number, drawn, judge, 12, 20, hang_seconds=1)
    bad = {seed for seed in range(20, 32) if random.Random(seed).randrange(100) > 80}
    assert bad
    assert outcome.failures.keys() == bad
    assert all(told in what for what in outcome.failures.values())
    with pytest.raises(AssertionError, match=f"seed {min(bad)}: "):
        outcome.check()
