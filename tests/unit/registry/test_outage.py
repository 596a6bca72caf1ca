"""How often a registry in trouble is looked at, and how often that is said."""

import logging

import pytest

from everquery.errors import RegistryDamagedError, RegistryError
from everquery.registry import outage
from everquery.registry.outage import Outage


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(outage.time, "monotonic", lambda: now[0])
    return now


def test_an_answer_that_comes_at_once_is_asked_for_with_every_batch(clock):
    trouble = Outage("trades")
    assert trouble.is_over()
    trouble.note(RegistryError("refused"), 0.01)
    assert trouble.is_over()
    assert trouble.reason == "refused"
    trouble.end()
    assert trouble.reason is None


def test_who_has_to_wait_looks_less_often(clock):
    trouble = Outage("trades")
    trouble.note(RegistryError("timeout"), 10.0)
    assert not trouble.is_over()
    clock[0] += 99
    assert not trouble.is_over()
    clock[0] += 1
    assert trouble.is_over()
    trouble.note(RegistryDamagedError("a row"), 10.0)  # it has answered
    assert trouble.is_over()


def test_it_is_said_once_and_then_now_and_then(clock, caplog):
    trouble = Outage("trades")
    with caplog.at_level(logging.WARNING, "everquery.registry"):
        for _ in range(130):
            trouble.note(RegistryError("refused"), 0.0)
            clock[0] += 1
        trouble.end()
        trouble.end()
    said = [record.getMessage() for record in caplog.records]
    until = "the queries on 'trades' stay as they are until their registry is back: refused"
    assert said == [until] * 3 + ["the registry of 'trades' answers again"]
