"""Which outputs depend on which boxes, and where rows can be shed for some of them alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from everquery.network.graph import order
from everquery.network.spec import Box

OUTPUT = "output "
KEPT = "point "
"""Before the name of a connection point that keeps rows: whatever is shed above it is missing in
its history, so it counts as an output that is never shed."""


@dataclass(frozen=True, order=True)
class Place:
    """An arrow of a network, or, without a target, all that comes out of a stream.

    Examples
    --------
    >>> str(Place("readings", "hot")), str(Place("readings"))
    ('readings -> hot', 'readings')
    """

    source: str
    target: str | None = None
    at: int = 0

    def __str__(self) -> str:
        return self.source if self.target is None else f"{self.source} -> {self.target}"


class Layout:
    """The arrows of a network.

    Parameters
    ----------
    boxes : mapping of str to Box
        With connection points, as boxes that change nothing.
    streams : names
    outputs : mapping of str to str
        Where each output reads from.
    kept : names of connection points that keep rows

    Attributes
    ----------
    behind : dict
        For each name the outputs that depend on it.
    """

    def __init__(
        self,
        boxes: Mapping[str, Box],
        streams: Iterable[str],
        outputs: Mapping[str, str],
        kept: Iterable[str] = (),
    ) -> None:
        self.streams = tuple(streams)
        self.order = tuple(order(boxes, self.streams))
        self.sources = {name: boxes[name].sources for name in self.order}
        self.outputs = dict(outputs)
        found: dict[str, set[str]] = {name: set() for name in (*self.streams, *self.order)}
        for output, source in self.outputs.items():
            found[source].add(output)
        for point in kept:
            found[point].add(KEPT + point)
        for name in reversed(self.order):
            for source in self.sources[name]:
                found[source] |= found[name]
        self.behind = {name: frozenset(one) for name, one in found.items()}

    def above(self, output: str) -> list[str]:
        """Return the boxes that an output depends on, in the order in which they run."""
        return [name for name in self.order if output in self.behind[name]]

    def sets(self) -> list[frozenset[str]]:
        """Return the sets of outputs for which rows can be shed together, small ones first."""
        found = {frozenset({name}) for name in self.outputs}
        found |= {one for one in self.behind.values() if one}
        return sorted(found, key=lambda one: (len(one), sorted(one)))

    def frontier(self, outputs: frozenset[str]) -> list[Place]:
        """Return the places nearest to the sources through which rows for these outputs alone go.

        Every way from a stream to one of the outputs has exactly one of them, where it has any: a
        place lies just behind the split from which others are served too.
        """
        found = [
            Place(name)
            for name in self.streams
            if self.behind[name] and self.behind[name] <= outputs
        ]
        for name in self.order:
            if not self.behind[name] or not self.behind[name] <= outputs:
                continue
            found += [
                Place(source, name, at)
                for at, source in enumerate(self.sources[name])
                if not self.behind[source] <= outputs
            ]
        return found
