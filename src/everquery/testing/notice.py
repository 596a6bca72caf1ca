"""Notices as comparable objects, and events that never lead to one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from everquery.stream import Stream

Event = Mapping[str, Any]


@dataclass(frozen=True, order=True)
class Notice:
    """What a notice says, without its id.

    Two notices are equal if all of it is; the order within one event is that of registration.

    Attributes
    ----------
    query_id, event : str
    key, time : any
        As they are in the table of notices.
    seq : int
    reason : str or None
    values : tuple of float or None
        Those of the stream's attributes, in their order.
    held_back : int or None
    further : tuple of (column, value)
        What only notices of its kind have, by the name of the column, in order.
    """

    query_id: str
    event: str
    key: Any
    seq: int
    reason: str | None
    time: Any
    values: tuple[float | None, ...]
    held_back: int | None = None
    further: tuple[tuple[str, Any], ...] = ()


def unsound(event: Event, stream: Stream) -> str | None:
    """Return why an event is refused whatever came before it, or None."""
    if stream.key is not None and event[stream.key] is None:
        return "null_key"
    if stream.time is not None and event[stream.time] is None:
        return "null_time"
    for name in stream.attributes:
        value = known(event, name)
        if value is not None and float(value) != value:
            return "inexact_attribute"
    if stream.weight is not None:
        weight = known(event, stream.weight)
        if weight is not None and (math.isinf(weight) or weight != int(weight)):
            return "bad_weight"
    return None


def known(event: Event, name: str) -> Any:  # noqa: ANN401 - a number, or None
    """Return a value of an event, None where it is unknown."""
    value = event.get(name)
    return None if isinstance(value, float) and math.isnan(value) else value
