"""Which select queries can be: what does not go together, and what a stream lacks."""

from __future__ import annotations

from collections.abc import Iterator

from everquery.kinds.select.names import unknown_column
from everquery.kinds.select.plan import Column, Plan, is_count
from everquery.queries.numbers import Bools
from everquery.stream import Stream

NO_TTL = "a join that tells has no ttl; leave it out, and deregister the query when it has served"


def bad_tellings(
    plan: Plan, tell: str, told: Bools, throttled: Bools
) -> Iterator[tuple[Bools, str]]:
    """Yield which queries of a table, that have a plan and tell this, can't be, and why."""
    for held in (False, True):
        reason = bad_telling(plan, tell, throttled=held)
        if reason:
            yield told & (throttled == held), reason


def bad_telling(plan: Plan, tell: str, *, throttled: bool) -> str | None:
    """Return why a query can't tell this, or None."""
    if tell == "nothing":
        return "throttle is for queries that tell; this one is read" if throttled else None
    if plan.joins and throttled:
        return "a join that tells has no throttle; leave it out"
    if plan.joins and plan.sources[0].stream == plan.sources[1].stream:
        return "a join of a stream with itself is read on demand; leave EMIT out"
    if plan.end.kind != "now":
        return "what is told is told as it comes; let the window END NOW"
    if plan.distinct:
        return "DISTINCT is of answers that are read; leave EMIT or DISTINCT out"
    if tell == "matches":
        if plan.aggregates:
            return "an aggregate does not only grow; EMIT CHANGES tells how it moves"
        if plan.begin.kind in ("time", "row"):
            return "EMIT MATCHES tells all rows that come; let the window BEGIN NOW - ... or OLDEST"
        return None
    if throttled:
        return "EMIT CHANGES is told once a batch; leave throttle out"
    measured = [item for item in plan.items if item.function]
    if len(measured) > 1:
        return "a notice tells one value; register one query for each aggregate"
    if plan.having:
        return "HAVING is of answers that are read; leave EMIT or HAVING out"
    return None


def bad_groups(plan: Plan, stream: Stream) -> str | None:
    """Return why changes of a plan's groups can't be told, or None."""
    if plan.joins and plan.groups:
        key = Column(0, str(stream.key))
        for factor in plan.factors:
            compared = factor.left, factor.right
            if factor.joins and factor.operator == "=" and key in compared:
                by_key = [(column,) for column in compared]
                if plan.groups in by_key:
                    return None
        return (
            "a notice is about a key; join the streams by their keys, and group by one of them, or"
            " leave EMIT CHANGES out"
        )
    if not plan.groups or [column.name for column in plan.groups] == [stream.key]:
        return None
    return "a notice is about a key; group by the key, or leave EMIT CHANGES out"


def misfit(plan: Plan, stream: Stream) -> str | None:
    """Return why a plan can't be on a stream, or None."""
    if plan.sources and plan.sources[0].stream != stream.name:
        first = plan.sources[0].stream
        return f"it begins FROM {first!r}, so it belongs to that stream, not {stream.name!r}"
    if plan.joins and _is_unbounded(plan, stream):
        return _missing_bound(plan, stream)
    if stream.time is None and False in (plan.begin.by_rows, plan.end.by_rows):
        return f"stream {stream.name!r} has no time column; let the window go by ROWS"
    return _bad_column(plan, stream, 0)


def _bad_column(plan: Plan, stream: Stream, side: int) -> str | None:
    """Return what is wrong with a column of one of the streams, or None."""
    compared = [
        column
        for factor in plan.factors
        for column in (factor.left, factor.right)
        if column is not None
    ]
    items = [*plan.items, *(each.item for each in plan.having)]
    selected = [item.column for item in items if item.column is not None]
    columns: list[Column] = [*compared, *selected, *plan.groups]
    for column in columns:
        if column.side == side and column.name not in stream.columns():
            return unknown_column(column.name, stream)
    for column in compared:
        if column.side == side and column.name not in (*stream.attributes, stream.key):
            return f"{column.name} can't be compared: conditions are on attributes and the key"
    measured = (*stream.attributes, stream.weight)
    for item in items:
        of = item.column
        if of is None or of.side != side or item.function is None or is_count(item.function):
            continue
        if of.name not in measured:
            return f"{item.function} is of attributes and the weight, not of {of.name}"
    if not plan.joins and any(column.name == stream.key for column in compared):
        return f"{stream.key} is the key, and is compared with a string or an integer only"
    return None


def bad_names(stream: Stream, first: Stream) -> str | None:
    """Return why the notices of a join can't have the columns of both streams, or None."""
    for one, other in ((stream, first), (first, stream)):
        for name in one.attributes:
            if name.startswith(f"{other.name}."):
                return (
                    f"stream {one.name!r} has an attribute {name!r}, which is what notices of the"
                    f" join call a column of {other.name!r}; rename it"
                )
    return None


def misfit_of_other(plan: Plan, stream: Stream, first: Stream) -> str | None:
    """Return why the second stream of a join can't be this one, or None."""
    for factor in plan.factors:
        if factor.right is not None and factor.joins:
            sides = (first, stream)
            keys = [sides[each.side].key == each.name for each in (factor.left, factor.right)]
            if any(keys) and (not all(keys) or factor.operator != "=" or factor.constant):
                return "a key is compared with the other stream's key, by = alone"
    if stream.time is None and False in (plan.begin.by_rows, plan.end.by_rows):
        return f"stream {stream.name!r} has no time column; let the window go by ROWS"
    if _is_unbounded(plan, stream):
        return _missing_bound(plan, stream)
    return _bad_column(plan, stream, 1)


def _is_unbounded(plan: Plan, stream: Stream) -> bool:
    """Tell whether all rows of a stream would have to be kept for a join."""
    return plan.window == "landmark" and stream.keep is None


def _missing_bound(plan: Plan, stream: Stream) -> str:
    return (
        f"a join that BEGINs at {plan.begin} needs all rows of both streams for ever; the bound"
        f" that is missing is BEGIN NOW - a span or ROWS, or keep= of stream {stream.name!r}"
    )
