"""Another thread, a few steps ahead."""

import threading

import pytest

from everquery.core.ahead import ahead


def test_an_error_comes_in_its_place():
    def items():
        yield 1
        raise ValueError("broken")

    found = ahead(items())
    assert next(found) == 1
    with pytest.raises(ValueError, match="broken"):
        next(found)


def test_who_stops_early_ends_the_thread_and_the_items():
    closed = threading.Event()

    def items():
        try:
            yield from range(1_000)
        finally:
            closed.set()

    found = ahead(items(), depth=1)
    assert next(found) == 0
    found.close()
    assert closed.is_set()
    assert not [each for each in threading.enumerate() if each.name == "everquery-ahead"]


def test_no_items():
    assert list(ahead([])) == []
