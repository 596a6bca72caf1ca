"""What the Java side of the rivals is given; Java itself is not started."""

import numpy as np
import pytest
from benchmarks.harness import Scale
from benchmarks.rivals.jvm.java import write
from benchmarks.rivals.jvm.subject import SINGLE, counted, joined, our_seconds, part
from benchmarks.rivals.work import Borders, Ranges, Thresholds

QUICK = Scale(quick=True)


@pytest.mark.parametrize("kind", [Borders, Ranges, Thresholds])
def test_expected_counts_are_those_of_the_engine(kind):
    work = kind(QUICK, 150)
    batches = [work.take(SINGLE) for _ in range(3)]
    told = counted(work, batches)
    assert told[-1] > 0
    seconds = our_seconds(work, batches, told)  # raises where counts differ
    assert set(seconds) == {"everquery", "everquery, one", "everquery, push, one"}


def test_columns_are_written_as_numbers_of_eight_bytes(tmp_path):
    work = Borders(QUICK, 40)
    first, batches = work.first(), [work.take(50) for _ in range(2)]
    events = joined([first, *batches])
    write(tmp_path, work, len(first), events, counted(work, batches))
    assert np.fromfile(tmp_path / "low", "<f8").tolist() == work.low.tolist()
    assert np.fromfile(tmp_path / "with", "<i8").tolist() == events.key.tolist()
    assert np.fromfile(tmp_path / "first", "<i8").tolist() == [work.keys]
    assert (tmp_path / "told").stat().st_size == 8 * (len(events) + 1)


def test_a_part_is_one_event():
    events = Thresholds(QUICK, 10).take(5)
    one = part(events, 3)
    assert (one.value.tolist(), one.weight.tolist()) == ([events.value[3]], [events.weight[3]])
