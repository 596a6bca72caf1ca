"""Price alerts: tell each owner when a share enters or leaves the band that they care about.

Run it with ``python examples/price_alerts.py``.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import pyarrow as pa

import everquery as eq

OPENING = datetime(2024, 1, 2, 9, 30)


def trades(first: int, *rows: tuple[str, float]) -> pa.Table:
    """Return one trade a second, from second `first` on."""
    times = [OPENING + timedelta(seconds=first + i) for i in range(len(rows))]
    symbols, prices = zip(*rows, strict=True)
    return pa.table({"symbol": symbols, "ts": times, "price": prices})


def show(notices: pa.Table) -> None:
    """Print a line a notice."""
    for notice in notices.to_pylist():
        reason = f" ({notice['reason']})" if notice["reason"] else ""
        print(
            f"{notice['time']:%H:%M:%S}  {notice['key']:<4} {notice['price']:>7.2f}"
            f"  {notice['event']:<5}  {notice['query_id']}{reason}"
        )


stream = eq.Stream("trades", key="symbol", time="ts", attributes=["price"])

with eq.Engine(stream) as engine:
    # One symbol each, with the ends that the owner means: [40, 50] holds 50, None is no limit.
    engine.register(
        eq.Border("ada: IBM 40-50", {"price": eq.Interval(40, 50, closed="both")}, key="IBM")
    )
    engine.register(eq.Border("bob: AAPL below 180", {"price": (None, 180)}, key="AAPL"))
    # No key: every symbol. A range query tells of every event inside, not only of crossings.
    engine.register(eq.Range("cem: penny stocks", {"price": (0, 1)}))

    print("-- the market opens")
    show(engine.process(trades(0, ("IBM", 39.5), ("AAPL", 181.0), ("IBM", 50.0), ("XYZ", 0.8))))

    # Queries come and go while the stream runs. IBM is inside the new band already: dee is told.
    engine.register(eq.Border("dee: IBM above 45", {"price": (45, None)}, key="IBM"))
    engine.deregister("cem: penny stocks")

    print("-- dee has joined, cem has left")
    show(engine.process(trades(60, ("IBM", 50.01), ("AAPL", 179.9), ("XYZ", 0.7), ("IBM", 44.0))))
