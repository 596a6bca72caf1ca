"""What a network does and what the optimizer makes of it, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields

from everquery.network.boxes.passing import Passing
from everquery.network.optimizer.fused import Fused
from everquery.network.optimizer.siblings import Siblings
from everquery.network.spec import Box, plain

INDENT = "  "


def explained(
    name: str, before: Mapping[str, Box], after: Mapping[str, Box], notes: Sequence[str]
) -> str:
    """Return boxes before and after, one a line, and what was done between."""
    lines = [f"network {name}", "before:"]
    lines += [f"{INDENT}{line(own, box)}" for own, box in before.items()]
    if not notes:
        return "\n".join([*lines, "after: as before"])
    lines += ["done:", *(f"{INDENT}{note}" for note in notes), "after:"]
    lines += [f"{INDENT}{line(own, box)}" for own, box in after.items()]
    return "\n".join(lines)


def line(name: str, box: Box) -> str:
    """Return a box in one line.

    Examples
    --------
    >>> from everquery.network import Filter
    >>> line("hot", Filter("readings", where="temperature > 80"))
    "hot: filter from readings, where 'temperature > 80'"
    """
    head = f"{name}: {box.kind} from {', '.join(box.sources)}"
    if isinstance(box, Fused):
        order = f", conditions of {', '.join(box.first)} first" if box.first else ""
        return f"{head}, {' -> '.join(own for own, _ in box.members)}{order}"
    if isinstance(box, Siblings):
        return f"{head}, {len(box.ranges)} filters"
    if isinstance(box, Passing):
        return head
    told = [
        f"{field.name} {plain(getattr(box, field.name))!r}"
        for field in fields(box)
        if field.name != "source" and getattr(box, field.name) is not None
    ]
    return ", ".join([head, *told])
