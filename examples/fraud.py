"""Fraud: callers who suddenly make many calls that are far longer than their usual ones.

Of each caller, how many of the last calls were longer than three times the average of those calls?
Who talks for about as long as always has hardly any. A stolen phone has: at first its long calls
stand out, and after some time they are the average.

Run it with ``python examples/fraud.py``; ``python examples/fraud.py picture.png`` draws it too.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pyarrow as pa

import everquery as eq

CALLERS = ("ann", "bob", "cyd", "dan")
STOLEN, FROM = "cyd", 300  # whose phone is stolen, and before which of its calls
CALLS = 600  # of each caller
LAST, FACTOR, ALARM = 50, 3.0, 5
BATCH = 200


def durations(caller: int) -> Any:  # noqa: ANN401 - an array
    """Return the durations of a caller's calls, in minutes."""
    rng = np.random.default_rng(caller)
    minutes = rng.gamma(4.0, 0.5 + 0.3 * caller, CALLS)
    if CALLERS[caller] == STOLEN:
        stolen = np.arange(CALLS) >= FROM
        minutes = np.where(stolen & (rng.random(CALLS) < 0.15), 12 * minutes, minutes)
    return np.round(minutes, 2)


def calls() -> pa.Table:
    """Return the calls of all callers, in turn."""
    minutes = np.stack([durations(caller) for caller in range(len(CALLERS))])
    return pa.table({"caller": list(CALLERS) * CALLS, "minutes": minutes.T.reshape(-1)})


def main() -> None:
    """Take the calls in, tell who is suspicious, and what an approximate answer knows."""
    stream = eq.Stream("calls", key="caller", attributes=["minutes"])
    long = {"where": "minutes", "compared": ">", "to": "avg", "factor": FACTOR, "by_key": True}
    with eq.Engine(stream) as engine:
        engine.register(
            eq.Correlated("fraud", "count", last=LAST, epsilon=0, when=(ALARM, None), **long)
        )
        engine.register(eq.Correlated("long", "count", **long))  # of all calls, in 10 buckets
        engine.register(eq.Correlated("exact", "count", epsilon=0, **long))
        table = calls()
        told = []
        for first in range(0, table.num_rows, BATCH):
            told += engine.process(table.slice(first, BATCH)).to_pylist()
        for notice in told:
            if notice["query_id"] == "fraud":
                print(
                    f"{notice['key']}  {notice['event']:<5}  call {notice['seq']}:"
                    f" {notice['value']:.0f} of the last {notice['n']} are long"
                )
        for caller in CALLERS:
            answer, truth = engine.answer("long", key=caller), engine.answer("exact", key=caller)
            print(
                f"{caller}  {answer.value:.0f} long calls, {answer.low:.0f} to {answer.high:.0f};"
                f" exactly {truth.value:.0f}"
            )
    if len(sys.argv) == 2 and sys.argv[1].endswith(".png"):
        draw(told, sys.argv[1])


def draw(told: list[dict[str, Any]], path: str) -> None:
    """Draw the calls of the stolen phone, and when it was suspicious."""
    from matplotlib import pyplot as plt

    minutes = durations(CALLERS.index(STOLEN))
    figure, axes = plt.subplots(figsize=(8, 3.2), layout="constrained")
    axes.plot(minutes, ".", color="#7f7f7f", markersize=4, label=f"calls of {STOLEN}, in minutes")
    window = [minutes[max(0, i + 1 - LAST) : i + 1].mean() * FACTOR for i in range(CALLS)]
    axes.plot(window, color="#0b6e99", label=f"{FACTOR:g} times the average of the last {LAST}")
    for notice in told:
        if notice["query_id"] == "fraud" and notice["key"] == STOLEN:
            colour = "#b8435a" if notice["event"] == "enter" else "#5b8c5a"
            axes.axvline(notice["seq"], color=colour, linewidth=1)
    axes.axvline(-1, color="#b8435a", linewidth=1, label=f"{ALARM} or more of them are longer")
    axes.axvline(-1, color="#5b8c5a", linewidth=1, label="fewer again")
    axes.set(xlabel="call", yscale="log", xlim=(0, CALLS))
    axes.legend(loc="upper left", fontsize=8)
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
