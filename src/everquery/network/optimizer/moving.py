"""Boxes without state that change places: filters, maps and drops, by the commutativity table."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from everquery.network.boxes.drop import Drop
from everquery.network.boxes.filter import Filter
from everquery.network.boxes.map import Map
from everquery.network.boxes.union import Union
from everquery.network.expressions.parsing import DIALECT, parse, parse_list
from everquery.network.graph import infer, order
from everquery.network.optimizer import commuting
from everquery.network.rows import RowType
from everquery.network.spec import Box


@dataclass(frozen=True)
class Pair:
    """A box and the one before it, which nobody else reads.

    Attributes
    ----------
    name, source : str
        Of the box, and of the one before it.
    inputs : list of RowType
        Of the one before.
    given : RowType
        What goes from that one to the box.
    """

    name: str
    box: Box
    source: str
    before: Box
    inputs: list[RowType]
    given: RowType


def readers(boxes: Mapping[str, Box], source: str) -> list[str]:
    """Return the boxes that read from a name, once for each arrow."""
    return [name for name, box in boxes.items() for one in box.sources if one == source]


def pair_of(
    name: str, boxes: Mapping[str, Box], roots: Mapping[str, RowType], keep: Collection[str]
) -> Pair | None:
    """Return a box with the one before it; None where that has other readers."""
    box = boxes[name]
    source = box.sources[0]
    if len(box.sources) != 1 or source not in boxes or source in keep:
        return None
    if readers(boxes, source) != [name]:
        return None
    types = infer(boxes, roots)
    before = boxes[source]
    return Pair(name, box, source, before, [types[one] for one in before.sources], types[source])


def moved(
    boxes: dict[str, Box], roots: Mapping[str, RowType], keep: Collection[str], notes: list[str]
) -> None:
    """Let boxes change places where that saves work, upstream as far as they come."""
    for name in order(boxes, roots):
        if not isinstance(boxes.get(name), (Filter, Map, Drop)):
            continue
        pair = pair_of(name, boxes, roots, keep)
        for move in _MOVES if pair is not None else ():
            assert pair is not None
            found = move(pair)
            if found is not None:
                del boxes[pair.source]
                boxes.update(found)
                notes.append(f"{name}: moved in front of {pair.before.kind} {pair.source}")
                break


def _through_union(pair: Pair) -> dict[str, Box] | None:
    union, box = pair.before, pair.box
    if not isinstance(union, Union):
        return None
    if isinstance(box, Filter):
        may = commuting.filter_before_union(box, union, [pair.given, *pair.inputs])
    else:
        may = isinstance(box, Map) and commuting.map_before_union(box, pair.given, pair.inputs)
    if not may:
        return None
    plain = without_tables(box)
    names = [f"{pair.name}@{at}" for at in range(len(union.sources))]
    parts = {own: plain.reading(one) for own, one in zip(names, union.sources, strict=True)}
    return {**parts, pair.name: Union(names)}


def _through_drop(pair: Pair) -> dict[str, Box] | None:
    """Put a filter in front of a drop, where it meets the filters and maps before that."""
    drop, box = pair.before, pair.box
    if not (isinstance(drop, Drop) and isinstance(box, Filter)):
        return None
    if not commuting.filter_before_drop(box, drop, pair.given):
        return None
    return _swapped(pair)


def _through_map(pair: Pair) -> dict[str, Box] | None:
    """Put a drop in front of a map, so that nothing is computed for rows that go."""
    box, drop = pair.before, pair.box
    if not (isinstance(drop, Drop) and isinstance(box, Map)):
        return None
    return _swapped(pair) if commuting.drop_before_map(drop, box, pair.inputs[0]) else None


def _swapped(pair: Pair) -> dict[str, Box]:
    first = f"{pair.name}@0"
    own = without_tables(pair.box).reading(*pair.before.sources)
    return {first: own, pair.name: without_tables(pair.before).reading(first)}


def without_tables(box: Box) -> Box:
    """Return a box whose expressions name columns alone, wherever it reads from."""
    if isinstance(box, Filter) and isinstance(box.where, str):
        return replace(box, where=_plain(parse(box.where)))
    if isinstance(box, Map) and isinstance(box.select, str):
        return replace(box, select=plain_list(box.select))
    return box


def plain_list(text: str) -> str:
    """Return a list of expressions that name columns alone."""
    return ", ".join(_plain(tree) for tree in parse_list(text))


def _plain(tree: exp.Expression) -> str:
    for column in tree.find_all(exp.Column):
        column.set("table", None)
    return tree.sql(DIALECT)


_MOVES: tuple[Callable[[Pair], dict[str, Box] | None], ...] = (
    _through_union,
    _through_drop,
    _through_map,
)
