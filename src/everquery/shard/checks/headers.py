"""What the fields of a snapshot's header must be."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pyarrow as pa

from everquery.kinds import KINDS
from everquery.queries.spec import LONGEST_ID, bad_text
from everquery.shard.checks.invariants import MOST, refuse
from everquery.stream import Stream

# Counts: whole numbers from 0 on.
COUNTS = ("position", "arrived")
LATER_COUNTS = ("throttled", "undone")  # of which older snapshots have none
TIMES = ("newest", "oldest", "began")


def check_header(header: Mapping[str, Any], stream: Stream) -> None:
    """Raise if a field is missing, or is not what it must be; times come later."""
    for name in COUNTS:
        _check_count(name, header.get(name))
    for name in LATER_COUNTS:
        _check_count(name, header.get(name, 0))
    counts = _of_type(header, "counts", dict)
    for name in ("events", "notices"):
        _check_count(f"counts of {name}", counts.get(name))
    if not isinstance(header.get("hygiene", False), bool):
        refuse(f"hygiene is {header['hygiene']!r}, and not true or false")
    keys = ("string", "int64", None) if stream.key is not None else ("null",)
    if "key_type" not in header or header["key_type"] not in keys:
        refuse(f"keys have type {header.get('key_type')!r}, which can't be on this stream")
    _check_quotas(_of_type(header, "quotas", list, []))
    _check_ended(_of_type(header, "ended", list, []))
    for shape in _of_type(header, "shapes", list):
        _check_shape(shape, stream)


def _of_type(header: Mapping[str, Any], name: str, kind: type, default: Any = None) -> Any:  # noqa: ANN401 - of that type
    value = header.get(name, default)
    if not isinstance(value, kind):
        refuse(f"{name} is {_short(value)}, and not a {kind.__name__}")
    return value


def _short(value: object) -> str:
    return repr(value)[:80]


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _check_count(name: str, value: Any) -> None:  # noqa: ANN401 - it may be anything
    if not _is_whole(value) or not 0 <= value < MOST:
        refuse(f"{name} is {_short(value)}, and no count")


def _check_quotas(quotas: list[Any]) -> None:
    for each in quotas:
        if not isinstance(each, list) or len(each) != 2:
            refuse(f"{_short(each)} is no quota")
        owner, limit = each
        _check_count("a quota", limit)
        if owner is not None and bad_text(owner, "owner", MOST):
            refuse(f"a quota is that of {_short(owner)}, which can't be an owner")


def _check_ended(ended: list[Any]) -> None:
    for name in ended:
        if bad_text(name, "query id", LONGEST_ID):
            refuse(f"{_short(name)} is said to have ended, which can't be a query")


def _check_shape(shape: object, stream: Stream) -> None:
    if not isinstance(shape, list) or len(shape) != 3:
        refuse(f"{_short(shape)} is no shape of queries")
    kind, attributes, keyed = shape
    if not isinstance(kind, str) or kind not in KINDS:
        refuse(f"queries are of kind {_short(kind)}; there is no such kind")
    if not isinstance(keyed, bool) or (keyed and stream.key is None):
        refuse(f"queries of a shape have keys or not: {_short(keyed)}")
    places = attributes if isinstance(attributes, list) else []
    known = len(stream.attributes)
    rising = all(_is_whole(a) and 0 <= a < known for a in places) and all(
        a < b for a, b in pairwise(places)
    )
    if not places or not rising or (len(places) > 1 and not KINDS[kind].spec.boxed):
        refuse(f"queries of kind {kind!r} restrict {_short(attributes)}, which can't be")


def check_times(header: Mapping[str, Any], kind: pa.DataType | None) -> None:
    """Raise if times of the header are not of the type that the stream's times have."""
    floating = kind == pa.float64()
    for name in TIMES:
        if name not in header:
            refuse(f"it does not say {name!r}")
        value = header[name]
        if value is None:
            continue
        if kind is None:
            refuse(f"{name} is {_short(value)}, and there is no type of times")
        whole = _is_whole(value) and -(2**63) <= value < 2**63
        number = isinstance(value, float) and value == value
        if not (number if floating else whole):
            refuse(f"{name} is {_short(value)}, and no time of type {kind}")
