"""From the start of a fresh process to its first notice, with and without compiled loops."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import everquery as eq
from benchmarks.findings import Findings, Table
from benchmarks.harness import Scale, Timing

NAME = "cold_start"

PROGRAM = """
import json, sys, time
begin = time.perf_counter()
import pyarrow as pa
import everquery as eq
imported = time.perf_counter()
engine = eq.Engine(eq.Stream("trades", key="symbol", time="ts", attributes=["price", "volume"]))
for kind in sys.argv[1:]:
    engine.register({"range": eq.Range, "border": eq.Border}[kind](kind, {"price": (40, 50)}))
batch = pa.table({"symbol": ["IBM"], "ts": [1], "price": [45.0], "volume": [10.0]})
notices = engine.process(batch)
told = time.perf_counter()
assert notices.num_rows == len(sys.argv) - 1, notices
print(json.dumps({"home": eq.__file__, "import": imported - begin, "notice": told - imported}))
"""


def first_notice(home: Path, kinds: tuple[str, ...]) -> tuple[float, dict[str, float]]:
    """Run the program over a copy of the package; return all seconds, and those of its parts."""
    environment = {**os.environ, "PYTHONPATH": str(home)}
    environment.pop("NUMBA_CACHE_DIR", None)
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *kinds],
        env=environment,
        cwd=home,
        capture_output=True,
        text=True,
        check=True,
    )
    seconds = time.perf_counter() - begin
    parts = json.loads(done.stdout)
    if not Path(parts.pop("home")).is_relative_to(home):
        raise RuntimeError("the fresh process imported another copy of everquery")
    return seconds, parts


def fresh_copy(home: Path) -> None:
    """Copy the package without anything compiled; the cache of its loops lies beside it."""
    package = Path(eq.__file__).parent
    shutil.copytree(package, home / "everquery", ignore=shutil.ignore_patterns("__pycache__"))


def run(scale: Scale) -> Findings:
    """Measure each kind alone and both; an empty cache first, then the cache that this left."""
    tries = scale.pick(2, 1)
    findings = Findings(
        {
            "empty": "no compiled loops, no byte code of everquery; its dependencies have theirs",
            "tries": tries,
            "timing": "empty: worst try; warm: best of 3; from the start of the process to its end",
        }
    )
    rows: list[list[str | float | None]] = []
    worst = 0.0
    for kinds in scale.pick([("range",), ("border",), ("range", "border")], [("range", "border")]):
        cold, warm = [], []
        for _ in range(tries):
            with tempfile.TemporaryDirectory() as folder:
                home = Path(folder).resolve()
                fresh_copy(home)
                cold.append(first_notice(home, kinds))
                warm += [first_notice(home, kinds) for _ in range(3 if _ == 0 else 0)]
        seconds, parts = max(cold, key=lambda each: each[0])
        worst = max(worst, seconds)
        name = " and ".join(kinds)
        spread = Timing([each[0] for each in cold]).spread
        rows.append([f"{name}, empty cache", seconds, parts["import"], parts["notice"], spread])
        seconds, parts = min(warm, key=lambda each: each[0])
        spread = Timing([each[0] for each in warm]).spread
        rows.append([f"{name}, warm cache", seconds, parts["import"], parts["notice"], spread])
    findings.tables.append(
        Table(
            "cold-start",
            "First notice of a fresh process",
            ["kinds", "seconds", "of these importing", "of these to the first notice", "spread"],
            rows,
        )
    )
    what = "First notice of a fresh process, empty cache, compilation included"
    findings.at_most(what, worst, 10, "s")
    return findings
