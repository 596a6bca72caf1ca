"""Listings: a table for people, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from everquery.sinks.lines import shown

WIDEST = 1_000_000  # characters of a table that goes to a file or a pipe


def print_json(value: object, *, err: bool = False) -> None:
    """Print a value as JSON."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False, default=str), err=err)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows under their names; wide ones are never cut where nobody sees the terminal."""
    console = Console(highlight=False)
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for name in columns:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(cell(value) for value in row))
    if not console.is_terminal:
        endless = console.options.update(max_width=WIDEST)
        width = max(console.measure(table, options=endless).maximum, 80)
        console = Console(highlight=False, width=width)
    console.print(table, crop=False, no_wrap=False)


def print_record(record: Mapping[str, object]) -> None:
    """Print names and values, one a line."""
    width = max((len(name) for name in record), default=0)
    for name, value in record.items():
        typer.echo(f"{name:<{width}}  {plain(value)}")


def plain(value: object) -> str:
    """Return a value as text that a terminal may be given."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return shown(str(value))


def cell(value: object) -> str:
    """Return a value as the text of a cell."""
    return escape(plain(value))


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun.

    Examples
    --------
    >>> counted(1, "query", "queries"), counted(2_000, "row")
    ('1 query', '2,000 rows')
    """
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


Record = dict[str, Any]
