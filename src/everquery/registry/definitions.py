"""Stream definitions as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from everquery.stream import Stream


def stream_as_json(stream: Stream) -> str:
    """Return a stream's definition as JSON."""
    values: dict[str, Any] = asdict(stream)
    for span in ("grace", "expire_after"):
        if isinstance(values[span], timedelta):
            values[span] = {"microseconds": values[span] // timedelta(microseconds=1)}
    return json.dumps(values, sort_keys=True)


def stream_of_json(definition: str) -> Stream:
    """Return the stream of a definition."""
    values: dict[str, Any] = json.loads(definition)
    for span in ("grace", "expire_after"):
        if isinstance(values[span], dict):
            values[span] = timedelta(**values[span])
    return Stream(values.pop("name"), **values)
