"""Spans of time as people write them."""

from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everquery.core.spans import LONGEST_SPAN, LONGEST_TIMEDELTA, BadSpanError, read_span

MICROSECOND = timedelta(microseconds=1)
UNITS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}

spans = st.timedeltas(MICROSECOND, LONGEST_TIMEDELTA - MICROSECOND)


class TestTexts:
    @pytest.mark.parametrize(
        ("text", "span"),
        [
            ("2m", timedelta(minutes=2)),
            ("2min", timedelta(minutes=2)),
            ("1h30m", timedelta(minutes=90)),
            (" 1 h 30 min ", timedelta(minutes=90)),
            ("1 hour 30 minutes", timedelta(minutes=90)),
            ("1.5h", timedelta(minutes=90)),
            ("250ms", timedelta(milliseconds=250)),
            ("7us", timedelta(microseconds=7)),
            ("7µs", timedelta(microseconds=7)),
            ("7μs", timedelta(microseconds=7)),
            ("0.000001s", timedelta(microseconds=1)),
            ("1w2d", timedelta(days=9)),
            ("1d", timedelta(hours=24)),
            ("PT90S", timedelta(seconds=90)),
            ("P1DT2H", timedelta(days=1, hours=2)),
            ("P2W", timedelta(weeks=2)),
            ("PT0.5S", timedelta(milliseconds=500)),
            ("PT1,5M", timedelta(seconds=90)),
        ],
    )
    def test_are_read_exactly(self, text, span):
        assert read_span(text) == span

    @pytest.mark.parametrize("text", ["20", " 20 ", "2.5", ".5", "1e3"])
    def test_of_a_number_are_that_number(self, text):
        assert read_span(text) == float(text)

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("5x", "'x' is no unit of time"),
            ("", "it is empty"),
            ("  ", "it is empty"),
            ("-2m", "must be positive"),
            ("0s", "must be positive"),
            ("0", "must be positive"),
            ("1h30", "'30' has no unit"),
            ("30m1h", "'h' must stand before shorter units"),
            ("1m1min", "'min' must stand before shorter units"),
            ("h", "it is no span of time"),
            ("1h!", "it is no span of time"),
            ("1..5h", "it is no span of time"),
            ("0x10s", "'x' is no unit"),
            ("٣s", "it is no span of time"),
            ("3mo", "months and years have no fixed length"),
            ("1y", "months and years have no fixed length"),
            ("5M", "a minute is m"),
            ("P1M", "months and years have no fixed length"),
            ("P1Y2D", "months and years have no fixed length"),
            ("P", "no duration of ISO 8601"),
            ("PT", "no duration of ISO 8601"),
            ("P1DT", "no duration of ISO 8601"),
            ("PT5", "no duration of ISO 8601"),
            ("P-1D", "no duration of ISO 8601"),
            ("0.5us", "not a whole number of microseconds"),
            ("1.0000001s", "not a whole number of microseconds"),
            (f"1.{'0' * 40}1s", "not a whole number of microseconds"),
            ("0.10000000000000000001", "float64 can't hold it"),
            ("99999999999d", "longer than times are"),
            ("1e300", "longer than times are"),
            ("1e999", "longer than times are"),
            ("nan", "it is no span of time"),
            ("inf", "it is no span of time"),
            ("9" * 5_000, "5,000 letters"),
        ],
    )
    def test_that_are_no_span_are_refused_with_a_reason(self, text, reason):
        with pytest.raises(BadSpanError, match=reason):
            read_span(text)

    @pytest.mark.parametrize("text", ["5x", "", "1h30", "P1M", "h"])
    def test_the_refusal_shows_what_is_accepted(self, text):
        with pytest.raises(BadSpanError, match='"1h30m"'):
            read_span(text)

    @given(spans)
    def test_reads_what_is_written_in_units(self, span):
        seconds, below = divmod(span // MICROSECOND, 10**6)
        pieces = []
        for unit, size in UNITS.items():
            count, seconds = divmod(seconds, size)
            pieces += [f"{count}{unit}"] * (count > 0)
        pieces += [f"{below}us"] * (below > 0)
        assert read_span("".join(pieces)) == span
        assert read_span(" ".join(pieces)) == span

    @given(spans)
    def test_reads_what_is_written_in_iso_8601(self, span):
        seconds = f"{span.seconds}.{span.microseconds:06}"
        assert read_span(f"P{span.days}DT{seconds}S") == span

    @given(st.text(max_size=20))
    def test_any_text_is_a_span_or_refused(self, text):
        try:
            span = read_span(text)
        except BadSpanError:
            return
        assert span > timedelta(0) if isinstance(span, timedelta) else 0 < span < LONGEST_SPAN


class TestObjects:
    @given(st.one_of(spans, st.integers(1, LONGEST_SPAN - 1), st.floats(1e-9, 1e18)))
    def test_spans_stay_as_they_are(self, span):
        assert read_span(span) == span
        assert type(read_span(span)) is type(span)

    @given(spans)
    def test_numpy_s_spans_are_timedeltas(self, span):
        assert read_span(np.timedelta64(span)) == span

    def test_coarser_and_finer_spans_of_numpy(self):
        assert read_span(np.timedelta64(3, "D")) == timedelta(days=3)
        assert read_span(np.timedelta64(3_000, "ns")) == timedelta(microseconds=3)
        assert read_span(np.timedelta64(3, "15m")) == timedelta(minutes=45)

    def test_spans_of_pandas_are_timedeltas(self):
        pandas = pytest.importorskip("pandas")
        assert type(read_span(pandas.Timedelta("90s"))) is timedelta
        assert read_span(pandas.Timedelta("90s")) == timedelta(seconds=90)
        for bad in (pandas.Timedelta(1, "ns"), pandas.NaT):
            with pytest.raises(BadSpanError):
                read_span(bad)

    def test_numbers_of_numpy_are_numbers(self):
        assert type(read_span(np.int32(5))) is int
        assert type(read_span(np.float32(2.5))) is float

    @pytest.mark.parametrize(
        "given",
        [
            *(0, -1, -0.5, float("nan"), float("inf"), LONGEST_SPAN, True, None, b"5s", [5], 5j),
            *(timedelta(0), -MICROSECOND, LONGEST_TIMEDELTA, timedelta.max),
            *(np.timedelta64("NaT"), np.timedelta64(1, "M"), np.timedelta64(1), np.bool_(True)),
            *(np.timedelta64(1, "ns"), np.timedelta64(2**62, "W"), np.timedelta64(-5, "s")),
        ],
    )
    def test_what_is_no_span_is_refused(self, given):
        with pytest.raises(BadSpanError):
            read_span(given)

    def test_no_length_where_it_is_allowed(self):
        assert read_span(0, zero=True) == 0
        assert read_span("0s", zero=True) == timedelta(0)
        with pytest.raises(BadSpanError, match="positive"):
            read_span(-1, zero=True)
