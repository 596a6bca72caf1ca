"""What the live views of the demo are put together from."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from everquery.cli.demo.plan import Plan
from everquery.sinks.lines import event_colours

LATEST = 6
LATEST_FIRES = 2  # of them, though fires are few among the others
ROOM_FOR_CTRL_C = ""  # terminals echo ^C; at the end of a full line it would wrap and shift all


def is_live(console: Console) -> bool:
    """Tell whether somebody looks at a terminal that can be redrawn."""
    return console.is_interactive and console.file.isatty()


class Screen:
    """A part of a terminal that is drawn again and again, and cleared at the end of its block.

    Where nothing is to be drawn it is dark, and draws nothing.
    """

    def __init__(self, console: Console, *, dark: bool) -> None:
        # Drawn when asked: a thread of its own would contend with the engine.
        self._live = None if dark else Live(console=console, auto_refresh=False, transient=True)

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Clear it; a summary takes its place."""
        if self._live is not None:
            self._live.stop()

    def draw(self, shown: RenderableType) -> None:
        """Draw something in the place of what was there."""
        if self._live is not None:
            self._live.update(Group(shown, ROOM_FOR_CTRL_C), refresh=True)


def frame(plan: Plan, doing: str, inside: RenderableType) -> Panel:
    """Return the head of a demo's view."""
    title = f"[bold]everquery[/] {plan.queries:,} queries, {plan.symbols:,} symbols, {doing}"
    return Panel(inside, title=title, title_align="left", border_style="blue")


def in_thirds(*panels: Panel) -> Table:
    """Return three panels side by side."""
    grid = Table.grid(expand=True)
    for _ in panels:
        grid.add_column(ratio=1)
    grid.add_row(*panels)
    return grid


def width_within_third(console: Console) -> int:
    """Return a third of the width, less the border and padding of a panel."""
    return console.width // 3 - 4


def live_queries(
    plan: Plan,
    registered: Mapping[str, int],
    dropped: Mapping[str, int],
    ended: Mapping[str, int],
) -> dict[str, str]:
    """Return how many queries of each kind there are, and how many came and went."""
    return {
        **{
            kind: f"{count + registered[kind] - dropped[kind] - ended[kind]:,}"
            for kind, count in plan.by_kind().items()
        },
        "added live": f"{sum(registered.values()):,}",
        "dropped live": f"{sum(dropped.values()):,}",
    }


def panel(title: str, rows: dict[str, str], below: str, style: str, *, height: int = 8) -> Panel:
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
    """Return the last notices of a market, the newest first; the last fires are among them."""
    table = Table(box=None, expand=True, padding=(0, 1), header_style="dim")
    for name in ("query", "event", "symbol", "price", "time"):
        table.add_column(name, justify="right" if name == "price" else "left", no_wrap=True)
    last = notices.take(_latest_rows(notices)) if notices.num_rows else notices
    for notice in reversed(last.to_pylist()):
        table.add_row(*_row_of(notice))
    for _ in range(LATEST - last.num_rows):
        table.add_row("")
    return Panel(table, title="latest notices", title_align="left", border_style="blue")


def _latest_rows(notices: pa.Table) -> list[int]:
    fires = pc.indices_nonzero(pc.equal(notices["event"], "fire")).to_pylist()[-LATEST_FIRES:]
    rows = range(max(0, notices.num_rows - LATEST - LATEST_FIRES), notices.num_rows)
    others = [row for row in rows if row not in fires]
    return sorted([*fires, *others[len(fires) - LATEST :]])


def _row_of(notice: dict[str, Any]) -> tuple[Text | str, ...]:
    event = Text(notice["event"], event_colours().get(notice["event"], ""))
    if notice["reason"] is not None:
        event.append(f" ({notice['reason']})", "dim")
    if notice["event"] == "fire":
        event.append(f" ({notice['total']:,})", "dim")
    price = f"{notice['price']:,.2f}"
    return notice["query_id"], event, notice["key"], price, f"{notice['time']:%H:%M:%S.%f}"
