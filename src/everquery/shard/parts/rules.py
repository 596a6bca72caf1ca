"""The parts of alert rules: the spans of queries, and what waits because of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from everquery.core.arrays import Array, Bools, Int64s
from everquery.core.framing import NewerError
from everquery.core.invariants import (
    MOST,
    TIME,
    Column,
    Contents,
    check_count,
    check_none,
    check_unique,
    of_type,
    refuse,
    short,
)
from everquery.core.parts import Part, Saved
from everquery.core.spans import LONGEST_SPAN
from everquery.index.flags import SPANNED
from everquery.kinds import Kind
from everquery.queries.spans import (
    FRACTION,
    MICROSECONDS,
    NANOSECONDS,
    NO_SPAN,
    WHOLE,
    SpanColumn,
)
from everquery.shard.parts.times import dtype_of
from everquery.shard.shard import Shard
from everquery.state.pairs import CANCELLED, HELD_BACK, KEY_SHIFT, NOTHING, end_of_time
from everquery.state.rules import BASED, SPANS

UNITS = {
    "none": NO_SPAN,
    "whole": WHOLE,
    "fraction": FRACTION,
    "microseconds": MICROSECONDS,
    "nanoseconds": NANOSECONDS,
}
RULES = {
    "end": Column(TIME, ("queries",)),
    "home": Column("int32", ("queries",), least=-1, below="keys"),
    "unbased": Column("int32", ("unbased",), least=0, below="queries", rising=True),
    "since": Column(TIME, ("queries",), needed=False),
}
SPAN = {
    "amount": Column("int64", ("queries",)),
    "unit": Column("uint8", ("queries",), below="units"),
}
PAIRS = {
    "query": Column("int32", ("pairs",), least=0, below="queries"),
    "key": Column("int32", ("pairs",), least=0, below="keys"),
    "soonest": Column(TIME, ("pairs",)),
    "crossing": Column("int64", ("pairs",), least=-1, below="codes"),
    "deadline": Column(TIME, ("pairs",)),
    "crossing_seq": Column("int64", ("pairs",), least=-1, below=MOST),
    "crossing_values": Column("float64", ("attributes", "pairs"), with_nan=True),
    "crossing_figures": Column("int64", ("figures", "pairs")),
    "open": Column("uint8", ("pairs",), below=2),
    "closes": Column(TIME, ("pairs",)),
    "held": Column("int64", ("pairs",), least=0, below=MOST),
    "last": Column("int64", ("pairs",), least=0, below="codes"),
    "last_seq": Column("int64", ("pairs",), least=-1, below=MOST),
    "last_values": Column("float64", ("attributes", "pairs"), with_nan=True),
    "last_figures": Column("int64", ("figures", "pairs")),
}


class RulesPart(Part):
    """The spans of queries by rank, and when queries end.

    What changes of them follows from the changes of queries, and from the time of the first event.
    """

    name = "rules"

    def __init__(self, shard: Shard) -> None:
        self._contents = shard.contents

    def whole(self) -> Saved:
        """Return the spans and ends of all queries."""
        saved = Saved({"units": UNITS, "active": self._contents.hygiene.rules.spanned > 0})
        if saved.values["active"]:
            self._contents.hygiene.rules.save(saved.arrays, self._contents.catalog.kept())
        return saved

    def changes(self) -> Saved | None:
        """Return nothing, see above; but all of it if lives began in the past."""
        rules = self._contents.hygiene.rules
        adopted, rules.adopted = rules.adopted, False
        return self.whole() if adopted else None

    def load(self, saved: Saved) -> None:
        """Check and take over spans and ends."""
        here = self._contents
        kept, kind = here.catalog.kept(), here.admission.time_type
        sizes = {"queries": kept.size, "keys": len(here.keys)}
        contents = Contents(saved.arrays, sizes, dtype_of(kind))
        active = of_type(saved.values, "active", bool)
        if active:
            if saved.values.get("units") != UNITS:
                raise NewerError("has spans in units that this everquery does not know")
            self._check(contents, kept)
            here.hygiene.rules.load(saved.arrays, kept, kind)
        elif any(set(kind.spec.required_spans) & set(SPANS) for kind in self._kinds_of(kept)):
            refuse("a query lacks a span that its kind needs")
        contents.check_all_seen()

    def adopt(self, saved: Saved, queries: Array) -> None:
        """Let lives of queries have begun, and end, when they did and do where they were."""
        if saved.values["active"]:
            self._contents.hygiene.rules.adopt(saved.arrays, queries)

    def _kinds_of(self, kept: Int64s) -> list[Kind]:
        """Return the kinds that queries are of."""
        kinds = list(self._contents.kinds.values())
        return [kinds[n] for n in np.flatnonzero(np.bincount(self._contents.catalog.kind[kept]))]

    def _of_kinds(self, spans: str, name: str, kept: Int64s) -> Bools:
        """Tell of which queries the kind has a span among some."""
        kinds = self._contents.kinds.values()
        has: Bools = np.array([name in getattr(kind.spec, spans) for kind in kinds], np.bool_)
        return has[self._contents.catalog.kind[kept]]

    def _check(self, contents: Contents, kept: Int64s) -> None:
        contents.check(RULES)
        kinds = self._contents.kinds.values()
        given = {}
        for name in dict.fromkeys([*SPANS, *(name for kind in kinds for name in kind.spec.spans)]):
            column = _check_span(contents, name, self._of_kinds("spans", name, kept))
            given[name] = np.zeros(kept.size, np.bool_) if column is None else column.given()
            if (self._of_kinds("required_spans", name, kept) & ~given[name]).any():
                refuse(f"a query lacks {name}, which its kind needs")
        own = [has for name, has in given.items() if name not in SPANS]
        noted = self._contents.catalog.flags[kept] & SPANNED != 0
        if (np.any(own, axis=0) != noted).any() if own else noted.any():
            refuse("a query has a span of its kind, and does not say so, or the other way round")
        unbased = contents["unbased"]
        if not np.any([given[name] for name in BASED], axis=0)[unbased].all():
            refuse("a query is to begin with the first event, and has no span from then on")
        if given["after"].any() and not contents.has("since"):
            refuse("it does not say since when keys may be silent")


def _check_span(contents: Contents, name: str, allowed: Bools) -> SpanColumn | None:
    prefix = f"{name}."
    if not any(contents.has(prefix + part) for part in SPAN):
        return None
    contents.check(SPAN, prefix, units=len(UNITS))
    column = SpanColumn(contents[f"{prefix}amount"], contents[f"{prefix}unit"])
    given, fraction = column.given(), column.unit == FRACTION
    amount = column.amount
    whole = given & ~fraction & ((amount <= 0) | (amount >= LONGEST_SPAN))
    check_none(whole, f"{prefix}amount", amount, "no span")
    numbers = np.where(fraction, column.fractions(), 1.0)
    check_none(~((numbers > 0) & (numbers < LONGEST_SPAN)), f"{prefix}amount", numbers, "no span")
    check_none(given & ~allowed, f"{prefix}unit", column.unit, "of a kind without")
    return column


class WaitingPart(Part):
    """Crossings that have not stayed long enough yet, and windows that hold notices back."""

    name = "waiting"

    def __init__(self, shard: Shard) -> None:
        self._contents = shard.contents
        self._empty: dict[str, Any] | None = None  # what was said last, while nothing waited

    def whole(self) -> Saved:
        """Return all that waits."""
        hygiene = self._contents.hygiene
        saved = Saved({"throttled": hygiene.throttled, "undone": hygiene.undone})
        self._empty = None
        if len(hygiene.pairs):
            saved.values.update(outcomes=_outcomes(self._contents.kinds), figures=self._figures())
            hygiene.pairs.save(saved.arrays, self._contents.catalog.kept())
        else:
            self._empty = saved.values
        return saved

    def changes(self) -> Saved | None:
        """Return all that waits, if anything does or did."""
        before, saved = self._empty, self.whole()
        return None if before is not None and before == self._empty else saved

    def mark_committed(self) -> None:
        """Note whether nothing waits."""
        self.whole()

    def load(self, saved: Saved) -> None:
        """Check and take over what waited."""
        hygiene = self._contents.hygiene
        for name in ("throttled", "undone"):
            check_count(name, saved.values.get(name))
        kept, kind = self._contents.catalog.kept(), self._contents.admission.time_type
        contents = Contents(saved.arrays, self._sizes(kept), dtype_of(kind))
        if saved.arrays:
            codes = _Codes(of_type(saved.values, "outcomes", list), self._contents.kinds)
            if saved.values.get("figures") != self._figures():
                raise NewerError("has figures of notices that this everquery does not know")
            contents.sizes["codes"] = codes.here.size
            contents.check(PAIRS)
            contents.check_all_seen()
            codes.translate(contents)
            self._check(contents, kept, codes)
            hygiene.pairs.load(saved.arrays, kept)
        elif len(hygiene.pairs):
            hygiene.pairs.forget(kept.astype(np.int32), windows=True)
        hygiene.pairs.counts[HELD_BACK] = saved.values["throttled"]
        hygiene.pairs.counts[CANCELLED] = saved.values["undone"]

    def adopt(self, saved: Saved, queries: Array) -> None:
        """Let what waited go on waiting."""
        pairs = self._contents.hygiene.pairs
        if saved.arrays:
            pairs.adopt(saved.arrays, queries)
        pairs.counts[HELD_BACK] += saved.values["throttled"]
        pairs.counts[CANCELLED] += saved.values["undone"]

    def _sizes(self, kept: Int64s) -> dict[str, int]:
        return {
            "queries": kept.size,
            "keys": len(self._contents.keys),
            "attributes": len(self._contents.stream.attributes),
            "figures": len(self._figures()),
        }

    def _figures(self) -> list[str]:
        """Return what the figures of notices are, in their order."""
        return list(self._contents.outcomes.columns)

    def _check(self, contents: Contents, kept: Int64s, codes: _Codes) -> None:
        """Raise if what waits can't be of its query, or is not due when it is said to be."""
        query, rules = contents["query"], self._contents.hygiene.rules
        pair = contents["key"].astype(np.int64) << KEY_SHIFT | query
        check_unique("array 'query', with 'key',", pair)
        crossing, is_open = contents["crossing"], contents["open"] != 0
        waits = crossing != NOTHING
        slot = kept[query]
        check_none(~waits & ~is_open, "query", query, "of what does not wait")
        dwells, throttles = _given(rules.dwell, slot), _given(rules.throttle, slot)
        check_none(waits & ~dwells, "crossing", crossing, "of who does not dwell")
        check_none(is_open & ~throttles, "query", query, "of who holds nothing back")
        holds = is_open & (contents["held"] > 0)
        kinds = self._contents.catalog.kind[slot]
        for name, used in (("crossing", waits), ("last", holds)):
            code = contents[name]
            check_none(used & (codes.kind[code] != kinds), name, code, "of another kind")
        _check_due(contents, waits, is_open)


class _Codes:
    """The outcomes that were saved, and their codes here."""

    def __init__(self, names: list[Any], kinds: Mapping[str, Kind]) -> None:
        known = _outcomes(kinds)
        for name in names:
            if name not in known:
                raise NewerError(f"has notices {short(name)}, which this everquery does not know")
        self.here = np.array([known.index(name) for name in names], np.int64)
        numbers: list[str | None] = [*kinds]
        self.kind = np.array([numbers.index(name) for name, _, _ in known], np.int64)

    def translate(self, contents: Contents) -> None:
        """Let arrays that are checked have codes of this everquery."""
        for name in ("crossing", "last"):
            codes = contents[name]
            known = codes != NOTHING
            codes[known] = self.here[codes[known]]


def _outcomes(kinds: Mapping[str, Kind]) -> list[list[str | None]]:
    """Return what the codes of notices stand for that may wait, in their order."""
    return [
        [name, outcome.event, outcome.reason]
        for name, kind in kinds.items()
        for outcome in kind.index.outcomes
    ]


def _given(spans: Array, slots: Array) -> Array:
    given = np.zeros(slots.size, np.bool_)
    known = slots < spans.size
    given[known] = spans[slots[known]] > 0
    return given


def _check_due(contents: Contents, waits: Array, is_open: Array) -> None:
    """Raise if pairs are due at another time than the earlier of their deadlines."""
    soonest = contents["soonest"]
    never = end_of_time(soonest.dtype)
    due = np.minimum(
        np.where(waits, contents["deadline"], never),
        np.where(is_open, contents["closes"], never),
    )
    check_none(soonest != due, "soonest", soonest, "not the earlier deadline")
