"""How large a demo is: levels take turns, and limits end it."""

import pytest

from everquery.cli.demo.plan import Plan


@pytest.mark.parametrize("batches", [2, 3, 4, 5, 8, 100])
def test_levels_take_turns(batches):
    plan = Plan(batch_size=10, events=10 * batches - 3, seconds=None, fluctuations=(0.1, 0.2))
    levels = [plan.fluctuation(batch, 0.0) for batch in range(batches)]
    assert set(levels) == {0.1, 0.2}
    assert levels[0] == 0.1


def test_levels_take_turns_by_time():
    plan = Plan(seconds=8.0, fluctuations=(0.1, 0.2))
    assert [plan.fluctuation(0, second) for second in range(8)] == [0.1, 0.1, 0.2, 0.2] * 2


@pytest.mark.parametrize(
    ("limits", "progress"),
    [
        ({"events": None, "seconds": 20.0}, (0.25, "5.0 of 20 s")),
        ({"events": 100, "seconds": None}, (0.5, "50 of 100 events")),
        ({"events": 100, "seconds": 20.0}, (0.5, "50 of 100 events")),
        ({"events": 1_000, "seconds": 4.0}, (1.25, "4.0 of 4 s")),
        ({"events": None, "seconds": None}, (0.0, "5.0 s")),
        ({"events": None, "seconds": 0.0}, (0.0, "5.0 s")),
    ],
)
def test_progress_is_that_of_the_nearer_limit(limits, progress):
    assert Plan(**limits).progress(50, 5.0) == progress
