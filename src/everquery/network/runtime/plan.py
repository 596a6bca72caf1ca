"""A plan: the boxes that run, their operators, and the arcs between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from everquery.network.graph import infer, order
from everquery.network.operator import Operator
from everquery.network.rows import RowType
from everquery.network.runtime.arcs import Arc
from everquery.network.runtime.figures import Figures
from everquery.network.spec import Box


@dataclass(slots=True)
class Node:
    """A box that runs."""

    name: str
    box: Box
    operator: Operator
    arcs: list[Arc]
    figures: Figures = field(default_factory=Figures)


@dataclass(slots=True)
class Plan:
    """The boxes in the order in which they run, and who reads from each name."""

    nodes: dict[str, Node]
    readers: dict[str, list[Arc]]
    types: dict[str, RowType]


def make_plan(
    boxes: Mapping[str, Box], roots: Mapping[str, RowType], before: Plan | None = None
) -> Plan:
    """Return a plan for boxes; what a former plan has of them goes on with its state.

    Parameters
    ----------
    before : Plan, optional
        Its operators, arcs and figures are taken for boxes that have not changed.
    """
    types = infer(boxes, roots)
    nodes: dict[str, Node] = {}
    readers: dict[str, list[Arc]] = {name: [] for name in (*roots, *boxes)}
    for name in order(boxes, roots):
        box = boxes[name]
        old = before.nodes.get(name) if before is not None else None
        inputs, output = [types[one] for one in box.sources], types[name]
        if old is not None and (old.box == box or _same_work(old.box, box)):
            node = old
            node.box = box
            if (tuple(inputs), output) != (node.operator.inputs, node.operator.output):
                node.operator.rebind(inputs, output)
            for arc, source in zip(node.arcs, box.sources, strict=True):
                arc.source = source
        else:
            arcs = [Arc(source, name) for source in box.sources]
            node = Node(name, box, box.operator(inputs, output), arcs)
        nodes[name] = node
        for arc in node.arcs:
            readers[arc.source].append(arc)
    return Plan(nodes, readers, types)


def _same_work(old: Box, new: Box) -> bool:
    """Tell whether two boxes differ in where they read from alone."""
    return type(old) is type(new) and old.reading(*new.sources) == new
