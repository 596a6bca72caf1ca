"""Print, as JSON, what the queries of the market take in a fresh process; see `border_engine`."""

from __future__ import annotations

import ctypes
import gc
import json
import sys
from itertools import islice
from pathlib import Path

import pyarrow as pa

import everquery as eq
from benchmarks.harness import Scale
from benchmarks.markets import STREAM, Market


def status(field: str) -> int:
    """Return a size from the process status, in bytes."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise LookupError(field)


def settled(field: str) -> int:
    """Return a size from the process status, after giving unused memory back."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    ctypes.CDLL(None).malloc_trim(0)
    return status(field)


def forget_peak() -> bool:
    """Let the peak begin anew; tell whether the system allows it."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return False
    return True


def measure(scale: Scale) -> dict[str, object]:
    """Register all queries and run batches, in an engine whose loops are loaded already."""
    market = Market.draw(scale)
    batches = [strings for _, strings, _ in islice(market.batches(), 3)]
    first = market.first_batch()
    with eq.Engine(STREAM) as warm:
        warm.register_table(market.table().slice(0, 100), kind="border")
        for batch in (first, *batches):
            warm.process(batch)
    del warm
    with eq.Engine(STREAM) as engine:
        before = settled("VmRSS")
        peak_is_known = forget_peak()
        engine.register_table(market.table(), kind="border")
        for batch in (first, *batches):
            engine.process(batch)
        after = settled("VmRSS")
        sizes = engine.stats()["bytes"]
        return {
            "queries": market.low.size,
            "resident": after - before,
            "peak": status("VmHWM") - before if peak_is_known else None,
            "ids": sizes["query ids"],
            "arrays": sizes,
        }


if __name__ == "__main__":
    pa.set_memory_pool(pa.system_memory_pool())  # gives memory back when it is asked to
    print(json.dumps(measure(Scale("--quick" in sys.argv))))
