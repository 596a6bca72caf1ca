"""The arrows of a network: who reads from whom, in which order boxes run, and what they carry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from everquery.errors import EverqueryError, InvalidNetworkError
from everquery.network.rows import RowType
from everquery.network.spec import Box


def order(boxes: Mapping[str, Box], roots: Iterable[str]) -> list[str]:
    """Return the boxes so that each stands behind those it reads from.

    Parameters
    ----------
    roots : iterable of str
        The streams.

    Raises
    ------
    InvalidNetworkError
        If an arrow comes from nowhere, or boxes form a loop.
    """
    known = set(roots)
    for name, box in boxes.items():
        for source in box.sources:
            if source not in known and source not in boxes:
                raise dangling(f"box {name!r}", source, {*known, *boxes})
    found: list[str] = []
    state: dict[str, int] = {}

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in known or state.get(name) == 2:
            return
        if state.get(name) == 1:
            loop = " -> ".join((*path[path.index(name) :], name))
            raise InvalidNetworkError(f"boxes form a loop: {loop}; a network has none")
        state[name] = 1
        for source in boxes[name].sources:
            visit(source, (*path, name))
        state[name] = 2
        found.append(name)

    for name in boxes:
        visit(name, ())
    return found


def dangling(who: str, source: str, known: Iterable[str]) -> InvalidNetworkError:
    """Return the error of an arrow that comes from nowhere."""
    alike = get_close_matches(source, list(known), 1)
    hint = f"; did you mean {alike[0]!r}?" if alike else f"; there are {', '.join(sorted(known))}"
    return InvalidNetworkError(f"{who} reads from {source!r}, and nothing has this name{hint}")


def infer(boxes: Mapping[str, Box], roots: Mapping[str, RowType]) -> dict[str, RowType]:
    """Return the type of rows behind every stream and box.

    Raises
    ------
    InvalidNetworkError
        If a box can't take what its arrows carry; names the box and its arrows.
    """
    types = dict(roots)
    for name in order(boxes, roots):
        box = boxes[name]
        try:
            types[name] = box.infer([types[one] for one in box.sources])
        except EverqueryError as error:
            arrows = ", ".join(f"{source} -> {name}" for source in box.sources)
            told = f"box {name!r} ({box.kind}, arrow {arrows}): {error}"
            raise InvalidNetworkError(told) from error
    return types
