"""Refused events in a summary: the first values of each reason, and where they are."""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from everquery.sinks.lines import shown
from everquery.state.dead_letters import Example

NUMERIC = ("unreadable_attribute", "unreadable_weight")  # where a number belongs
QUOTED = "text, as it is in quotes: numbers of JSON have none"


class InputRows:
    """Which rows of all came from which input.

    Parameters
    ----------
    known : list
        What `as_list` returned in an earlier run.
    """

    def __init__(self, known: Sequence[Sequence[Any]] = ()) -> None:
        self._parts = [(int(first), str(name), int(row)) for first, name, row in known]

    def as_list(self) -> list[list[Any]]:
        """Return it in values that JSON can hold."""
        return [list(part) for part in self._parts]

    def begin(self, name: str, first: int, row: int = 0) -> None:
        """Note that an input begins, with its row `row`, as row `first` over all inputs."""
        self._parts.append((first, name, row))

    def place(self, row: int) -> tuple[str, int]:
        """Return the input of a row, and its number there, from 0."""
        at = bisect_right(self._parts, row, key=lambda part: part[0]) - 1
        first, name, begin = self._parts[at]
        return name, row - first + begin

    def letters(self, letters: pa.Table) -> pa.Table:
        """Return dead letters as they are listed: by input and row, all but numbers as text."""
        places = [self.place(row) for row in letters["position"].to_pylist()]
        columns = {
            "input": pa.array([name for name, _ in places], pa.string()),
            "row": pa.array([row for _, row in places], pa.int64()),
        }
        for name in letters.column_names[1:]:
            column = letters[name]
            columns[name] = (
                column if pa.types.is_floating(column.type) else column.cast(pa.string())
            )
        return pa.table(columns)


def as_records(
    examples: dict[str, list[Example]], rows: InputRows
) -> dict[str, list[dict[str, Any]]]:
    """Return examples by reason, for programs."""
    records: dict[str, list[dict[str, Any]]] = {}
    for reason, found in sorted(examples.items()):
        for example in found:
            name, row = rows.place(example.row)
            record = {"input": name, "row": row, "column": example.column, "value": example.value}
            if reason in NUMERIC and _is_quoted_number(example.value):
                record["note"] = QUOTED
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
    note = f" ({record['note']})" if "note" in record else ""
    return f"{record['column']} is {'null' if value is None else shown(value)}{note}"


def _is_quoted_number(value: str | None) -> bool:
    """Tell whether a value of JSON is a text that reads like a number."""
    try:
        text = json.loads(value or "")
        return isinstance(text, str) and math.isfinite(float(text))
    except ValueError:
        return False
