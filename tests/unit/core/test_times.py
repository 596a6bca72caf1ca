"""Times of one type in another."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everquery.core.times import as_time, in_units_of

KINDS = [*(pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")), pa.date32(), pa.date64()]


@given(
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5),
    st.sampled_from(KINDS),
    st.sampled_from(KINDS),
)
def test_what_is_exact_comes_back(times, kind, wanted):
    if pa.types.is_date32(kind):
        times = [time % 2**20 for time in times]
    given_times = np.array(times, np.int64)
    found, bad = in_units_of(given_times, kind, wanted)
    exact = given_times[~bad]
    back, lost = in_units_of(found[~bad], wanted, kind)
    assert not lost.any()
    assert back.tolist() == exact.tolist()


@pytest.mark.parametrize(
    ("kind", "time", "wanted", "found"),
    [
        (pa.timestamp("s"), 5, pa.timestamp("ns"), 5 * 10**9),
        (pa.timestamp("ns"), -5_000, pa.timestamp("us"), -5),
        (pa.timestamp("ns"), 5_001, pa.timestamp("us"), None),
        (pa.timestamp("s"), 2**62, pa.timestamp("ms"), None),
        (pa.timestamp("s"), -(2**62), pa.timestamp("us"), None),
        (pa.date32(), 2, pa.timestamp("s"), 172_800),
        (pa.timestamp("s"), 172_800, pa.date32(), 2),
        (pa.timestamp("s"), 172_801, pa.date32(), None),
        (pa.timestamp("s"), 86_400 * 2**32, pa.date32(), None),
        (pa.date64(), 172_800_000, pa.date32(), 2),
        (pa.timestamp("us"), 7, pa.timestamp("us", "UTC"), 7),
    ],
)
def test_units(kind, time, wanted, found):
    times, bad = in_units_of(np.array([time]), kind, wanted)
    assert bad[0] == (found is None)
    if found is not None:
        assert times[0] == found
        assert as_time(times, wanted).cast(pa.string()) is not None
