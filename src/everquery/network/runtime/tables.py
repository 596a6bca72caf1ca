"""What a run knows of itself, as tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from everquery.network.ends import Output
from everquery.network.operator import Letters
from everquery.network.optimizer.fused import FusedOperator
from everquery.network.runtime.arcs import Kept
from everquery.network.runtime.figures import Figures
from everquery.network.runtime.intake import Intake
from everquery.network.runtime.plan import Plan

STATS = pa.schema(
    [
        ("what", pa.string()),
        ("name", pa.string()),
        ("kind", pa.string()),
        ("rows_in", pa.int64()),
        ("rows_out", pa.int64()),
        ("selectivity", pa.float64()),
        ("seconds", pa.float64()),
        ("cost", pa.float64()),
        ("rate", pa.float64()),
        ("queued", pa.int64()),
        ("held", pa.int64()),
        ("dead_letters", pa.int64()),
        ("dropped", pa.int64()),
    ]
)
"""One row a stream, box, arc or output. ``cost`` is seconds a row, ``rate`` rows a second of work,
``queued`` rows that wait in front of a box, ``held`` rows that its windows keep, ``dropped`` rows
of an output that nobody read."""


def measured(plan: Plan) -> dict[str, Figures]:
    """Return the figures of all boxes, also of those that are part of another."""
    found: dict[str, Figures] = {}
    for name, node in plan.nodes.items():
        found[name] = node.figures
        if isinstance(node.operator, FusedOperator):
            found |= node.operator.figures
    return found


def stats(
    plan: Plan,
    intakes: Mapping[str, Intake],
    kept: Mapping[str, Kept],
    outputs: Mapping[str, Output],
) -> pa.Table:
    """Return the figures of all streams, boxes, arcs and outputs."""
    rows: list[dict[str, Any]] = []
    for name, intake in intakes.items():
        letters = sum(intake.letters.counts.values())
        rows.append({"what": "stream", "name": name, "kind": "stream", "dead_letters": letters})
    for name, node in plan.nodes.items():
        figures = node.figures
        rows.append(
            {
                "what": "box",
                "name": name,
                "kind": node.box.kind,
                "rows_in": figures.rows_in,
                "rows_out": figures.rows_out,
                "selectivity": figures.selectivity,
                "seconds": figures.seconds,
                "cost": figures.cost,
                "rate": figures.rows_in / figures.seconds if figures.seconds else None,
                "queued": sum(arc.queued for arc in node.arcs),
                "held": node.operator.held(),
                "dead_letters": sum(node.operator.letters.counts.values()),
            }
        )
        rows += [
            {
                "what": "arc",
                "name": f"{arc.source} -> {arc.target}",
                "kind": "arc",
                "rows_in": arc.passed,
                "rows_out": arc.passed - arc.queued,
                "queued": arc.queued,
            }
            for arc in node.arcs
        ]
    for name, one in kept.items():
        rows.append(
            {
                "what": "output",
                "name": name,
                "kind": "output",
                "rows_in": one.passed,
                "rows_out": one.passed - len(one) - one.dropped,
                "queued": len(one),
                "dropped": one.dropped,
            }
        )
    return pa.Table.from_pylist(rows, STATS)


LETTERS = pa.schema([("box", pa.string()), ("reason", pa.string()), ("row", pa.string())])


def dead_letters(plan: Plan, intakes: Mapping[str, Intake]) -> pa.Table:
    """Return the rows that streams and boxes refused, the latest of each."""
    rows = [
        {"box": name, "reason": reason, "row": json.dumps(row, default=str)}
        for name, one in letters_of(plan, intakes).items()
        for reason, row in one.kept
    ]
    return pa.Table.from_pylist(rows, LETTERS)


def letters_of(plan: Plan, intakes: Mapping[str, Intake]) -> dict[str, Letters]:
    """Return the dead letters of each stream and box."""
    return {
        **{name: intake.letters for name, intake in intakes.items()},
        **{name: node.operator.letters for name, node in plan.nodes.items()},
    }
