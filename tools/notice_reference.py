"""Writes the tables of docs/notices.md anew: ``python -m tools.notice_reference``.

The columns of notices, by the kinds that fill them, what kinds tell, and why events are refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa

from everquery import Stream
from everquery.kinds import KINDS, Kind
from everquery.shard.layout import notice_schema
from everquery.shard.outcomes import columns_of
from everquery.state.events import REASONS
from everquery.state.reasons import REFUSALS

PAGE = Path(__file__).parents[1] / "docs" / "notices.md"

ATTRIBUTE = "an attribute"
SHARED = {
    "query_id": "the query that tells it",
    "kind": "its kind",
    "event": "what happened; see below",
    "key": "the key to which it happened; null without one",
    "time": "when: the time of the event, or the moment at which something that waited became due",
    "seq": "which event of the key, counted from 0; -1 where it is about no event",
    "reason": "why, where it is not the event by itself; see below",
    ATTRIBUTE: "its value in that event; each attribute of the stream has a column",
    "held_back": "how many notices a throttled one stands for",
    "owner": "whose query it is; with `labels=True` only",
    "labels": "the query's labels as a JSON object; with `labels=True` only",
    "notice_id": "the same whenever the same notice is told again: drop repeats by it",
}
WHY = {
    "backfill": "it lies in the past: the query was registered later, with `begin` there",
    "expired": "the key was silent for the stream's `expire_after`, or `expire` forgot it",
    "registered": "it was so already when the query was registered",
    "resumed": "it was so already when the query was resumed",
    "replaced": "the query was replaced, and its new range makes the difference",
    "unheard": "nothing has ever been heard from the key",
    "throttled": "the last of the notices that `throttle` held back; `held_back` counts them",
    "ttl": "the query's `ttl` has passed",
}
FROM_RULES = {"throttled": "any", "ttl": "`end`", "backfill": "any"}  # whatever the kind


def marks(name: str) -> tuple[str, str]:
    """Return what stands before and behind a table in the page."""
    return f"<!-- {name}: written by tools/notice_reference.py -->\n", f"<!-- /{name} -->\n"


def written(page: str, kinds: Mapping[str, Kind]) -> str:
    """Return the page with its tables anew."""
    tables = {
        "shared columns": _shared_columns(),
        "columns of kinds": _columns_of_kinds(kinds),
        "events": _events(kinds),
        "reasons": _reasons(kinds),
        "dead letters": _dead_letters(),
    }
    for name, rows in tables.items():
        begin, end = marks(name)
        before, found, rest = page.partition(begin)
        _, found_too, after = rest.partition(end)
        if not (found and found_too):
            raise LookupError(f"the page has no place for {name}")
        page = before + begin + "\n".join(rows) + "\n" + end + after
    return page


def own_kinds() -> dict[str, Kind]:
    """Return the kinds that everquery brings along."""
    return {name: kind for name, kind in KINDS.items() if kind.package.startswith("everquery.")}


def _shared_columns() -> Iterator[str]:
    stream = Stream("s", key="k", time="t", attributes=[ATTRIBUTE])
    schema = notice_schema(stream, pa.null(), pa.null(), labelled=True, kinds={})
    yield "| column | type | meaning |"
    yield "|---|---|---|"
    for column in schema:
        name = column.name if column.name == ATTRIBUTE else f"`{column.name}`"
        yield f"| {name} | {_type(column)} | {SHARED[column.name]} |"


def _type(column: pa.Field) -> str:
    if column.name in ("key", "time"):
        return "as in the events"
    kind = column.type
    if pa.types.is_dictionary(kind):
        return f"{kind.value_type} (dictionary)"
    return f"{kind.byte_width} bytes" if pa.types.is_fixed_size_binary(kind) else str(kind)


def _columns_of_kinds(kinds: Mapping[str, Kind]) -> Iterator[str]:
    yield "| column | type | " + " | ".join(kinds) + " | meaning |"
    yield "|---" * (len(kinds) + 3) + "|"
    for name, column in columns_of(kinds).items():
        filled = [
            "yes" if name in {each.name for each in kind.index.columns} else ""
            for kind in kinds.values()
        ]
        yield f"| `{name}` | {column.type} | {' | '.join(filled)} | {column.meaning} |"


def _events(kinds: Mapping[str, Kind]) -> Iterator[str]:
    yield "| kind | events | reasons |"
    yield "|---|---|---|"
    for name, kind in kinds.items():
        events = dict.fromkeys(f"`{outcome.event}`" for outcome in kind.index.outcomes)
        reasons = dict.fromkeys(
            f"`{outcome.reason}` ({outcome.event})"
            for outcome in kind.index.outcomes
            if outcome.reason
        )
        yield f"| {name} | {', '.join(events)} | {', '.join(reasons)} |"
    rules = ", ".join(f"`{reason}` ({event.strip('`')})" for reason, event in FROM_RULES.items())
    yield f"| any | `end` | {rules} |"


def _reasons(kinds: Mapping[str, Kind]) -> Iterator[str]:
    yield "| reason | meaning |"
    yield "|---|---|"
    told = {outcome.reason for kind in kinds.values() for outcome in kind.index.outcomes}
    for reason in sorted({*told, *FROM_RULES} - {None}, key=str):
        yield f"| `{reason}` | {WHY[str(reason)]} |"


def _dead_letters() -> Iterator[str]:
    yield "| reason | what is wrong | what to do |"
    yield "|---|---|---|"
    for reason in REASONS:
        if reason:
            refusal = REFUSALS[reason]
            yield f"| `{reason}` | {refusal.meaning} | {refusal.remedy} |"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), own_kinds()), encoding="utf-8")
