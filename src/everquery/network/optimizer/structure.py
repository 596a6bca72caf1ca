"""Rewriting around joins and resamples, done once, before rows come: their state depends on it.

A filter behind a join becomes filters in front of it, a map behind it what the join itself
computes, and columns that nobody reads are left out in front of it. What is decided here follows
from the network alone, so that snapshots fit.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from sqlglot import exp

from everquery.network.boxes.filter import Filter
from everquery.network.boxes.join import Join
from everquery.network.boxes.map import Map
from everquery.network.boxes.passing import Passing
from everquery.network.boxes.resample import Resample
from everquery.network.graph import infer, order
from everquery.network.optimizer.commuting import (
    filter_before_join,
    filter_before_resample,
    is_safe,
    map_into_join,
    parts_of,
)
from everquery.network.optimizer.liveness import join_reads, needed_columns
from everquery.network.optimizer.moving import Pair, pair_of, plain_list, without_tables
from everquery.network.rows import RowType
from everquery.network.spec import Box

DIALECT = "duckdb"


def structured(
    boxes: Mapping[str, Box], roots: Mapping[str, RowType], keep: Collection[str]
) -> tuple[dict[str, Box], list[str]]:
    """Return boxes that give the same with less in their joins, and what was done.

    Parameters
    ----------
    keep : collection of str
        Boxes whose rows are read by others than boxes; they stay as they are.
    """
    notes: list[str] = []
    found = dict(boxes)
    for name in order(boxes, roots):
        for move in (_push_through_join, _push_through_resample, _compute_in_join):
            pair = pair_of(name, found, roots, keep)
            if pair is not None:
                move(pair, found, notes)
    types = infer(found, roots)
    needed = needed_columns(found, types, keep)
    for name in list(found):
        box = found[name]
        if isinstance(box, Join):
            found.update(_projected(name, box, types, needed[name], notes))
    return found, notes


def _push_through_join(pair: Pair, boxes: dict[str, Box], notes: list[str]) -> None:
    name, source, join, condition = pair.name, pair.source, pair.before, pair.box
    if not isinstance(condition, Filter) or not isinstance(join, Join):
        return
    if not is_safe(condition, pair.given):
        return
    inputs = pair.inputs
    moved: dict[int, list[exp.Expression]] = {0: [], 1: []}
    rest = []
    for part in parts_of(condition):
        sides = filter_before_join(part, join, inputs)
        for side, tree in sides.items():
            moved[side].append(tree)
        if not sides:
            rest.append(part)
    if not any(moved.values()):
        return
    sources = list(join.sources)
    for side, trees in moved.items():
        if trees:
            own = f"{source}@{side}"
            where = " AND ".join(f"({tree.sql(DIALECT)})" for tree in trees)
            boxes[own] = Filter(sources[side], where=where)
            sources[side] = own
            notes.append(f"{name}: {where} moved in front of join {source}, on its side {side}")
    boxes[source] = named_join(join).reading(*sources)
    text = " AND ".join(f"({part.sql(DIALECT)})" for part in rest)
    boxes[name] = Filter(source, where=text) if rest else Passing(source)


def _push_through_resample(pair: Pair, boxes: dict[str, Box], notes: list[str]) -> None:
    resample, condition = pair.before, pair.box
    if not isinstance(condition, Filter) or not isinstance(resample, Resample):
        return
    if not filter_before_resample(condition, resample, pair.inputs):
        return
    where = without_tables(condition)
    names = [f"{pair.source}@{side}" for side in (0, 1)]
    for own, source in zip(names, resample.sources, strict=True):
        boxes[own] = where.reading(source)
    boxes[pair.source] = replace(resample, predict=plain_list(resample.predict)).reading(*names)
    boxes[pair.name] = Passing(pair.source)
    notes.append(f"{pair.name}: moved in front of resample {pair.source}, on both sides")


def _compute_in_join(pair: Pair, boxes: dict[str, Box], notes: list[str]) -> None:
    join, box = pair.before, pair.box
    if not isinstance(box, Map) or not isinstance(join, Join):
        return
    select = map_into_join(box, join, pair.inputs)
    if select is None:
        return
    whole = replace(named_join(join), select=select)
    if whole.infer(pair.inputs) != box.infer([pair.given]):
        return  # which column is the time would be another
    boxes[pair.source], boxes[pair.name] = whole, Passing(pair.source)
    notes.append(f"{pair.name}: computed in join {pair.source}")


def named_join(join: Join) -> Join:
    """Return a join that calls its sides as it did, wherever it reads from."""
    names = [one.rsplit(".", 1)[-1] for one in join.sources]
    return replace(join, names=join.names or names)


def _projected(
    name: str, join: Join, types: Mapping[str, RowType], needed: set[str], notes: list[str]
) -> dict[str, Box]:
    """Return the join, with maps in front of it that leave out what nobody reads."""
    inputs = [types[one] for one in join.sources]
    plan = join.plan(inputs)
    items = [item for item in plan.items if item.name in needed] or plan.items[:1]
    sides = join_reads(join, inputs, {item.name for item in items})
    found: dict[str, Box] = {}
    sources = list(join.sources)
    for side, wanted in enumerate(sides):
        columns = [one for one in inputs[side].columns if one in wanted]
        if len(columns) < len(inputs[side].columns):
            own = f"{name}@columns{side}"
            found[own] = Map(sources[side], select=", ".join(_quoted(one) for one in columns))
            left_out = [one for one in inputs[side].columns if one not in wanted]
            notes.append(f"{name}: {', '.join(left_out)} of {sources[side]} left out: nobody reads")
            sources[side] = own
    if not found:
        return {}
    calls = named_join(join)
    select = ", ".join(f"{item.tree.sql(DIALECT)} AS {_quoted(item.name)}" for item in items)
    found[name] = replace(calls, select=select).reading(*sources)
    return found


def _quoted(name: str) -> str:
    return exp.to_identifier(name, quoted=True).sql(DIALECT)
