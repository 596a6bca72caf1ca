"""A stream's definition in saved state: written as plain values, and compared when it is read.

State depends on the columns of a stream, and not on its spans: those may have been altered since.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from everquery.core.invariants import refuse
from everquery.stream import ALTERABLE, ROLES, Stream


def stream_header(stream: Stream) -> dict[str, Any]:
    """Return a stream's definition as plain values."""
    values = asdict(stream)
    for span in ALTERABLE:
        if isinstance(values[span], timedelta):
            values[span] = {"microseconds": values[span] // timedelta(microseconds=1)}
    return {name: list(value) if name == "attributes" else value for name, value in values.items()}


def stream_of(header: Mapping[str, Any]) -> Stream:
    """Return the stream whose definition `stream_header` gave; raise if there can't be one."""
    values = dict(header)
    try:
        for span in ALTERABLE:
            if isinstance(values.get(span), dict):
                values[span] = timedelta(microseconds=values[span]["microseconds"])
        return Stream(**values)
    except (TypeError, ValueError, LookupError, OverflowError) as error:
        refuse(f"its stream can't be ({str(error)[:80]})")


def misfit(header: dict[str, Any], stream: Stream) -> str:
    """Return why state of a stream with this header can't be state of a stream; empty if it can."""
    ours = stream_header(stream)
    if all(ours[role] == header.get(role) for role in ROLES):
        return ""
    before, now = header.get("attributes"), ours["attributes"]
    if (
        isinstance(before, list)
        and now[: len(before)] == before
        and all(ours[role] == header.get(role) for role in ROLES if role != "attributes")
    ):
        added = ", ".join(map(repr, now[len(before) :]))
        return (
            f"it is from before {added} was added to stream {stream.name!r}, and knows no values of"
            " that. Begin without it: the queries are in the registry, and what they remember"
            " begins anew; or go on with the stream as it was"
        )
    return f"it is of another stream ({differences(header, stream)})"


def differences(header: dict[str, Any], stream: Stream) -> str:
    """Return in what a stream's header and a stream differ; empty if in nothing."""
    ours = stream_header(stream)
    different = [name for name in ours if ours[name] != header.get(name)]
    return "; ".join(f"{name}: {header.get(name)!r}, here {ours[name]!r}" for name in different)
