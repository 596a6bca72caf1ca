"""Why events are refused, in words: for the documentation. `REASONS` in events.py has the codes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Refusal:
    """A reason for which an event becomes a dead letter.

    Attributes
    ----------
    meaning : str
        What is wrong with such an event.
    remedy : str
        What its sender, or the owner of the stream, can do.
    """

    meaning: str
    remedy: str


REFUSALS = {
    "null_key": Refusal(
        "The key is null.",
        "Fill it at the source. If the stream has no keys, declare it without `key`.",
    ),
    "null_time": Refusal(
        "The time is null.",
        "Fill it at the source. If the order of arrival is enough, declare the stream without"
        " `time`.",
    ),
    "inexact_attribute": Refusal(
        "An attribute is an integer or a decimal that float64 can't hold exactly: 2^53 + 1.",
        "Round it at the source, where you know how: everquery never does. Numbers that name"
        " something are keys, not attributes.",
    ),
    "bad_weight": Refusal(
        "The weight has a fraction, or is beyond 2^62 or -2^62.",
        "Weigh in a smaller unit: cents, not euros.",
    ),
    "late": Refusal(
        "The event is older than the last accepted one of its key from an earlier batch.",
        "Give the stream a `grace` as long as events may be out of order. A larger batch helps too:"
        " within a batch, order does not matter.",
    ),
    "unreadable_key": Refusal(
        "In a file or a line of JSON, the key is no value of the stream's type.",
        "`detail` has the value as it was read. Correct it at the source.",
    ),
    "unreadable_time": Refusal(
        "In a file or a line of JSON, the time is no time.",
        "`detail` has the value as it was read. Write ISO 8601, or numbers throughout.",
    ),
    "unreadable_attribute": Refusal(
        "In a file or a line of JSON, an attribute is no number.",
        "`detail` has the value as it was read. Write missing values as null or as nothing.",
    ),
    "unreadable_weight": Refusal(
        "In a file or a line of JSON, the weight is no number.",
        "`detail` has the value as it was read. Write missing values as null or as nothing.",
    ),
    "ahead": Refusal(
        "The event is further ahead than `max_ahead` allows: of the clock or, without one, of all"
        " others, and nothing has confirmed its time.",
        "Correct the clock of its sender. Where such events are right, give the stream a larger"
        " `max_ahead`.",
    ),
}
