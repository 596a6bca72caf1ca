"""A network as a picture: layers from left to right, drawn as SVG without any other program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from everquery.network.graph import order

if TYPE_CHECKING:
    import pyarrow as pa

    from everquery.network.model import Network

WIDTH, HEIGHT, ACROSS, DOWN, MARGIN = 150, 46, 70, 26, 24
LETTERS = 20  # of a text inside a node
COLOURS = {
    "stream": "#dbeafe",
    "output": "#dcfce7",
    "point": "#fef3c7",
    "watch": "#ede9fe",
}
PLAIN = "#f8fafc"


@dataclass(slots=True)
class Spot:
    """A node of the picture: what it is called, what kind it is, and where it stands."""

    name: str
    kind: str
    layer: int
    row: float = 0.0
    figure: str = ""

    @property
    def x(self) -> float:
        """Its left side."""
        return MARGIN + self.layer * (WIDTH + ACROSS)

    @property
    def y(self) -> float:
        """Its upper side."""
        return MARGIN + self.row * (HEIGHT + DOWN)


def draw(network: Network, stats: pa.Table | None = None) -> str:
    """Return a network as SVG.

    Parameters
    ----------
    stats : Arrow table, optional
        What `Run.stats` gave: rows and costs are written into the boxes.

    Examples
    --------
    >>> from everquery.network import Network
    >>> network = Network.load('''
    ... network: tiny
    ... streams: {s: {attributes: [x]}}
    ... boxes: {f: {box: filter, from: s, where: x > 1}}
    ... outputs: {o: {from: f}}
    ... ''')
    >>> draw(network).startswith("<svg")
    True
    """
    spots, arcs = _layout(network)
    figures = {} if stats is None else {row["name"]: row for row in stats.to_pylist()}
    for spot in spots.values():
        spot.figure = _figure(figures.get(spot.name.partition(":")[2]))
    width = max(spot.x for spot in spots.values()) + WIDTH + MARGIN
    height = max(spot.y for spot in spots.values()) + HEIGHT + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}"'
        f' viewBox="0 0 {width:g} {height:g}" font-family="sans-serif" font-size="12">',
        f"<title>{escape(network.name)}</title>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7"'
        ' markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="#64748b"/></marker></defs>',
        *_groups(spots),
        *(_arc(spots[source], spots[target]) for source, target in arcs),
        *(_node(spot) for spot in spots.values()),
        "</svg>",
    ]
    return "\n".join(parts)


def _layout(network: Network) -> tuple[dict[str, Spot], list[tuple[str, str]]]:
    """Return the nodes with their places, and the arcs: layers by the longest way there."""
    boxes = network.readable
    spots = {name: Spot(f"stream:{name}", "stream", 0) for name in network.streams}
    arcs = []
    for name in order(boxes, network.streams):
        box = boxes[name]
        layer = 1 + max(spots[source].layer for source in box.sources)
        spots[name] = Spot(f"box:{name}", box.kind, layer)
        arcs += [(source, name) for source in dict.fromkeys(box.sources)]
    last = 1 + max(spot.layer for spot in spots.values())
    for name, output in network.outputs.items():
        spots[f"output {name}"] = Spot(f"output:{name}", "output", last)
        arcs.append((output.source, f"output {name}"))
    _place(spots, arcs)
    return spots, arcs


def _place(spots: Mapping[str, Spot], arcs: list[tuple[str, str]]) -> None:
    """Give each node a row: those of a layer in the order of the middle of what they read from."""
    before: dict[str, list[str]] = {name: [] for name in spots}
    for source, target in arcs:
        before[target].append(source)
    for layer in range(1 + max(spot.layer for spot in spots.values())):
        names = [name for name, spot in spots.items() if spot.layer == layer]
        middle = {
            name: sum(spots[one].row for one in before[name]) / max(len(before[name]), 1)
            for name in names
        }
        row = 0.0
        for name in sorted(names, key=lambda name: middle[name]):
            spots[name].row = max(row, middle[name]) if layer else row
            row = spots[name].row + 1


def _groups(spots: Mapping[str, Spot]) -> list[str]:
    """Return a frame around the boxes of each group, outer ones first."""
    inside: dict[str, list[Spot]] = {}
    for spot in spots.values():
        kind, _, name = spot.name.partition(":")
        path = name.split(".")[:-1] if kind == "box" else []
        for depth in range(1, len(path) + 1):
            inside.setdefault(".".join(path[:depth]), []).append(spot)
    parts = []
    for group, members in sorted(inside.items()):
        x, y = min(spot.x for spot in members) - 10, min(spot.y for spot in members) - 14
        width = max(spot.x for spot in members) + WIDTH + 10 - x
        height = max(spot.y for spot in members) + HEIGHT + 8 - y
        parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="8" fill="none"'
            f' stroke="#94a3b8" stroke-dasharray="4 3"/><text x="{x + 6:g}" y="{y + 11:g}"'
            f' font-size="10" fill="#64748b">{escape(group)}</text>'
        )
    return parts


def _arc(source: Spot, target: Spot) -> str:
    x, y = source.x + WIDTH, source.y + HEIGHT / 2
    end_x, end_y = target.x, target.y + HEIGHT / 2
    bend = (end_x - x) / 2
    return (
        f'<path d="M{x:g} {y:g}C{x + bend:g} {y:g} {end_x - bend:g} {end_y:g} {end_x:g}'
        f' {end_y:g}" fill="none" stroke="#64748b" marker-end="url(#tip)"/>'
    )


def _node(spot: Spot) -> str:
    full = spot.name.partition(":")[2]
    name = full.rsplit(".", 1)[-1] if spot.kind not in ("stream", "output") else full
    shown = name if len(name) <= LETTERS else f"{name[: LETTERS - 1]}…"
    below = f"{spot.kind}{f' · {spot.figure}' if spot.figure else ''}"
    middle = spot.x + WIDTH / 2
    return (
        f'<g><title>{escape(full)}</title><rect x="{spot.x:g}" y="{spot.y:g}" width="{WIDTH}"'
        f' height="{HEIGHT}" rx="6" fill="{COLOURS.get(spot.kind, PLAIN)}" stroke="#334155"/>'
        f'<text x="{middle:g}" y="{spot.y + 19:g}" text-anchor="middle">{escape(shown)}</text>'
        f'<text x="{middle:g}" y="{spot.y + 36:g}" text-anchor="middle" font-size="10"'
        f' fill="#475569">{escape(below)}</text></g>'
    )


def _figure(row: Mapping[str, Any] | None) -> str:
    """Return what a node says of itself: rows that came, and nanoseconds for each."""
    if row is None or row["rows_in"] is None:
        return ""
    cost = "" if row["cost"] is None else f", {row['cost'] * 1e9:,.0f} ns"
    return f"{row['rows_in']:,} rows{cost}"
