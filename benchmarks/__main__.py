"""Run the benchmarks: ``python -m benchmarks [--quick] [--only NAME ...] [--out DIR]``."""

from __future__ import annotations

import argparse
import gc
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks import (
    border_engine,
    border_figures,
    cei_figures,
    cold_start,
    correlated,
    data_shapes,
    history,
    linear_road,
    live_changes,
    network,
    quantile_engine,
    quantile_figures,
    quantile_summary,
    range_boxes,
    range_peers,
    registry,
    select,
    shedding,
    spark_networks,
    spark_quantiles,
    spark_runtime,
    spark_scale,
    threshold_engine,
    threshold_figures,
    windows,
)
from benchmarks.findings import Findings, Record
from benchmarks.harness import ROOT, Scale, one_core, provenance
from benchmarks.report import write_report, write_summary
from benchmarks.rivals import subject as rivals

SUBJECTS: dict[str, Callable[[Scale], Findings]] = {
    module.NAME: module.run
    for module in (
        range_peers,
        range_boxes,
        border_figures,
        border_engine,
        threshold_engine,
        rivals,
        live_changes,
        history,
        cold_start,
        registry,
        network,
        spark_runtime,
        spark_quantiles,
        spark_scale,
        spark_networks,
        cei_figures,
        threshold_figures,
        quantile_figures,
        quantile_summary,
        quantile_engine,
        correlated,
        windows,
        data_shapes,
        select,
        shedding,
        linear_road,
    )
}
ALL_CORES = {
    live_changes.NAME,
    history.NAME,
    cold_start.NAME,
    registry.NAME,
    spark_runtime.NAME,
    spark_quantiles.NAME,
    spark_scale.NAME,
    spark_networks.NAME,
}  # the others run on one


@dataclass(frozen=True)
class Places:
    """Where results, page and plots go."""

    results: Path
    report: Path
    plots: Path

    @classmethod
    def choose(cls, out: Path | None, *, quick: bool) -> Places:
        """Return the committed places, or those below `out`; tiny runs never overwrite results."""
        if out is None and not quick:
            docs = ROOT / "docs"
            return cls(ROOT / "benchmarks" / "results", docs / "benchmarks.md", docs / "plots")
        folder = out or Path(tempfile.mkdtemp(prefix="everquery-benchmarks-"))
        return cls(folder / "results", folder / "benchmarks.md", folder / "plots")


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it runs")
    parser.add_argument("--only", nargs="+", choices=list(SUBJECTS), help="subjects to run")
    parser.add_argument("--out", type=Path, help="a folder for everything that is written")
    parser.add_argument("--report", action="store_true", help="run nothing, write the page anew")
    asked = parser.parse_args()
    if asked.quick and asked.out is not None:
        taken = (ROOT / "docs", ROOT / "benchmarks")
        if any(asked.out.resolve().is_relative_to(folder) for folder in taken):
            parser.error(f"--quick writes no committed results; {asked.out} is a place for them")
    return asked


def run_subject(name: str, scale: Scale, results: Path) -> None:
    """Run one subject, write its result file and print its asked numbers."""
    print(f"{name} ...", flush=True)
    gc.collect()
    begin = time.perf_counter()
    if name in ALL_CORES:
        findings = SUBJECTS[name](scale)
    else:
        with one_core():
            findings = SUBJECTS[name](scale)
    seconds = time.perf_counter() - begin
    Record(name, provenance(scale, seconds), findings).write(results)
    for check in findings.checks:
        word = "met" if check.met else "NOT MET"
        print(f"  {word:>7}  {check.what}: {check.measured:,.4g} {check.unit} ({check.asked})")
    print(f"  {seconds:.1f} s", flush=True)


def main() -> None:
    """Run the subjects, then write the page from all result files."""
    asked = parse()
    places = Places.choose(asked.out, quick=asked.quick)
    failed = []
    for name in () if asked.report else asked.only or SUBJECTS:
        try:
            run_subject(name, Scale(asked.quick), places.results)
        except Exception:  # the other subjects may still be measured
            traceback.print_exc()
            failed.append(name)
    places.report.parent.mkdir(parents=True, exist_ok=True)
    write_report(places.results, places.report, places.plots)
    if places.report.parent == ROOT / "docs":
        write_summary(places.results, ROOT / "README.md")
    print(f"results, {places.report.name} and plots: {places.report.parent}")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
