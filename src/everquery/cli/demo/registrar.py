"""The demo's second process: registers and drops queries in the registry while the market runs.

It knows nothing of the job that answers them. It begins with the first line of standard input and
ends with the input; what it does it tells on standard output, a JSON object a line.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
from dataclasses import asdict, dataclass

from everquery.cli.demo.plan import Plan
from everquery.engine import open_engine
from everquery.sources.market import Market, query_ids


@dataclass(frozen=True, slots=True)
class Task:
    """What to do.

    Attributes
    ----------
    url : str
        Of the registry.
    plan : Plan
    rounds : int
        In how many portions the plan's changes are made.
    every : float
        Seconds between two of them.
    """

    url: str
    plan: Plan
    rounds: int
    every: float

    def as_json(self) -> str:
        """Return it as text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Task:
        """Return what a text says."""
        fields = json.loads(text)
        return cls(**fields | {"plan": Plan(**fields["plan"])})


def main(task: Task) -> None:
    """Do it."""
    plan = task.plan
    symbols = Market(symbols=plan.symbols, seed=plan.seed).symbols
    first = plan.by_kind()
    done = dict.fromkeys(first, 0)
    with open_engine(task.url) as engine:
        _tell(engine.position, done)
        if not os.read(0, 16):
            return
        for turn in range(task.rounds):
            for kind, count in plan.changes_by_kind().items():
                size = count * (turn + 1) // task.rounds - done[kind]
                if size:
                    table = plan.table(kind, first[kind] + done[kind], size, symbols=symbols)
                    engine.register_table(table, kind=kind)
                    engine.deregister(query_ids(kind, done[kind], size))
                    done[kind] += size
            _tell(engine.position, done)
            if select.select([0], [], [], task.every)[0]:
                return


def _tell(position: int, done: dict[str, int]) -> None:
    print(json.dumps({"position": position, "registered": done, "dropped": done}), flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the demo, which tells us
    main(Task.from_json(sys.argv[1]))
