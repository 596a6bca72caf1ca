"""The Q-Q plot of the docs: ``python tools/qq_plot.py [FOLDER]``.

Two stocks with the volumes of their deals, as in Figure 1 of the paper continuous-quantiles; its
data, tick by tick from an exchange, is not free. One stock's deals are larger as a rule, the
other's largest are larger still, and many are of round lots, so that values repeat.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

import everquery as eq
from everquery.cli.qq_picture import Labels, Panel, draw
from everquery.kinds.quantile.qq import Side, compare, spaced

SEED = 2006
EVENTS = 1_000_000
BATCH = 50_000
EPSILON = 0.001
LOTS = 100  # shares
PLOTS = Path(__file__).resolve().parent.parent / "docs" / "plots"


def deals(events: int, seed: int = SEED) -> Iterator[pa.Table]:
    """Yield deals in batches: ``symbol`` (AOL or IBM) and ``volume``."""
    random = np.random.default_rng(seed)
    for first in range(0, events, BATCH):
        n = min(BATCH, events - first)
        aol = random.random(n) < 0.3
        volume = np.exp(random.normal(np.where(aol, 6.6, 6.0), np.where(aol, 1.0, 1.4)))
        in_lots = random.random(n) < 0.7
        volume = np.where(in_lots, np.ceil(volume / LOTS) * LOTS, np.ceil(volume))
        yield pa.table({"symbol": np.where(aol, "AOL", "IBM"), "volume": volume})


def plot(folder: Path, events: int = EVENTS) -> pa.Table:
    """Write ``qq.png``, and return the numbers of its right half."""
    engine = eq.Engine(eq.Stream("deals", key="symbol", attributes=["volume"]))
    sides = Side("AOL", engine, key="AOL"), Side("IBM", engine, key="IBM")
    for side in sides:
        side.watch("volume", EPSILON)
    for batch in deals(events):
        engine.process(batch)
    whole = compare(sides, "volume", spaced(0, 1, 200))
    part = compare(sides, "volume", spaced(0.9, 1, 200))
    labels = Labels(f"Volumes of {events:,} deals, rank by rank", "AOL", "IBM")
    panels = [Panel("all ranks", whole), Panel("ranks 0.9 to 1", part)]
    draw(panels, labels, folder / "qq.png", log=True)
    return part


if __name__ == "__main__":
    plot(Path(sys.argv[1]) if len(sys.argv) > 1 else PLOTS)
