"""Changes of a running network: boxes that attach to connection points, and detach again."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from everquery.errors import InvalidNetworkError
from everquery.network import yaml_form
from everquery.network.ends import Output
from everquery.network.model import Network
from everquery.network.spec import Box


def with_boxes(
    network: Network,
    attached: Collection[str],
    boxes: Mapping[str, Any],
    outputs: Mapping[str, Any],
) -> tuple[Network, dict[str, Box], dict[str, Output]]:
    """Return a network with further boxes and outputs, and what these are.

    Raises
    ------
    InvalidNetworkError
        If a name is taken, or a box reads from what is no connection point.
    """
    for what, given in (("boxes", boxes), ("outputs", outputs)):
        if not isinstance(given, Mapping):
            raise InvalidNetworkError(f"{what} are {given!r}; give them by their names")
    made = {name: yaml_form.read_box(name, form) for name, form in boxes.items()}
    ends = {name: Output.read(form) for name, form in outputs.items()}
    for what, names, known in (
        ("a box", made, {*network.boxes, *network.streams, *network.points}),
        ("an output", ends, {*network.outputs}),
    ):
        taken = [name for name in names if name in known]
        if taken:
            raise InvalidNetworkError(f"the network has {what} {taken[0]!r} already")
    free = {*network.points, *made, *attached}
    for name, box in made.items():
        for source in box.sources:
            if source not in free and source in {*network.boxes, *network.streams}:
                raise InvalidNetworkError(
                    f"box {name!r} reads from {source!r}, which is no connection point; points are"
                    f" {', '.join(network.points) or 'none: name some in `points`'}"
                )
    whole = Network(
        network.name,
        network.streams,
        {**network.boxes, **made},
        {**network.outputs, **ends},
        network.points,
    )
    return whole, made, ends


def without_boxes(network: Network, names: Collection[str]) -> Network:
    """Return a network without some boxes and outputs.

    Raises
    ------
    InvalidNetworkError
        If one is not there, or another needs it.
    """
    for name in names:
        if name not in network.boxes and name not in network.outputs:
            raise InvalidNetworkError(f"there is no box or output {name!r} to detach")
    boxes = {name: box for name, box in network.boxes.items() if name not in names}
    outputs = {name: one for name, one in network.outputs.items() if name not in names}
    gone = {name for name in names if name in network.boxes}
    needs = [
        *((f"box {name!r}", box.sources) for name, box in boxes.items()),
        *((f"output {name!r}", (one.source,)) for name, one in outputs.items()),
        *((f"point {name!r}", (one.source,)) for name, one in network.points.items()),
    ]
    for who, sources in needs:
        for source in sources:
            if source in gone:
                raise InvalidNetworkError(
                    f"box {source!r} can't be detached: {who} reads from it; detach that too"
                )
    return Network(network.name, network.streams, boxes, outputs, network.points)
