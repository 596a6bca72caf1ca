"""The tutorial works from the first line to the last, as it stands."""

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial.md"


def sessions() -> list[tuple[str, str]]:
    """Return each command of the tutorial with the output that it promises."""
    blocks = re.findall(r"```console\n(.*?)```", TUTORIAL.read_text(encoding="utf-8"), re.DOTALL)
    found = []
    for block in blocks:
        for part in block.split("$ ")[1:]:
            command, _, output = part.partition("\n")
            found.append((command, output))
    return found


def test_every_command_prints_what_the_tutorial_says(tmp_path):
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "EVERQUERY_REGISTRY": "sqlite:///queries.db",
        "COLUMNS": "120",
    }
    checker = doctest.OutputChecker()
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    commands = sessions()
    assert len(commands) > 12
    for command, promised in commands:
        done = subprocess.run(
            ["bash", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        printed = done.stdout + done.stderr
        assert checker.check_output(promised, printed, options), (
            f"$ {command}\npromised:\n{promised}\nprinted:\n{printed}"
        )
