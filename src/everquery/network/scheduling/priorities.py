"""Which output is served next: the one that loses the most utility if it is not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from everquery.network.ends import Output
from everquery.network.quality import Points
from everquery.network.utility import delay_graph, utility

MOST_WEIGHT = 16.0


@dataclass(frozen=True)
class Waiting:
    """What waits for an output.

    Attributes
    ----------
    rows : int
    age : float
        Seconds since the oldest of them came to its source.
    work : float
        Seconds of work until they reach the output.
    """

    output: str
    rows: int
    age: float
    work: float


class Priorities:
    """Chooses outputs by state, and by feedback.

    By state: the utility that waiting rows lose if they wait a while longer, for each second of
    work. By feedback: outputs that were late in an interval weigh twice as much in the next, and
    half as much once they are in their good zone again.
    """

    def __init__(self, outputs: Mapping[str, Output]) -> None:
        self._graphs: dict[str, Points | None] = {}
        self.weights: dict[str, float] = {}
        self.follow(outputs)

    def follow(self, outputs: Mapping[str, Output]) -> None:
        """Go on with these outputs."""
        self._graphs = {name: delay_graph(one.qos) for name, one in outputs.items()}
        self.weights = {name: self.weights.get(name, 1.0) for name in outputs}

    def learn(self, late: Iterable[str]) -> None:
        """Take in which outputs were late in the last interval."""
        bad = set(late)
        for name, weight in self.weights.items():
            changed = weight * 2 if name in bad else weight / 2
            self.weights[name] = min(max(changed, 1.0), MOST_WEIGHT)

    def choose(self, waiting: Iterable[Waiting], later: float) -> str | None:
        """Return the output to serve; `later` is how much longer the others will wait."""
        found = max(
            waiting, key=lambda one: (self._price(one, later), one.age, one.output), default=None
        )
        return None if found is None else found.output

    def _price(self, one: Waiting, later: float) -> float:
        graph = self._graphs[one.output]
        if graph is None:
            return 0.0
        lost = utility(graph, one.age) - utility(graph, one.age + later)
        return self.weights[one.output] * lost * one.rows / max(one.work, 1e-9)
