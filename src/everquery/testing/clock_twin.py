"""The brute-force answer to which events are ahead of their time: pair by pair, nothing clever."""

from __future__ import annotations

from typing import Any

from everquery.stream import Stream
from everquery.testing.notice import Event


def vouched_for(
    stream: Stream, waiting: list[Event], newest: object, keys: set[Any]
) -> tuple[list[Event], list[Event]]:
    """Return the events that are let in without a clock, and those that wait.

    Parameters
    ----------
    waiting : list of events
        In order of arrival.
    newest : number or None
        The newest time seen.
    keys : set
        Those of all events that were let in before.
    """
    order = sorted(waiting, key=lambda event: event[str(stream.time)])
    fine: list[Event] = []
    while order:
        reached = _reached(stream, order, newest)
        if not reached:
            reached = _confirmed(stream, order, keys)
        if not reached:
            break
        fine += order[:reached]
        keys = keys | {_key(stream, event) for event in order[:reached]}
        last = order[reached - 1][str(stream.time)]
        newest = last if newest is None else max(newest, last)
        order = order[reached:]
    return fine, [event for event in waiting if any(event is each for each in order)]


def _key(stream: Stream, event: Event) -> Any:  # noqa: ANN401 - whatever keys are
    return None if stream.key is None else event[stream.key]


def _reached(stream: Stream, order: list[Event], newest: Any) -> int:  # noqa: ANN401 - a number
    """Return 1 if the first event is near enough to the newest time seen, else 0."""
    return int(newest is not None and order[0][str(stream.time)] <= newest + stream.max_ahead)


def _confirmed(stream: Stream, order: list[Event], keys: set[Any]) -> int:
    """Return how many events there are up to the first that another one vouches for; 0 if none."""
    for place, event in enumerate(order):
        limit: Any = event[str(stream.time)] + stream.max_ahead
        for further, other in enumerate(order[place + 1 :], place + 1):
            if other[str(stream.time)] > limit:
                break
            known = keys | {_key(stream, each) for each in order[: further + 1]}
            if _key(stream, other) != _key(stream, event) or len(known) == 1:
                return place + 1
    return 0
