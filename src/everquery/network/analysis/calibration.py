"""Costs and selectivities of boxes, measured on sample batches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from everquery.network.model import Network

ROUNDS = 3


def calibrate(
    network: Network, samples: Mapping[str, Any], *, rounds: int = ROUNDS
) -> tuple[dict[str, float], dict[str, float]]:
    """Return the cost of each box in seconds a row, and rows out for each row in.

    The samples go through the boxes as they are written, several times, and the quickest time of
    each box counts. Boxes that no row reaches are in neither result.
    """
    costs: dict[str, float] = {}
    selectivities: dict[str, float] = {}
    for _ in range(rounds):
        run = network.start(optimize=False)
        run.process(samples)
        run.finish()
        for row in run.stats().to_pylist():
            if row["what"] != "box" or row["cost"] is None:
                continue
            name = row["name"]
            costs[name] = min(row["cost"], costs.get(name, row["cost"]))
            selectivities[name] = row["selectivity"]
    return costs, selectivities
