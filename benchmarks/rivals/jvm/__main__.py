"""Run Esper and Flink: ``python -m benchmarks.rivals.jvm [--quick] [--out DIR]``.

Writes ``rivals_jvm.json`` beside the other results, and the page anew.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from benchmarks.__main__ import Places
from benchmarks.findings import Record
from benchmarks.harness import Scale, one_core, provenance
from benchmarks.report import write_report
from benchmarks.rivals.jvm.java import build
from benchmarks.rivals.jvm.subject import NAME, run


def main() -> None:
    """Build, run, and write the page from all result files."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rivals.jvm", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it runs")
    parser.add_argument("--out", type=Path, help="a folder for everything that is written")
    asked = parser.parse_args()
    scale, places = Scale(asked.quick), Places.choose(asked.out, quick=asked.quick)
    build()
    begin = time.perf_counter()
    with one_core():
        findings = run(scale)
    Record(NAME, provenance(scale, time.perf_counter() - begin), findings).write(places.results)
    write_report(places.results, places.report, places.plots)
    print(f"results, {places.report.name} and plots: {places.report.parent}")


if __name__ == "__main__":
    main()
