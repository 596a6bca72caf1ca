"""Refused events in a summary: the first values of each reason, and where they are."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

from everquery.sinks.lines import shown
from everquery.state.dead_letters import Example


class InputRows:
    """Which rows of all came from which input."""

    def __init__(self) -> None:
        self._first: list[int] = []
        self._names: list[str] = []

    def begin(self, name: str, row: int) -> None:
        """Note that an input begins with a row, counted over all inputs."""
        self._first.append(row)
        self._names.append(name)

    def place(self, row: int) -> tuple[str, int]:
        """Return the input of a row, and its number there, from 0."""
        at = bisect_right(self._first, row) - 1
        return self._names[at], row - self._first[at]


def as_records(
    examples: dict[str, list[Example]], rows: InputRows
) -> dict[str, list[dict[str, Any]]]:
    """Return examples by reason, for programs."""
    records: dict[str, list[dict[str, Any]]] = {}
    for reason, found in sorted(examples.items()):
        for example in found:
            name, row = rows.place(example.row)
            record = {"input": name, "row": row, "column": example.column, "value": example.value}
            records.setdefault(reason, []).append(record)
    return records


def refusal_lines(
    counts: dict[str, int], records: dict[str, list[dict[str, Any]]]
) -> Iterator[str]:
    """Yield a line for each reason: how many, and the first of them."""
    for reason, found in records.items():
        texts = [f"{each['input']} row {each['row']:,}, {_value(each)}" for each in found]
        if counts[reason] > len(found):
            texts.append(f"and {counts[reason] - len(found):,} more")
        yield f"  {reason} {counts[reason]:,}: {'; '.join(texts)}"


def _value(record: dict[str, Any]) -> str:
    value = record["value"]
    return f"{record['column']} is {'null' if value is None else shown(value)}"
