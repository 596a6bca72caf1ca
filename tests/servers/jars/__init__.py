"""Jars of Kafka and of Spark's connectors: fetched once by Maven, kept in the build folder."""

import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
KEPT = Path(__file__).parents[3] / "build" / "jars"


class JarsMissingError(Exception):
    """The jars are not here and can't be fetched."""


def jars(name: str) -> Path:
    """Return the folder with the jars of a pom beside this file: `broker` or `connectors`."""
    pom, folder = HERE / f"{name}.xml", KEPT / name
    # The pom is copied when all is there: a pom that changed, or a fetch that broke, starts anew.
    done = folder / pom.name
    if done.exists() and done.read_bytes() == pom.read_bytes():
        return folder
    if shutil.which("mvn") is None:
        raise JarsMissingError("no Maven here (Debian: apt-get install maven)")
    shutil.rmtree(folder, ignore_errors=True)
    command = ["mvn", "-q", "-B", "-f", pom, "dependency:copy-dependencies",
               "-DincludeScope=runtime", f"-DoutputDirectory={folder}"]  # fmt: skip
    ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode:
        raise JarsMissingError(f"Maven can't fetch the {name}: {ran.stdout[-1000:]}")
    shutil.copy(pom, done)
    return folder
