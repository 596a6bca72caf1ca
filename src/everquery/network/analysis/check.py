"""Static analysis: whether the machine suffices, and which box is the first to fall behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from everquery.errors import InvalidNetworkError
from everquery.network.analysis.calibration import calibrate
from everquery.network.analysis.layout import Layout
from everquery.network.analysis.load import Flowing, Load

if TYPE_CHECKING:
    from everquery.network.model import Network

BOXES = pa.schema(
    [
        ("box", pa.string()),
        ("rate_in", pa.float64()),
        ("cost", pa.float64()),
        ("selectivity", pa.float64()),
        ("rate_out", pa.float64()),
        ("work", pa.float64()),
        ("holds_until", pa.float64()),
    ]
)
"""Rates are rows a second, ``cost`` is seconds a row, ``work`` seconds a second, and
``holds_until`` the multiple of the given rates at which the box alone fills one core."""


def layout_of(network: Network) -> Layout:
    """Return the arrows of a network; connection points that keep rows count as outputs."""
    return Layout(
        network.readable,
        network.streams,
        {name: output.source for name, output in network.outputs.items()},
        [name for name, point in network.points.items() if point.keep is not None],
    )


def sheddable(network: Network) -> frozenset[str]:
    """Return the outputs for which rows may be shed."""
    return frozenset(name for name, one in network.outputs.items() if one.shed != "never")


@dataclass(frozen=True)
class Analysis:
    """What static analysis found.

    Attributes
    ----------
    load : Load
    capacity : float
        Seconds of work that the machine does in a second: its cores, for boxes that run at once.
    headroom : float
        The share of it that may be used in the long run.
    flowing : Flowing
    protected : float
        The least capacity with all shed that may be: what outputs with ``shed: never`` ask for.
    never : tuple of str
        These outputs.
    """

    load: Load
    capacity: float
    headroom: float
    flowing: Flowing
    protected: float
    never: tuple[str, ...]

    @property
    def minimum_capacity(self) -> float:
        """The least capacity with which no queue grows without end."""
        return self.flowing.total

    @property
    def suffices(self) -> bool:
        """Whether the machine holds these rates without shedding."""
        return self.minimum_capacity <= self.capacity * self.headroom

    @property
    def saturates_first(self) -> str | None:
        """The box that fills a core first when all rates rise alike; None if none costs a thing."""
        work = self.flowing.work
        busiest = max(work, key=lambda name: work[name], default=None)
        return busiest if busiest is not None and work[busiest] > 0 else None

    @property
    def holds_until(self) -> float:
        """The multiple of the given rates that the machine holds without shedding."""
        limits = [
            self.capacity * self.headroom / self.minimum_capacity if self.flowing.total else 0
        ]
        if self.saturates_first is not None:
            limits.append(1 / self.flowing.work[self.saturates_first])
        return min(limits) if self.flowing.total else float("inf")

    @property
    def refusal(self) -> str | None:
        """Why ``shed: never`` can't be kept; None if it can."""
        allowed = self.capacity * self.headroom
        if not self.never or self.protected <= allowed:
            return None
        outputs = ", ".join(repr(name) for name in self.never)
        return (
            f"`shed: never` of output {outputs} can't be kept: with all shed that may be, the boxes"
            f" before it need {self.protected:.4g} s of work a second, and the machine has"
            f" {allowed:.4g} (capacity {self.capacity:g}, headroom {self.headroom:g})"
        )

    def table(self) -> pa.Table:
        """Return a row for each box: rates, cost, selectivity, work."""
        flowing = self.flowing
        rows = [
            {
                "box": name,
                "rate_in": flowing.into[name],
                "cost": self.load.costs.get(name),
                "selectivity": self.load.selectivities.get(name),
                "rate_out": flowing.out[name],
                "work": flowing.work[name],
                "holds_until": 1 / flowing.work[name] if flowing.work[name] > 0 else None,
            }
            for name in self.load.layout.order
        ]
        return pa.Table.from_pylist(rows, BOXES)

    def __str__(self) -> str:
        """Return what `everquery network check` prints."""
        lines = [f"{'box':<24}{'rows/s in':>12}{'us a row':>12}{'rows out':>12}{'work':>10}"]
        for row in self.table().to_pylist():
            cost = "unknown" if row["cost"] is None else f"{row['cost'] * 1e6:.4g}"
            share = "1, assumed" if row["selectivity"] is None else f"{row['selectivity']:.4g}"
            lines.append(
                f"{row['box']:<24}{row['rate_in']:>12,.0f}{cost:>12}{share:>12}{row['work']:>10.2%}"
            )
        allowed = self.capacity * self.headroom
        lines.append(
            f"minimum capacity {self.minimum_capacity:.4g}; the machine has {allowed:.4g}"
            f" (capacity {self.capacity:g}, headroom {self.headroom:g}):"
            f" {'it suffices' if self.suffices else 'it does not suffice'}"
        )
        if self.saturates_first is not None:
            lines.append(
                f"{self.saturates_first} saturates first; the machine holds"
                f" {self.holds_until:.3g} times these rates"
            )
        if self.refusal is not None:
            lines.append(self.refusal)
        return "\n".join(lines)


def check(
    network: Network,
    *,
    rates: Mapping[str, float],
    costs: Mapping[str, float] | None = None,
    selectivities: Mapping[str, float] | None = None,
    samples: Mapping[str, Any] | None = None,
    capacity: float = 1.0,
    headroom: float = 1.0,
) -> Analysis:
    """Return what a network asks of the machine; `Network.check` says more."""
    check_terms(network, rates, costs or {}, capacity, headroom)
    if costs is None and samples is None:
        raise InvalidNetworkError(
            "nothing is known of the costs of boxes; give `costs` in seconds a row, or `samples`,"
            " a batch of each stream, on which they are measured"
        )
    measured: tuple[dict[str, float], dict[str, float]] = ({}, {})
    if samples is not None:
        measured = calibrate(network, samples)
    load = Load(
        layout_of(network),
        dict(rates),
        {**measured[0], **(costs or {})},
        {**measured[1], **(selectivities or {})},
    )
    return analysed(network, load, capacity, headroom)


def analysed(network: Network, load: Load, capacity: float, headroom: float) -> Analysis:
    """Return the analysis of a load that is known."""
    may = sheddable(network)
    gone = dict.fromkeys(load.layout.frontier(may), 0.0)
    never = tuple(name for name in network.outputs if name not in may)
    return Analysis(load, capacity, headroom, load.flowing(), load.flowing(gone).total, never)


def check_terms(
    network: Network,
    rates: Mapping[str, float],
    costs: Mapping[str, float],
    capacity: float,
    headroom: float,
) -> None:
    """Raise if a rate is of no stream, a cost of no box, or a number is out of its range."""
    for what, given, known in (
        ("stream", rates, network.streams),
        ("box", costs, network.readable),
    ):
        for name, number in given.items():
            if name not in known:
                raise InvalidNetworkError(
                    f"there is no {what} {name!r}; there are {', '.join(known)}"
                )
            if not number >= 0 or number == float("inf"):
                raise InvalidNetworkError(f"{what} {name!r} has {number!r}; it is 0 or more")
    if not capacity > 0:
        raise InvalidNetworkError(f"capacity is {capacity!r}; it is above 0: 1 is one core")
    if not 0 < headroom <= 1:
        raise InvalidNetworkError(f"headroom is {headroom!r}; it is a share, above 0 and up to 1")
