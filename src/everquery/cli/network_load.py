"""What ``everquery network check`` says about rates, costs and capacity."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any

import pyarrow as pa
import typer

from everquery.errors import InvalidNetworkError
from everquery.network import Network
from everquery.network.analysis.check import Analysis

MOST_SAMPLED = 200_000  # rows of a file on which costs are measured

RatesOption = Annotated[
    list[str] | None,
    typer.Option("--rate", metavar="STREAM=ROWS", help="Rows a second of a stream."),
]
CostsOption = Annotated[
    list[str] | None,
    typer.Option("--cost", metavar="BOX=SECONDS", help="Seconds for each row into a box."),
]
SamplesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--sample",
        metavar="[STREAM=]FILE",
        help="Events on which costs that are not given are measured.",
    ),
]
CapacityOption = Annotated[
    float, typer.Option("--capacity", help="Seconds of work a second: 1 is one core.")
]
HeadroomOption = Annotated[
    float, typer.Option("--headroom", help="The share of the capacity that may be used.")
]


def analysis(
    network: Network,
    rates: list[str],
    costs: list[str],
    samples: Mapping[str, Callable[[], Iterator[Any]]],
    capacity: float,
    headroom: float,
) -> Analysis:
    """Return what a network asks of the machine.

    Parameters
    ----------
    samples : mapping of str to function
        Each yields the batches of a stream.
    """
    given = {name: _sample(read()) for name, read in samples.items()}
    return network.check(
        rates=_numbers(rates, "--rate", "STREAM=ROWS"),
        costs=_numbers(costs, "--cost", "BOX=SECONDS") if costs or not given else None,
        samples=given or None,
        capacity=capacity,
        headroom=headroom,
    )


def form(found: Analysis) -> dict[str, Any]:
    """Return an analysis as JSON has it."""
    return {
        "boxes": found.table().to_pylist(),
        "minimum_capacity": found.minimum_capacity,
        "suffices": found.suffices,
        "saturates_first": found.saturates_first,
        "refusal": found.refusal,
    }


def _numbers(given: list[str], option: str, how: str) -> dict[str, float]:
    found = {}
    for one in given:
        name, _, number = one.partition("=")
        try:
            found[name] = float(number)
        except ValueError:
            raise InvalidNetworkError(f"{option} {one!r} has no number; write {how}") from None
    return found


def _sample(batches: Iterator[Any]) -> pa.Table:
    tables: list[pa.Table] = []
    rows = 0
    for batch in batches:
        table = pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
        tables.append(table)
        rows += table.num_rows
        if rows >= MOST_SAMPLED:
            break
    if not rows:
        raise InvalidNetworkError("--sample has no rows; costs are measured on some")
    return pa.concat_tables(tables, promote_options="default")
