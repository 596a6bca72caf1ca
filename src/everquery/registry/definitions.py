"""Stream definitions as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from everquery.errors import RegistryDamagedError
from everquery.registry.digests import digest_of_stream
from everquery.registry.rows import as_bytes
from everquery.stream import ALTERABLE, Stream


def stream_as_json(stream: Stream) -> str:
    """Return a stream's definition as JSON."""
    values: dict[str, Any] = asdict(stream)
    for name in ("max_ahead", "keep"):  # older versions do not know them
        if values[name] is None:
            del values[name]
    for span in ALTERABLE:
        if isinstance(values.get(span), timedelta):
            values[span] = {"microseconds": values[span] // timedelta(microseconds=1)}
    return json.dumps(values, sort_keys=True)


def stream_of_json(definition: str) -> Stream:
    """Return the stream of a definition."""
    values: dict[str, Any] = json.loads(definition)
    for span in ALTERABLE:
        if isinstance(values.get(span), dict):
            values[span] = timedelta(**values[span])
    return Stream(values.pop("name"), **values)


def stored_stream(name: object, definition: object, digest: object) -> Stream:
    """Return the stream of a row of the registry; raise if the row is not as it was written."""
    reason = ""
    if not isinstance(name, str) or not isinstance(definition, str):
        reason = "its name or its definition is no text"
    elif digest_of_stream(name, definition) != as_bytes(digest):
        reason = f"its definition is not as it was written: {definition[:500]}"
    else:
        try:
            stream = stream_of_json(definition)
            if stream.name == name:
                return stream
            reason = f"its definition is that of {stream.name!r}"
        except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError) as error:
            reason = f"its definition can't be read: {error}"
    raise RegistryDamagedError(
        f"the registry's row of stream {name!r} is damaged: {reason}. `everquery registry repair`"
        " takes it away; create the stream again as it was, and its queries are there again",
        stream=str(name),
        reason=reason,
    )
