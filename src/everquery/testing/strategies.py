"""Hypothesis strategies: streams, queries, events, and whole histories of them.

Values come from a small lattice, so that ends coincide, events repeat, and boxes are entered and
left often. Needs the ``hypothesis`` package.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from everquery.kinds import KINDS
from everquery.kinds.drawing import KEYS, VALUES, intervals
from everquery.queries import Query
from everquery.stream import Stream

__all__ = [
    "KEYS",
    "VALUES",
    "History",
    "as_batch",
    "events",
    "histories",
    "intervals",
    "queries",
    "streams",
]


def streams(*, bare: bool = False, timed: bool = False) -> st.SearchStrategy[Stream]:
    """Return streams with and without key, time and spans, over one or two attributes.

    With `bare`, some have no attributes. With `timed`, all of them have time.
    """

    def build(
        keyed: bool,
        timed: bool,
        grace: int | None,
        expiry: int | None,
        ahead: int | None,
        n: int,
        weighed: bool,
    ) -> Stream:
        return Stream(
            "s",
            key="k" if keyed else None,
            time="t" if timed else None,
            attributes=["x", "y"][: max(n, not (keyed or timed or weighed))],
            weight="w" if weighed else None,
            grace=grace if timed else None,
            expire_after=expiry if timed else None,
            max_ahead=ahead if timed else None,
        )

    spans = st.none() | st.integers(1, 6)
    yes = st.booleans()
    has_time = st.just(True) if timed else yes
    some = st.integers(0, 3).map(lambda n: min(n, 2)) if bare else st.integers(1, 2)
    return st.builds(build, yes, has_time, spans, spans, spans, some, yes)


def queries(kind: type[Query], query_id: str, stream: Stream) -> st.SearchStrategy[Query]:
    """Return queries of a kind that fit a stream."""
    return KINDS[kind.kind].strategy(query_id, stream)


def events(stream: Stream, *, in_order: bool = False) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Return events of a stream, some of which lack values, or are refused.

    Parameters
    ----------
    in_order : bool
        Whether times never fall; else they are any.
    """
    columns: dict[str, st.SearchStrategy[Any]] = {}
    if stream.key:
        columns["k"] = st.sampled_from([*KEYS, *KEYS, None])
    if stream.time:
        columns["t"] = st.integers(0, 3 if in_order else 20)
        if stream.max_ahead is not None:  # clocks jump
            columns["t"] = columns["t"] | st.integers(200, 203)
    for name in stream.attributes:
        columns[name] = st.sampled_from([*VALUES, *VALUES[1:-1], *[None, math.nan] * 3])
    if stream.weight:
        columns["w"] = st.sampled_from([1, 1, 2, 3, 5, 40, 0, -2, -7, None])
    row = st.fixed_dictionaries(columns)
    drawn = st.lists(row, max_size=30) | st.lists(row, min_size=12, max_size=30)
    return drawn.map(_add_up_times) if stream.time and in_order else drawn


def _add_up_times(drawn: list[dict[str, Any]]) -> list[dict[str, Any]]:
    time = 0
    for event in drawn:
        time += event["t"]
        event["t"] = time
    return drawn


def as_batch(rows: list[dict[str, Any]], stream: Stream) -> pa.Table:
    """Return events as an Arrow table; some columns that no event has a value of are left out."""
    fields = []
    if stream.key:
        fields.append(("k", pa.string()))
    if stream.time:
        fields.append(("t", pa.int64()))
    fields.extend((name, pa.float64()) for name in stream.attributes)
    if stream.weight:
        fields.append(("w", pa.int64()))
    if len(rows) % 2:  # else they are there, and null
        held = [
            (name, kind)
            for name, kind in fields
            if name in stream.needed_columns() or any(row[name] is not None for row in rows)
        ]
        fields = held or fields  # a table without columns has no rows
    return pa.Table.from_pylist(rows, pa.schema(fields))


@dataclass
class History:
    """Events with changes between them.

    Attributes
    ----------
    stream : Stream
    events : list of events
    changes : dict from position to changes
        What happens before the event at that position: pairs of a method's name and its argument.
        Some are steps of their own, with notices: ``advance``, ``flush`` and ``expire``.
    clocks : tuple of numbers or None
        What the clock says to a batch, by the position at which it begins, over and over again;
        empty without a clock.
    """

    stream: Stream
    events: list[dict[str, Any]]
    changes: dict[int, list[tuple[str, Any]]] = field(default_factory=dict)
    clocks: tuple[int | None, ...] = ()

    def now(self, position: int) -> int | None:
        """Return what the clock says to a batch that begins at a position."""
        return self.clocks[position % len(self.clocks)] if self.clocks else None


@st.composite
def histories(
    draw: st.DrawFn, kinds: list[type[Query]], *, in_order: bool = False, steps: bool = True
) -> History:
    """Return histories in which queries come, change, go, pause and resume while events flow.

    With `steps`, time also advances without events, held events are let out, and keys expire. In
    order, no event is older than an earlier one, or than time was said to be, and the clock stands
    still. Without `steps` there always is a clock, if the stream compares times with one.
    """
    bare = all(kind.limited and not kind.about_attribute for kind in kinds)
    stream = draw(streams(bare=bare, timed=all(kind.required_spans for kind in kinds)))
    if stream.time is None:
        kinds = [kind for kind in kinds if not kind.required_spans]
    rows = draw(events(stream, in_order=in_order))
    history = History(stream, rows)
    if stream.max_ahead is not None:
        clock = st.integers(0, 30) | st.integers(190, 210)
        clocks = st.lists(clock if in_order or not steps else clock | st.none(), min_size=1)
        history.clocks = tuple(draw(clocks))[: 1 if in_order else None]
        if steps and draw(st.booleans()):
            history.clocks = ()
    live: dict[str, Query] = {}
    for step in range(draw(st.integers(1, 8))):
        position = 0 if step == 0 else draw(st.integers(0, len(rows)))
        history.changes.setdefault(position, [])
    for position in sorted(history.changes):
        for _ in range(draw(st.integers(1, 4))):
            history.changes[position].append(draw(_change(live, kinds, stream, steps)))
    if in_order and stream.time:
        _follow_advances(history)
    return history


def _follow_advances(history: History) -> None:
    """Let no event be older than what time was said to be before it."""
    said = 0
    for position, event in enumerate(history.events):
        for what, argument in history.changes.get(position, []):
            said = max(said, argument) if what == "advance" else said
        event["t"] = max(event["t"], said)


@st.composite
def _change(
    draw: st.DrawFn, live: dict[str, Query], kinds: list[type[Query]], stream: Stream, steps: bool
) -> tuple[str, Any]:
    """Return a change that is valid now; `live` has the live queries by id."""
    free = [name for name in "pqrstuvw" if name not in live]
    changes = ["register", "register", "deregister", "pause", "resume", "replace"]
    own_steps = ["advance", "flush", "expire", "reset_time"] if steps else []
    what = draw(st.sampled_from([*changes, *changes, *own_steps]))
    if what == "advance":
        return what, draw(st.integers(0, 40))
    if what == "flush":
        return what, None
    if what == "reset_time":
        return what, draw(st.integers(0, 20))
    if what == "expire":
        return what, draw(st.sampled_from(KEYS))
    if (what == "register" or not live) and free:
        name = draw(st.sampled_from(free))
        live[name] = draw(queries(draw(st.sampled_from(kinds)), name, stream))
        return "register", live[name]
    name = draw(st.sampled_from(sorted(live)))
    if what == "replace" and not may_end(live[name]):
        new = draw(queries(type(live[name]), name, stream))
        old = replace(live[name], owner=new.owner or draw(st.sampled_from([None, "ann"])))
        live[name] = draw(st.sampled_from([new, new, old]))
        return what, live[name]
    if what in ("deregister", "register", "replace"):
        del live[name]
        return "deregister", name
    return what, name


def may_end(query: Query) -> bool:
    """Tell whether a query may end by itself, which not every registry is told at once."""
    return query.ttl is not None or not getattr(query, "repeat", True)
