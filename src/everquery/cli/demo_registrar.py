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

from everquery.cli.demo_job import Plan
from everquery.engine import open_engine
from everquery.sources import Market, market_queries, query_ids


@dataclass(frozen=True, slots=True)
class Task:
    """What to do.

    Attributes
    ----------
    url : str
        Of the registry.
    queries, symbols, changes, width, seed : as in `Plan`
        `changes` is how many are registered, and dropped, in all.
    rounds : int
        In how many portions.
    every : float
        Seconds between two of them.
    """

    url: str
    queries: int
    symbols: int
    changes: int
    width: float
    seed: int
    rounds: int
    every: float

    def as_json(self) -> str:
        """Return it as text."""
        return json.dumps(asdict(self))


def main(task: Task) -> None:
    """Do it."""
    plan = Plan(queries=task.queries, symbols=task.symbols, changes=task.changes, width=task.width)
    symbols = Market(symbols=task.symbols, seed=task.seed).symbols
    first = plan.by_kind()
    done = dict.fromkeys(first, 0)
    with open_engine(task.url) as engine:
        print(json.dumps({"position": engine.position, **_counts(done)}), flush=True)
        if not os.read(0, 16):
            return
        for turn in range(task.rounds):
            for kind, count in plan.changes_by_kind().items():
                size = count * (turn + 1) // task.rounds - done[kind]
                if not size:
                    continue
                table = market_queries(
                    size,
                    kind,
                    symbols=symbols,
                    width=task.width,
                    seed=task.seed,
                    first=first[kind] + done[kind],
                )
                engine.register_table(table, kind=kind)
                engine.deregister(query_ids(kind, done[kind], size))
                done[kind] += size
            print(json.dumps({"position": engine.position, **_counts(done)}), flush=True)
            if select.select([0], [], [], task.every)[0]:
                return


def _counts(done: dict[str, int]) -> dict[str, dict[str, int]]:
    return {"registered": dict(done), "dropped": dict(done)}


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the demo, which tells us
    main(Task(**json.loads(sys.argv[1])))
