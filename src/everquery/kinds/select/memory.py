"""What is kept for a select query, and whether that is bounded whatever comes.

A row of the stream, or a part of the answer, is in one of three places: *store*, the answer that
may still change; *scratch*, what is kept only so that later answers can be computed; *throw*, what
is needed no more. A query is answered in bounded memory if store and scratch are bounded: by the
window, by groups of a bounded domain, or because nothing but a few numbers is kept.
"""

from __future__ import annotations

from everquery.kinds.select.plan import IN_TREES, Plan
from everquery.stream import Stream


def memory_of(plan: Plan, stream: Stream) -> tuple[str, ...]:
    """Return what is in store, scratch and throw, and whether memory is bounded."""
    rows = _rows(plan, stream)
    if plan.joins:
        first, second = (source.stream for source in plan.sources)
        both = f"{first} and {second}"
        store = f"store: references to the pairs of {both} in the window, once read or told"
        scratch = f"scratch: the rows of both streams {rows}, pushed through their own conditions"
    elif plan.aggregates:
        store = f"store: {_aggregates(plan)}"
        scratch = f"scratch: the rows {rows}, {_structures(plan)}"
    else:
        store = "store: references to the rows of the window that match, in order of time"
        scratch = f"scratch: the rows {rows}"
    throw = f"throw: {_thrown(plan)}"
    return store, scratch, throw, _verdict(plan, stream)


def _rows(plan: Plan, stream: Stream) -> str:
    if plan.window == "landmark":
        return "kept as the stream says" if stream.keep is not None else f"since {plan.begin}"
    return f"from {plan.begin} to {plan.end}"


def _structures(plan: Plan) -> str:
    """Return what aggregates of rows are read from."""
    functions = [item.function for item in plan.items if item.function]
    if plan.groups or plan.having or any(each not in IN_TREES for each in functions):
        return "and references to those that match, which are aggregated when the answer is read"
    return "and a ranked tree over those that match"


def _aggregates(plan: Plan) -> str:
    if not plan.groups:
        return "one row of aggregates"
    names = ", ".join(column.name for column in plan.groups)
    return f"one row of aggregates for each {names} of the window"


def _thrown(plan: Plan) -> str:
    if plan.window == "sliding":
        return "rows that match nothing at once, rows of the window when they leave it"
    if plan.window == "snapshot":
        return f"rows that come after {plan.end}"
    return "rows that match nothing"


def _verdict(plan: Plan, stream: Stream) -> str:
    """Return whether the query is answered in bounded memory, and by what it is bounded."""
    if plan.window == "sliding":
        by_rows = plan.begin.kind in ("rows_ago", "now")
        bound = "rows of the window" if by_rows else "rows that come within the span of the window"
        return f"bounded memory: yes, by the {bound}"
    if plan.window == "snapshot":
        return "bounded memory: yes, nothing is added after its end"
    if stream.keep is not None and stream.keep != "all":
        return f"bounded memory: yes, by what stream {stream.name!r} keeps"
    if plan.aggregates and not plan.groups:
        return (
            "bounded memory: the answer is (one row), its rows are not: they grow from"
            f" {plan.begin} on; give BEGIN NOW - ..., or keep= of the stream"
        )
    domain = "groups and rows" if plan.groups else "rows"
    return (
        f"bounded memory: no, {domain} grow from {plan.begin} on, over attributes whose domain is"
        " unbounded; give BEGIN NOW - ..., or keep= of the stream"
    )
