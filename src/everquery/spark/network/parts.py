"""Which boxes of a network run where on Spark, and the part of it that leads to some outputs."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from everquery.errors import InvalidNetworkError
from everquery.network.boxes.watch import Watch
from everquery.network.graph import order
from everquery.network.model import Network
from everquery.network.spec import Box

SPARK, STATE, WATCH = "spark", "state", "watch"
"""By Spark's own operators; in the stateful stage; behind a watch box that follows a registry."""


def follows(box: Box) -> bool:
    """Tell whether a box is a watch box that follows a registry."""
    return isinstance(box, Watch) and box.registry is not None


def ways_of(network: Network, native: Collection[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return how each stream and box is run, and the watch box that each is behind, if any.

    Parameters
    ----------
    native : names of streams and boxes that Spark can run by itself

    Raises
    ------
    InvalidNetworkError
        If a box puts what comes from a registry's notices together with something else.
    """
    ways = {name: SPARK if name in native else STATE for name in network.streams}
    base: dict[str, str] = {}
    boxes = network.readable
    for name in order(boxes, network.streams):
        box = boxes[name]
        behind = {base.get(source) for source in box.sources}
        if follows(box):
            ways[name], base[name] = WATCH, name
        elif behind == {None}:
            ways[name] = SPARK if name in native else STATE
        elif len(behind) == 1:
            ways[name], base[name] = WATCH, str(behind.pop())
        else:
            raise behind_registry(name, box, str((behind - {None}).pop()))
    return ways, base


def behind_registry(name: str, box: Box, watched: str) -> InvalidNetworkError:
    """Return the error of a box that can't stand behind a watch box with a registry."""
    return InvalidNetworkError(
        f"box {name!r} ({box.kind}) reads notices of {watched!r}, which follows a registry; on"
        " Spark such notices go through filters and maps that can't fail on a row, and to outputs."
        f" Give {watched!r} its `queries` in the network, or put {name!r} into a network of its own"
    )


def part_of(network: Network, outputs: Mapping[str, str]) -> Network:
    """Return what leads to some outputs.

    Parameters
    ----------
    outputs : mapping of str to str
        The box or stream that each reads from.
    """
    boxes = network.readable
    wanted: set[str] = set()
    rest = list(outputs.values())
    while rest:
        name = rest.pop()
        if name not in wanted:
            wanted.add(name)
            rest += boxes[name].sources if name in boxes else ()
    return Network(
        network.name,
        {name: source for name, source in network.streams.items() if name in wanted},
        {name: box for name, box in network.boxes.items() if name in wanted},
        dict(outputs),
        # Nobody attaches there, so nothing is kept.
        {name: point.source for name, point in network.points.items() if name in wanted},
    )
