"""Terminal pictures for the docs: ``python tools/pictures.py [FOLDER]``.

Real commands run in a real (pseudo) terminal; what they print becomes SVG. No line is written by
hand, so a picture can't promise what the commands do not do.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

WIDTH, HEIGHT = 100, 40
DOCS = Path(__file__).resolve().parent.parent / "docs"
PICTURES = {
    "demo": ["everquery demo"],
    "command-line": [
        "everquery init",
        "everquery stream create trades --key symbol --time ts --attribute price",
        "everquery query add ibm-band --box 'price=40..50' --key IBM --owner ann",
        'everquery sql "CREATE STANDING QUERY penny AS SELECT * FROM trades WHERE prise < 1'
        ' EMIT MATCHES"',
        'everquery sql "CREATE STANDING QUERY penny AS SELECT * FROM trades WHERE price < 1'
        ' EMIT MATCHES"',
        "everquery query list",
        "printf '%s\\n' symbol,ts,price IBM,1,45 TINY,2,0.5 IBM,3,50 IBM,4, > trades.csv",
        "everquery run trades.csv",
    ],
}
# One piece of what a terminal gets: a control sequence, a line break, or letters.
_PIECES = re.compile(r"\x1b\[(?P<given>[?\d;]*)(?P<code>[A-Za-z])|(?P<move>[\r\n])|[^\x1b\r\n]+")


def screen(output: str) -> list[str]:
    r"""Return the lines that a terminal shows in the end; colours stay in them.

    Knows what Rich's live displays do: go up, and clear the line.

    Examples
    --------
    >>> screen("50%\r\n\x1b[1A\x1b[2K100%\r\n")
    ['100%', '']
    """
    lines, at = [""], 0
    fresh = True  # at the left end: what comes next replaces the line
    for piece in _PIECES.finditer(output):
        code = piece["code"]
        if piece["move"] == "\n":
            at += 1
            if at == len(lines):
                lines.append("")
        elif piece["move"] == "\r":
            fresh = True
            continue
        elif code == "A":
            at = max(0, at - int(piece["given"] or 1))
        elif code == "K":
            lines[at] = ""
        elif code in (None, "m"):
            lines[at] = piece[0] if fresh and code is None else lines[at] + piece[0]
        else:
            continue  # the cursor hides and comes back, and the like
        fresh = piece["move"] == "\n"
    return lines


def typed(command: str, folder: Path) -> str:
    """Run a command in a terminal; return all that it got."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, WIDTH, 0, 0))
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
        "COLUMNS": str(WIDTH),
        "EVERQUERY_REGISTRY": "sqlite:///queries.db",
    }
    with subprocess.Popen(
        ["bash", "-c", command], cwd=folder, env=environment, stdout=theirs, stderr=theirs
    ) as child:
        os.close(theirs)
        parts = []
        while True:
            try:
                part = os.read(ours, 1 << 16)
            except OSError:  # the child has closed its end
                break
            if not part:
                break
            parts.append(part)
        child.wait()
    os.close(ours)
    return b"".join(parts).decode()


def picture(name: str, commands: list[str], folder: Path) -> None:
    """Run commands, one behind the other, and write what the terminal shows as SVG."""
    console = Console(record=True, width=WIDTH, file=StringIO(), color_system="truecolor")
    with tempfile.TemporaryDirectory() as place:
        for command in commands:
            prompt = Text.assemble(("$ ", "bold green"), command)
            console.print(prompt, soft_wrap=False)
            lines = screen(typed(command, Path(place)))
            text = "\n".join(line.rstrip() for line in lines).strip("\n")
            if text:
                console.print(Text.from_ansi(text))
    folder.mkdir(parents=True, exist_ok=True)
    svg = console.export_svg(title="everquery", unique_id=f"everquery-{name}")
    # Fonts from elsewhere would not be loaded anyway: the reader's own monospace font does.
    svg = re.sub(r"@font-face\s*{.*?}\s*", "", svg, flags=re.DOTALL)
    (folder / f"{name}.svg").write_text(svg, encoding="utf-8")
    print(f"{folder / name}.svg")


def main() -> None:
    """Make all pictures."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS / "pictures"
    for name, commands in PICTURES.items():
        picture(name, commands, folder)


if __name__ == "__main__":
    main()
