"""What the rules of queries, and what waits because of them, must be."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from everquery.core.arrays import Array
from everquery.kinds import KINDS
from everquery.queries.spans import FRACTION, NANOSECONDS, SpanColumn
from everquery.shard.checks.invariants import (
    Contents,
    check_none,
    check_unique,
    refuse,
)
from everquery.shard.checks.parts import KIND_NAMES, PAIRS, RULES, SPAN
from everquery.shard.outcomes import OutcomeTable
from everquery.state.pairs import KEY_SHIFT, NOTHING, SLOT_MASK, end_of_time
from everquery.state.rules import SPANS
from everquery.stream import LONGEST_SPAN

_OUTCOMES = OutcomeTable(KINDS)


def check_rules(contents: Contents, kind: pa.DataType | None) -> None:
    """Raise if spans of queries can't be, or if pairs wait that could not."""
    contents.check(RULES)
    spans = {name: found for name in SPANS if (found := _check_span(contents, name)) is not None}
    unbased = contents["rules.unbased"]
    if unbased.size:
        lives = spans.get("ttl")
        if lives is None or not lives.given()[unbased].all():
            refuse("a query is to end, and has no ttl")
    _check_pairs(contents, _in_units(contents, spans, kind))


def _check_span(contents: Contents, name: str) -> SpanColumn | None:
    prefix = f"rules.{name}."
    if not any(contents.has(prefix + part) for part in SPAN):
        return None
    contents.check(SPAN, prefix, units=NANOSECONDS + 1)
    column = SpanColumn(contents[f"{prefix}amount"], contents[f"{prefix}unit"])
    given, fraction = column.given(), column.unit == FRACTION
    amount = column.amount
    whole = given & ~fraction & ((amount <= 0) | (amount >= LONGEST_SPAN))
    check_none(whole, f"{prefix}amount", amount, "no span")
    numbers = np.where(fraction, column.fractions(), 1.0)
    check_none(~((numbers > 0) & (numbers < LONGEST_SPAN)), f"{prefix}amount", numbers, "no span")
    allowed = np.array([name in KINDS[each].spec.spans for each in KIND_NAMES])
    kinds = contents["queries.kind"]
    check_none(given & ~allowed[kinds], f"{prefix}unit", column.unit, "of a kind without")
    return column


def _in_units(
    contents: Contents, spans: dict[str, SpanColumn], kind: pa.DataType | None
) -> dict[str, Array]:
    """Return which queries dwell and which hold back, as `everquery.state.rules` will have it."""
    queries = contents.sizes["queries"]
    units: dict[str, Array] = {name: np.zeros(queries, np.bool_) for name in SPANS}
    if kind is None:
        return units
    read = {name: column.in_units(kind) for name, column in spans.items()}
    unread = np.any([bad for _, bad in read.values()], axis=0) if read else False
    for name, (values, _) in read.items():
        units[name] = (values > 0) & ~unread
    return units


def _check_pairs(contents: Contents, has: dict[str, Array]) -> None:
    """Raise if what waits can't be of its query, or is not due when it is said to be."""
    contents.check(PAIRS, codes=len(_OUTCOMES.throttled), figures=len(_OUTCOMES.columns))
    pair = contents["pairs.pair"]
    slot, key = pair & SLOT_MASK, pair >> KEY_SHIFT
    check_none(slot >= contents.sizes["queries"], "pairs.pair", pair, "of no query")
    check_none(key >= contents.sizes["keys"], "pairs.pair", pair, "of no key")
    check_unique("array 'pairs.pair'", pair)
    crossing, is_open = contents["pairs.crossing"], contents["pairs.open"] != 0
    waits = crossing != NOTHING
    check_none(~waits & ~is_open, "pairs.pair", pair, "of what does not wait")
    check_none(waits & ~has["dwell"][slot], "pairs.crossing", crossing, "of who does not dwell")
    check_none(is_open & ~has["throttle"][slot], "pairs.pair", pair, "of who holds nothing back")
    holds = is_open & (contents["pairs.held"] > 0)
    kinds = contents["queries.kind"][slot]
    for name, used in (("crossing", waits), ("last", holds)):
        codes = contents[f"pairs.{name}"]
        check_none(used & (_kind_of(codes) != kinds), f"pairs.{name}", codes, "of another kind")
    _check_due(contents, waits, is_open)


def _kind_of(codes: Array) -> Array:
    """Return the number of the kind that each code is an outcome of."""
    firsts = np.array([_OUTCOMES.first[name] for name in KIND_NAMES])
    return np.searchsorted(firsts, codes, "right") - 1


def _check_due(contents: Contents, waits: Array, is_open: Array) -> None:
    """Raise if pairs are due at another time than the earlier of their deadlines."""
    soonest = contents["pairs.soonest"]
    never = end_of_time(soonest.dtype)
    due = np.minimum(
        np.where(waits, contents["pairs.deadline"], never),
        np.where(is_open, contents["pairs.closes"], never),
    )
    check_none(soonest != due, "pairs.soonest", soonest, "not the earlier deadline")
