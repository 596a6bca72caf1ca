"""Find the Java that Spark will run on, before Spark looks for it.

Spark's own search takes any Java and fails later, in the words of a class loader.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from everquery.errors import JavaMissingError

OLDEST = 17
ANSWER_SECONDS = 60

_INSTALL = (
    "install one, for example with 'apt-get install openjdk-17-jre-headless' (Debian, Ubuntu),"
    " 'dnf install java-17-openjdk-headless' (Fedora) or 'brew install openjdk@17' (macOS),"
    " or set JAVA_HOME to one that is here"
)


def require_java(environment: Mapping[str, str] | None = None) -> Path:
    """Return the home of the first Java of version 17 or newer: JAVA_HOME, then PATH.

    Raises
    ------
    JavaMissingError
        If there is none; it says what was found and what to install.
    """
    environment = os.environ if environment is None else environment
    found = []
    for program in _programs(environment):
        version = _version(program)
        if version is not None and version >= OLDEST:
            return program.resolve().parent.parent
        found.append(f"{program} is {'no Java' if version is None else f'Java {version}'}")
    raise JavaMissingError(
        f"Spark needs Java {OLDEST} or newer, and there is none here"
        f" ({'; '.join(found) or 'JAVA_HOME is not set, and PATH has no java'}): {_INSTALL}"
    )


def _programs(environment: Mapping[str, str]) -> Iterator[Path]:
    home = environment.get("JAVA_HOME")
    if home:
        yield Path(home) / "bin" / "java"
    for folder in environment.get("PATH", "").split(os.pathsep):
        program = shutil.which("java", path=folder) if folder else None
        if program is not None:
            yield Path(program)


def _version(program: Path) -> int | None:
    """Return the major version of a Java, or None if it does not tell."""
    try:
        answer = subprocess.run(
            [program, "-version"], capture_output=True, text=True, timeout=ANSWER_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(\d+)(?:\.(\d+))?', answer.stderr + answer.stdout)
    if match is None:
        return None
    major, minor = int(match[1]), int(match[2] or 0)
    return minor if major == 1 else major  # Java 8 called itself 1.8
