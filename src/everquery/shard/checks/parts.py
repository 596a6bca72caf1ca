"""What the arrays of each part of a shard's state must be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from everquery.core.arrays import Array
from everquery.errors import EverqueryError
from everquery.index.flags import LIVE
from everquery.index.rows import NO_KEY
from everquery.index.weighed import HEAVIEST
from everquery.kinds import KINDS
from everquery.kinds.quantile.index import BY_KEY
from everquery.kinds.quantile.spec import Quantile
from everquery.shard.checks.invariants import (
    MOST,
    TIME,
    Column,
    Contents,
    check_none,
    refuse,
)
from everquery.state.admission import span_in_units
from everquery.stream import Stream

KIND_NAMES = tuple(KINDS)

KEYS = {
    "keys.seen": Column("uint8", ("keys",), below=2),
    "keys.next_seq": Column("int64", ("keys",), least=0, below=MOST),
    "keys.last_time": Column(TIME, ("keys",)),
    "keys.last": Column("float64", ("attributes", "keys")),
}
QUERIES = {
    "queries.flags": Column("uint16", ("queries",), least=1),
    "queries.kind": Column("uint8", ("queries",), below="kinds"),
    "queries.prints": Column("uint64", ("queries",)),
}
HELD = {
    "held.key": Column("int32", ("held",), least=0, below="keys"),
    "held.time": Column(TIME, ("held",)),
    "held.seq": Column("int64", ("held",)),
    "held.values": Column("float64", ("attributes", "held")),
    "held.weight": Column("int64", ("held",), least=1, below=HEAVIEST + 1),
    "held.arrived": Column("int64", ("held",), least=0, below="arrived"),
}
ROWS = {
    "slot": Column("int32", ("rows",), least=0, below="queries"),
    "key": Column("int32", ("rows",), least=-1, below="keys"),
    "low": Column("float64", ("restricted", "rows")),
    "high": Column("float64", ("restricted", "rows"), with_nan=True),
}
TIME_TYPE = {"time_type": Column("uint8", ("time type bytes",), below=256)}


def read_time_type(contents: Contents, stream: Stream) -> pa.DataType | None:
    """Return the type of times, and note it; raise if it can't be."""
    contents.check(TIME_TYPE)
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(contents["time_type"].tobytes()))
        kind = schema.field("time").type
        known = None if pa.types.is_null(kind) else kind
        if known is not None:
            _check_time_type(known, stream)
    except (pa.ArrowException, KeyError, ValueError, OSError, EverqueryError) as error:
        refuse(f"the type of times can't be read ({str(error)[:200]})")
    contents.time_dtype = "float64" if known == pa.float64() else "int64"
    return known


def _check_time_type(kind: pa.DataType, stream: Stream) -> None:
    types = pa.types
    temporal = types.is_timestamp(kind) or types.is_date32(kind) or types.is_date64(kind)
    if stream.time is None or not (temporal or kind in (pa.int64(), pa.float64())):
        raise ValueError(f"{kind} on this stream")
    if types.is_timestamp(kind):
        pa.scalar(0, kind).cast(pa.string())  # the time zone may be none
    for span in (stream.grace, stream.expire_after):
        span_in_units(span, kind, str(stream.time))


def check_queries(contents: Contents) -> None:
    """Raise if flags or kinds of queries can't be."""
    contents.sizes["kinds"] = len(KINDS)
    contents.check(QUERIES)
    flags = contents["queries.flags"]
    check_none(flags & LIVE == 0, "queries.flags", flags, "no live query's")


def check_held(contents: Contents, header: dict[str, Any], kind: pa.DataType | None) -> None:
    """Raise if events that are held back can't be."""
    contents.sizes["arrived"] = header["arrived"]
    contents.check(HELD)
    if kind is None and contents.sizes["held"]:
        refuse("events are held back, and there is no type of times")


def check_rows(contents: Contents, header: dict[str, Any]) -> None:
    """Raise if the boxes of queries can't be, or are not one for each query."""
    rows_of = np.zeros(contents.sizes["queries"], np.int64)
    for number, (kind, attributes, keyed) in enumerate(header["shapes"]):
        prefix = f"rows{number}."
        local = {"rows": contents[f"{prefix}slot"].size} if contents.has(f"{prefix}slot") else {}
        contents.check(ROWS, prefix, restricted=len(attributes), **local)
        slot, key, low, high = (contents[prefix + part] for part in ROWS)
        if not slot.size:
            refuse(f"array {prefix + 'slot'!r} is empty")
        kinds = contents["queries.kind"][slot]
        check_none(kinds != KIND_NAMES.index(kind), f"{prefix}slot", slot, f"no {kind} query")
        check_none((key != NO_KEY) != keyed, f"{prefix}key", key, "a key, or none, where not")
        check_none(high <= low, f"{prefix}high", high, "not above the lower end")
        if kind == Quantile.kind:
            _check_by_key(contents, slot, keyed=keyed)
        np.add.at(rows_of, slot, 1)
    if (rows_of != 1).any():
        refuse("queries do not have one row each")


def _check_by_key(contents: Contents, slot: Array, *, keyed: bool) -> None:
    by_key = contents["queries.flags"][slot] & BY_KEY != 0
    if by_key.any() and (keyed or not contents.sizes["keyed stream"]):
        refuse("a quantile query is by key, and has one already or can't have any")


RULES = {
    "rules.end": Column(TIME, ("queries",)),
    "rules.home": Column("int32", ("queries",), least=-1, below="keys"),
    "rules.unbased": Column("int32", ("unbased",), least=0, below="queries", rising=True),
}
SPAN = {
    "amount": Column("int64", ("queries",)),
    "unit": Column("uint8", ("queries",), below="units"),
}
PAIRS = {
    "pairs.pair": Column("int64", ("pairs",), least=0),
    "pairs.soonest": Column(TIME, ("pairs",)),
    "pairs.crossing": Column("int64", ("pairs",), least=-1, below="codes"),
    "pairs.deadline": Column(TIME, ("pairs",)),
    "pairs.crossing_seq": Column("int64", ("pairs",), least=-1, below=MOST),
    "pairs.crossing_values": Column("float64", ("attributes", "pairs"), with_nan=True),
    "pairs.crossing_figures": Column("int64", ("figures", "pairs")),
    "pairs.open": Column("uint8", ("pairs",), below=2),
    "pairs.closes": Column(TIME, ("pairs",)),
    "pairs.held": Column("int64", ("pairs",), least=0, below=MOST),
    "pairs.last": Column("int64", ("pairs",), least=0, below="codes"),
    "pairs.last_seq": Column("int64", ("pairs",), least=-1, below=MOST),
    "pairs.last_values": Column("float64", ("attributes", "pairs"), with_nan=True),
    "pairs.last_figures": Column("int64", ("figures", "pairs")),
}
