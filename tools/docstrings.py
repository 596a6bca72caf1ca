"""NumPy-style docstrings as Markdown."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, field

_RULE = re.compile(r"^-{3,}$")
# A parameter, several, or a type: no sentence.
_ITEM = re.compile(r"^[\w*, ]+?(?: : .+)?$")
_LISTS = ("Parameters", "Attributes", "Raises", "Returns")


@dataclass
class Section:
    """A section of a docstring.

    Attributes
    ----------
    title : str
        Empty for what comes before the first.
    lines : list of str
    """

    title: str
    lines: list[str] = field(default_factory=list)


def sections_of(docstring: str) -> list[Section]:
    """Return the sections of a docstring, the untitled one first."""
    sections = [Section("")]
    lines = inspect.cleandoc(docstring).splitlines()
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        if _RULE.match(after):
            sections.append(Section(line))
        elif not _RULE.match(line):
            sections[-1].lines.append(line)
    return sections


def as_markdown(docstring: str) -> str:
    """Return a docstring as Markdown."""
    parts = []
    for section in sections_of(docstring):
        if section.title == "Examples":
            text = "```python\n" + "\n".join(section.lines).strip() + "\n```"
        elif section.title in _LISTS:
            text = f"**{section.title}**\n\n" + "\n".join(_items(section.lines)).strip()
        else:
            text = _plain("\n".join(section.lines).strip())
        if text:
            parts.append(text)
    return "\n\n".join(parts)


def names_in(docstring: str, *titles: str) -> set[str]:
    """Return the names that some sections of a docstring describe."""
    found: set[str] = set()
    for section in sections_of(docstring):
        if section.title in titles:
            for line in section.lines:
                if _starts_item(line):
                    found.update(name.strip() for name in line.partition(" : ")[0].split(","))
    return found


def _starts_item(line: str) -> bool:
    return bool(line) and not line.startswith(" ") and bool(_ITEM.match(line))


def _items(lines: list[str]) -> list[str]:
    """Return the items of a section as a list; a paragraph behind them stands by itself."""
    blocks: list[list[str]] = []
    apart = True
    for line in lines:
        goes_on = line.startswith(" ") or not (apart or _starts_item(blocks[-1][0]))
        if goes_on and blocks:
            blocks[-1].append(line.strip())
        elif line:
            blocks.append([line])
        apart = not line
    written = []
    for first, *rest in blocks:
        if _starts_item(first):
            names, _, kind = first.partition(" : ")
            shown = ", ".join(f"`{name.strip()}`" for name in names.split(","))
            said = f": {' '.join(rest)}" if rest else ""
            written.append("- " + shown + _plain((f" ({kind})" if kind else "") + said))
        else:
            written += ["", _plain(" ".join([first, *rest]))]
    return written


def _plain(text: str) -> str:
    return text.replace("``", "`")
