"""Columns of queries that were read: all that holds for those that were registered holds here.

A kernel takes what it is given. So what the specs and the checks of tables guarantee is looked at
again, a column at a time, where columns come from a database.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from everquery.core.names import repeated
from everquery.core.spans import LONGEST_SPAN
from everquery.errors import RegistryError
from everquery.queries import Query
from everquery.queries.block import QueryBlock
from everquery.queries.known import spec_of
from everquery.queries.labels import read_labels
from everquery.queries.numbers import NO_NUMBER, MeasuredField
from everquery.queries.spans import FRACTION, NANOSECONDS, NO_SPAN, SpanColumn
from everquery.queries.spec import LONGEST_ID, LONGEST_KEY, SaidColumns
from everquery.queries.zones import bad_zones
from everquery.stream import NAMELESS, Stream

LARGEST_ROW = 2**31 - 1

Bools = npt.NDArray[np.bool_]


def check_blocks(blocks: tuple[QueryBlock, ...], stream: Stream) -> None:
    """Raise `RegistryError` if blocks can't have been registered together on the stream."""
    for block in blocks:
        for rows, reason in _problems(block, stream, spec_of(block.kind)):
            if np.any(rows):
                row = int(np.argmax(rows))
                raise RegistryError(f"query {row:,} of {len(block):,} can't be: {reason}")
    key_types = {block.keys.type for block in blocks if block.keys is not None}
    if len(key_types) > 1:
        raise RegistryError("keys are strings here and integers there")
    ids = blocks[0].ids if len(blocks) == 1 else pa.concat_arrays([block.ids for block in blocks])
    twice = repeated(ids)
    if twice.any():
        raise RegistryError(f"the id {ids[int(np.argmax(twice))].as_py()!r} occurs twice")


def _problems(
    block: QueryBlock, stream: Stream, spec: type[Query]
) -> Iterator[tuple[Bools | bool, str]]:
    """Yield which rows of a block can't be, and why."""
    yield from _shape(block, stream, spec)
    yield from _texts(block)
    for low, high in zip(block.low, block.high, strict=True):
        yield np.isnan(low), "a range begins with NaN"
        yield high <= low, "a range holds no value"
    if not spec.boxed and spec.value_range is None:
        limited = (block.low[0] != -np.inf) | ~np.isnan(block.high[0])
        yield limited, f"a {block.kind} query has a range"
    if not spec.limited:
        limited = (block.low != -np.inf) | ~np.isnan(block.high)
        yield limited.any(axis=0), f"a {block.kind} query has a range"
    for number in spec.numbers:
        values = block.numbers[number.name]
        given = values != NO_NUMBER if not number.required else np.ones(len(block), np.bool_)
        if isinstance(number, MeasuredField):
            known = 0 if block.attributes == (NAMELESS,) else len(block.attributes)
            yield values > known, f"{number.name} is not in its box"
        yield np.isnan(values), f"{number.name} is NaN"
        for limit in number.limits:
            yield limit.breaks(values) & given, f"{number.name} {limit.reason}"
    keyed = np.full(len(block), block.keys is not None)
    zones = {} if block.zone is None else {"zone": block.zone}
    yield bool(zones) and "zone" not in spec.zones, f"a {block.kind} query has a zone"
    yield from bad_zones(zones)
    texts = {} if block.plan is None else {"plan": block.plan}
    yield bool(texts) != bool(spec.texts), f"a {block.kind} query has a plan, or lacks one"
    said = SaidColumns(stream, keyed, block.options, block.numbers, block.spans, zones, texts)
    yield from spec.bad_rows(said)
    for name in spec.required_spans:
        lacks = ~block.spans[name].given() if name in block.spans else True
        yield lacks, f"a {block.kind} query needs {name}"
    for name, spans in block.spans.items():
        yield stream.time is None, f"{name} needs a stream with a time column"
        yield from _spans(name, spans)


def _shape(
    block: QueryBlock, stream: Stream, spec: type[Query]
) -> Iterator[tuple[Bools | bool, str]]:
    places = np.array(block.attributes)
    yield len(places) != len(block.low), "it has more or fewer ranges than attributes"
    yield bool((np.diff(places) <= 0).any()), "its attributes are not in their order"
    empty = block.attributes == (NAMELESS,)
    about_one = len(places) == 1 and empty is not spec.about_attribute
    yield not spec.boxed and not about_one, f"a {block.kind} query is about one attribute"
    limited = (block.low != -np.inf) | ~np.isnan(block.high)
    yield empty and bool(limited.any()), "it restricts no attribute, and has limits"
    yield len(places) > 1 and NAMELESS in places, "it restricts what has no name"
    yield block.keys is not None and stream.key is None, "it has a key, and the stream has none"
    yield (block.row < 0) | (block.row > LARGEST_ROW), "its row has no such number"
    yield np.diff(block.row, prepend=-1) <= 0, "its row comes before the one in front of it"


def _texts(block: QueryBlock) -> Iterator[tuple[Bools, str]]:
    size = np.asarray(pc.binary_length(block.ids))
    yield (size == 0) | (size > LONGEST_ID), f"its id has not 1 to {LONGEST_ID:,} bytes"
    if block.keys is not None and pa.types.is_string(block.keys.type):
        long = np.asarray(pc.binary_length(block.keys)) > LONGEST_KEY
        yield long, f"its key has more than {LONGEST_KEY:,} bytes"
    for name in ("owner", "part_of"):
        texts = getattr(block, name)
        if texts is not None:
            size = np.asarray(pc.fill_null(pc.binary_length(texts), 1))
            wrong = (size == 0) | (size > LONGEST_ID)
            yield wrong, f"its {name} has not 1 to {LONGEST_ID:,} bytes"
    if block.labels is not None:
        yield read_labels(block.labels)[1], "its labels are no JSON object of strings"


def _spans(name: str, spans: SpanColumn) -> Iterator[tuple[Bools, str]]:
    unit, amount = spans.unit, spans.amount
    yield unit > NANOSECONDS, f"{name} is in no unit that there is"
    fraction = unit == FRACTION
    whole = ~fraction & (unit != NO_SPAN)
    bad = (amount <= 0) | (amount >= LONGEST_SPAN)
    yield whole & bad, f"{name} is not positive, or longer than times are"
    numbers = spans.fractions()
    bad = ~(numbers > 0) | ~(numbers < LONGEST_SPAN)
    yield fraction & bad, f"{name} is not positive, or longer than times are"
