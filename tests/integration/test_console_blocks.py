"""The console blocks of the docs work from the first line to the last, as they stand."""

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def sessions(page: str) -> list[tuple[str, str]]:
    """Return each command of a page with the output that it promises."""
    text = (DOCS / page).read_text(encoding="utf-8")
    found = []
    for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            found.append((command, output))
    return found


@pytest.mark.parametrize("page", ["tutorial.md", "cli.md"])
def test_every_command_prints_what_the_page_says(tmp_path, page):
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "EVERQUERY_REGISTRY": "sqlite:///queries.db",
        "COLUMNS": "120",
    }
    checker = doctest.OutputChecker()
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    commands = sessions(page)
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
