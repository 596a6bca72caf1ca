"""Rewriting of boxes without state, done whenever a plan is made: fuse, reorder, unite siblings."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from everquery.network.boxes.filter import Filter
from everquery.network.boxes.map import Map
from everquery.network.graph import infer, order
from everquery.network.optimizer.commuting import is_safe
from everquery.network.optimizer.fused import Fused
from everquery.network.optimizer.moving import moved, readers
from everquery.network.optimizer.siblings import unite
from everquery.network.rows import RowType
from everquery.network.runtime.figures import Figures
from everquery.network.spec import Box


def simplified(
    boxes: Mapping[str, Box],
    roots: Mapping[str, RowType],
    keep: Collection[str],
    figures: Mapping[str, Figures],
) -> tuple[dict[str, Box], list[str]]:
    """Return boxes that give the same with fewer steps, and what was done.

    Parameters
    ----------
    keep : collection of str
        Boxes whose rows are read by others than boxes; these come out as before.
    figures : mapping of str to Figures
        What filters have cost and let through so far.
    """
    notes: list[str] = []
    found = unite(dict(boxes), roots, notes)
    moved(found, roots, keep, notes)
    return _fuse(found, roots, keep, figures, notes), notes


def _fuse(
    boxes: dict[str, Box],
    roots: Mapping[str, RowType],
    keep: Collection[str],
    figures: Mapping[str, Figures],
    notes: list[str],
) -> dict[str, Box]:
    types = infer(boxes, roots)
    chains: dict[str, list[str]] = {}
    for name in order(boxes, roots):
        box = boxes[name]
        if not isinstance(box, (Filter, Map)) or not is_safe(box, types[box.sources[0]]):
            continue
        before = box.sources[0]
        if before in chains and before not in keep and readers(boxes, before) == [name]:
            chains[name] = [*chains.pop(before), name]
        else:
            chains[name] = [name]
    found = dict(boxes)
    for last, names in chains.items():
        if len(names) < 2:
            continue
        members = tuple((name, boxes[name]) for name in names)
        first = ranked([name for name, box in members if isinstance(box, Filter)], figures)
        for name in names:
            del found[name]
        found[last] = Fused(boxes[names[0]].sources, members=members, first=first)
        notes.append(f"{last}: {' -> '.join(names)} fused into one box")
        if first:
            notes.append(f"{last}: conditions in the order {', '.join(first)}")
    return found


def ranked(filters: list[str], figures: Mapping[str, Figures]) -> tuple[str, ...]:
    """Return filters by (1 - selectivity) / cost, the largest first; none if some are not measured.

    Each rules out a share of the rows at a cost; whoever rules out most for its cost goes first.
    """
    rank = {}
    for name in filters:
        known = figures.get(name)
        if known is None or not known.cost or known.selectivity is None:
            return ()
        rank[name] = (1 - known.selectivity) / known.cost
    return tuple(sorted(filters, key=lambda name: -rank[name]))
