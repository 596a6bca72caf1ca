"""What the operating system tells of this process."""

import signal
from pathlib import Path

import numpy as np
import pytest

from everquery.cli import this_process
from everquery.cli.this_process import (
    broken_off,
    clock_since_start,
    interruptible,
    peak_bytes,
    resident_bytes,
)


def test_clock_started_before_now_and_goes_on():
    clock = clock_since_start()
    first = clock()
    assert 0 < first <= clock()


def test_clock_starts_at_zero_where_the_age_is_unknown(monkeypatch):
    monkeypatch.setattr(this_process, "_STAT", Path("/no/such/file"))
    assert 0 <= clock_since_start()() < 1


def test_resident_memory_sees_an_array():
    before = resident_bytes()
    array = np.ones(8_000_000)
    assert resident_bytes() > before + array.nbytes // 2
    assert peak_bytes() >= array.nbytes


def test_peak_is_the_answer_where_nothing_else_is_known(monkeypatch):
    monkeypatch.setattr(this_process, "_STATM", Path("/no/such/file"))
    assert resident_bytes() == peak_bytes()


def test_interrupt_is_asked_for_once_and_then_raises():
    before = signal.getsignal(signal.SIGINT)
    with interruptible() as pressed:
        assert not pressed()
        signal.raise_signal(signal.SIGINT)
        assert pressed()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_what_is_broken_off_is_asked_for_afterwards():
    with interruptible() as pressed:
        noted = signal.getsignal(signal.SIGINT)
        with broken_off():
            signal.raise_signal(signal.SIGINT)
            pytest.fail("it went on")
        assert pressed()
        assert signal.getsignal(signal.SIGINT) is noted


def test_what_is_not_broken_off_is_not_asked_for():
    with interruptible() as pressed:
        with broken_off():
            pass
        assert not pressed()
