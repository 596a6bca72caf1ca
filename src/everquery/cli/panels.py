"""What the live views of the demo are put together from."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from rich import box
from rich.console import Console, Group
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

LATEST = 6
ROOM_FOR_CTRL_C = ""  # terminals echo ^C; at the end of a full line it would wrap and shift all
EVENT_STYLES = {"enter": "green", "leave": "red", "match": "cyan"}


def is_live(console: Console) -> bool:
    """Tell whether somebody looks at a terminal that can be redrawn."""
    return console.is_interactive and console.file.isatty()


def panel(title: str, rows: dict[str, str], below: str, style: str, *, height: int = 7) -> Panel:
    """Return names and values in a frame, with a line of bars below."""
    grid = Table.grid(expand=True)
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(justify="right", no_wrap=True)
    for name, value in rows.items():
        grid.add_row(name, value)
    inside = Group(grid, Text(below, style, no_wrap=True)) if below else grid
    return Panel(
        inside, title=title, title_align="left", border_style=style, box=box.ROUNDED, height=height
    )


def bar(share: float, text: str) -> Table:
    """Return a bar, and what is said of it."""
    grid = Table.grid(expand=True, padding=(0, 1))
    grid.add_column(ratio=1)
    grid.add_column(justify="right", no_wrap=True)
    grid.add_row(ProgressBar(total=1.0, completed=min(share, 1.0)), text)
    return grid


def latest_notices(notices: pa.Table) -> Panel:
    """Return the last notices of a market, the newest first."""
    table = Table(box=None, expand=True, padding=(0, 1), header_style="dim")
    for name in ("query", "event", "symbol", "price", "time"):
        table.add_column(name, justify="right" if name == "price" else "left", no_wrap=True)
    last = notices.slice(max(0, notices.num_rows - LATEST))
    for notice in reversed(last.to_pylist()):
        table.add_row(*_cells(notice))
    for _ in range(LATEST - last.num_rows):
        table.add_row("")
    return Panel(table, title="latest notices", title_align="left", border_style="blue")


def _cells(notice: dict[str, Any]) -> tuple[Text | str, ...]:
    event = Text(notice["event"], EVENT_STYLES[notice["event"]])
    if notice["reason"] is not None:
        event.append(f" ({notice['reason']})", "dim")
    price = f"{notice['price']:,.2f}"
    return notice["query_id"], event, notice["key"], price, f"{notice['time']:%H:%M:%S.%f}"
