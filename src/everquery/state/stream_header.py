"""A stream's definition in saved state: written as plain values, and compared when it is read."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import Any

from everquery.stream import SPANS, Stream


def stream_header(stream: Stream) -> dict[str, Any]:
    """Return a stream's definition as plain values."""
    values = asdict(stream)
    for span in SPANS:
        if isinstance(values[span], timedelta):
            values[span] = {"microseconds": values[span] // timedelta(microseconds=1)}
    return {name: list(value) if name == "attributes" else value for name, value in values.items()}


def differences(header: dict[str, Any], stream: Stream) -> str:
    """Return in what a stream's header and a stream differ; empty if in nothing."""
    ours = stream_header(stream)
    different = [name for name in ours if ours[name] != header.get(name)]
    return "; ".join(f"{name}: {header.get(name)!r}, here {ours[name]!r}" for name in different)
