"""The work that a network asks for: rates along its arrows, times the costs of its boxes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from everquery.network.analysis.layout import Layout, Place


@dataclass(frozen=True)
class Flowing:
    """Rows a second, and seconds of work a second, under some load.

    Attributes
    ----------
    into : dict
        Rows a second into each box.
    out : dict
        Rows a second out of each stream and box.
    work : dict
        Seconds of work a second of each box.
    """

    into: dict[str, float]
    out: dict[str, float]
    work: dict[str, float]

    @property
    def total(self) -> float:
        """Seconds of work a second of all boxes: the least capacity that suffices."""
        return sum(self.work.values())


@dataclass(frozen=True)
class Load:
    """What is known of the load of a network.

    Attributes
    ----------
    layout : Layout
    rates : mapping of str to float
        Rows a second of each stream.
    costs : mapping of str to float
        Seconds for each row that comes into a box.
    selectivities : mapping of str to float
        Rows out for each row into a box.
    """

    layout: Layout
    rates: Mapping[str, float]
    costs: Mapping[str, float]
    selectivities: Mapping[str, float] = field(default_factory=dict)

    def flowing(
        self, kept: Mapping[Place, float] | None = None, *, limited: bool = False
    ) -> Flowing:
        """Return the rates and the work.

        Parameters
        ----------
        kept : mapping of Place to float, optional
            The share of rows that is let through, where some are shed.
        limited : bool
            Whether a box gives no more than it can do by itself (Aurora, section 4.4): rows that
            wait in front of it for ever are no load of the boxes behind.
        """
        shares = kept or {}
        out = {
            name: self.rates.get(name, 0.0) * shares.get(Place(name), 1.0)
            for name in self.layout.streams
        }
        into: dict[str, float] = {}
        work: dict[str, float] = {}
        for name in self.layout.order:
            came = sum(
                out[source] * shares.get(Place(source, name, at), 1.0)
                for at, source in enumerate(self.layout.sources[name])
            )
            cost = self.costs.get(name, 0.0)
            into[name], work[name] = came, came * cost
            done = min(came, 1 / cost) if limited and cost > 0 else came
            out[name] = done * self.selectivities.get(name, 1.0)
        return Flowing(into, out, work)

    def waiting(self, rows: Mapping[str, float]) -> float:
        """Return the seconds of work that rows waiting in front of boxes will take to the end."""
        total = 0.0
        extra = dict.fromkeys(self.layout.order, 0.0)
        for name in self.layout.order:
            came = rows.get(name, 0.0) + sum(
                extra.get(source, 0.0) for source in self.layout.sources[name]
            )
            total += came * self.costs.get(name, 0.0)
            extra[name] = came * self.selectivities.get(name, 1.0)
        return total
