"""Streams: what can not be is refused."""

import pytest

import everquery as eq


def test_spans_and_names_that_can_not_be():
    with pytest.raises(eq.InvalidStreamError, match="longer than times are"):
        eq.Stream("s", time="t", attributes=["x"], grace=10**30)
    with pytest.raises(eq.InvalidStreamError, match="name of a notice column"):
        eq.Stream("s", attributes=["position"])
