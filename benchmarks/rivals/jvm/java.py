"""Builds the Java side with Maven, hands it workloads as files, and reads what it found."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.harness import ROOT, UnequalResultsError
from benchmarks.rivals.work import Borders, Events, Thresholds, Work
from everquery.core.arrays import Array, Int64s

HERE = Path(__file__).parent
BUILT = ROOT / "build" / "rivals-jvm"
PATIENCE_S = 300.0  # for loading a million queries too, on a busy machine
OPTIONS = (
    "-Xmx6g",
    "-XX:+UseSerialGC",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
)


class NoMavenError(Exception):
    """The Java side can't be built here."""


@dataclass(frozen=True)
class Found:
    """What a rival showed over one workload."""

    compared: int
    events: int
    seconds: float
    load_seconds: float
    until_live_us: float | None

    @property
    def rate(self) -> float:
        """Events a second."""
        return self.events / self.seconds


def build() -> None:
    """Compile, and fetch what Esper and Flink need, into the build folder."""
    if shutil.which("mvn") is None:
        raise NoMavenError("no Maven here (Debian: apt-get install maven)")
    command = ["mvn", "-q", "-B", "-f", str(HERE / "pom.xml"), f"-Dbuilt={BUILT}"]
    command += ["package", "dependency:copy-dependencies", "-DincludeScope=runtime"]
    command += [f"-DoutputDirectory={BUILT / 'jars'}"]
    ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode:
        raise NoMavenError(f"Maven can't build the rivals: {ran.stdout[-2000:]}")


def write(folder: Path, work: Work, first: int, events: Events, told: Int64s) -> None:
    """Write queries and events, a file a column.

    `first` is how many of the events are first sights; `told` how much the first ``i`` events tell.
    """
    nothing = np.zeros(0, np.int64)
    of, about = nothing, np.zeros(len(events), np.int64)
    if isinstance(work, Borders):
        assert events.key is not None
        of, about = work.key, events.key
    elif isinstance(work, Thresholds):
        assert events.weight is not None
        of, about = work.total, events.weight
    columns: dict[str, Array] = {
        "low": work.low,
        "high": work.high,
        "of": of,
        "value": events.value,
        "with": about,
        "first": np.array([first], np.int64),
        "told": told,
    }
    for name, column in columns.items():
        (folder / name).write_bytes(column.astype(column.dtype.newbyteorder("<")).tobytes())


def play(rival: str, work: Work, folder: Path, *, limit_s: float, live: bool) -> Found | str:
    """Run one rival in a Java of its own; return why there is no result if it takes too long."""
    classpath = f"{BUILT / 'rivals.jar'}:{BUILT / 'jars'}/*"
    command = ["java", *OPTIONS, "-cp", classpath, "everquery.rivals.Main"]
    command += [rival, work.kind, str(folder), str(limit_s), str(live).lower()]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    except subprocess.TimeoutExpired as slow:
        return f"left out: not done in {slow.timeout:.0f} s"
    if "OutOfMemoryError" in ran.stderr:
        return f"left out: more memory than {OPTIONS[0]}"
    if ran.returncode:
        raise UnequalResultsError(f"{rival}, {work.kind}: {ran.stderr[-3000:]}")
    found = json.loads(ran.stdout.splitlines()[-1])
    until = found.pop("until_live_us")
    return Found(**found, until_live_us=until if until >= 0 else None)
