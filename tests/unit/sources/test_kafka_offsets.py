"""How far batches go, and whether offsets still mean what they did."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everquery.errors import RecordsLostError
from everquery.sources.kafka_client import TopicSpan
from everquery.sources.kafka_offsets import (
    Offsets,
    check_same_topics,
    end_of_batch,
    most_behind,
    spans_between,
    waiting,
)

IDS = {"trades": "one"}


def offsets(*following, ids=IDS):
    return Offsets({("trades", number): offset for number, offset in enumerate(following)}, ids)


def test_offsets_travel_as_json():
    known = Offsets({("b", 10): 7, ("a", 2): 5}, {"a": "x", "b": ""}, {("b", 10): 3})
    assert Offsets.from_json(known.to_json()) == known
    assert known.to_json()["offsets"] == {"a": {"2": 5}, "b": {"10": 7}}


def test_spans_are_by_topic_and_partition():
    end = Offsets({("b", 0): 4, ("a", 10): 9, ("a", 9): 2}, {})
    start = Offsets({("b", 0): 4, ("a", 10): 7, ("a", 9): 0}, {})
    assert spans_between(start, end) == [TopicSpan("a", 9, 0, 2), TopicSpan("a", 10, 7, 9)]


def test_a_new_partition_begins_where_it_began_when_it_was_found():
    end = Offsets({("trades", 0): 4, ("trades", 1): 9, ("trades", 2): 2}, IDS, {("trades", 1): 5})
    spans = [TopicSpan("trades", 1, 5, 9, "one"), TopicSpan("trades", 2, 0, 2, "one")]
    assert spans_between(offsets(4), end) == spans


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1), st.integers(1, 100))
def test_batches_get_to_the_end(sizes, most):
    start = offsets(*(begin for begin, _ in sizes))
    latest = offsets(*(begin + size for begin, size in sizes))
    while waiting(start, latest):
        end = end_of_batch(start, latest, most)
        assert all(start.of(place) <= last <= latest.of(place) for place, last in end.next.items())
        assert 0 < waiting(start, end) <= most + len(sizes)
        start = end
    assert end_of_batch(start, latest, most) == latest


def test_how_far_behind():
    assert most_behind(offsets(5, 9).to_json(), offsets(7, 19, 3).to_json()) == 10
    assert most_behind(offsets().to_json(), offsets().to_json()) == 0


@pytest.mark.parametrize(
    ("latest", "message"),
    [
        (offsets(9, 9, ids={"trades": "two"}), "'trades' was deleted and made anew"),
        (offsets(9), "partition 1 of topic 'trades' is gone"),
        (offsets(9, 3), "partition 1 of topic 'trades' ends at offset 3, .* read up to 5"),
        (offsets(ids={"quotes": "x"}), "'trades', which is not read any more"),
    ],
)
def test_offsets_that_mean_nothing(latest, message):
    with pytest.raises(RecordsLostError, match=f"{message}.*Begin a new checkpoint"):
        check_same_topics(offsets(5, 5), latest)


def test_offsets_of_the_same_topics():
    check_same_topics(offsets(5, 5), offsets(5, 6, 7))
    check_same_topics(offsets(5, 5), offsets(5, 6, ids={"trades": ""}))  # an older server
