"""Couriers: who comes into a zone and leaves it, and who has really arrived.

Each courier reports a position every minute. A border query with a box over latitude and longitude
tells of every way in and out. Where a courier only rides past, that is noise: with a dwell, a
crossing counts once the courier has stayed on that side for five minutes.

Run it with ``python examples/couriers.py``.
"""

from __future__ import annotations

import math
from datetime import datetime, timedelta

import pyarrow as pa

import everquery as eq

BEGIN = datetime(2024, 5, 1, 8)
MINUTES = 120
DWELL = timedelta(minutes=5)
ZONES = {  # south, north, west, east
    "old town": (52.510, 52.522, 13.395, 13.415),
    "harbour": (52.503, 52.513, 13.410, 13.435),
}
COURIERS = {"ann": 0.0, "bob": 0.35, "cem": 0.7}  # where on the round each begins


def position(courier: str, minute: int) -> tuple[float, float]:
    """Return latitude and longitude: a round a little over an hour, with detours."""
    turn = 2 * math.pi * (minute / 67 + COURIERS[courier])
    detour = 0.004 * math.sin(7 * turn)
    latitude = 52.513 + 0.012 * math.sin(turn) + detour
    longitude = 13.412 + 0.022 * math.cos(turn)
    return round(latitude, 5), round(longitude, 5)


def pings(first: int, last: int) -> pa.Table:
    """Return the positions of all couriers, from one minute up to another."""
    rows = [
        (courier, BEGIN + timedelta(minutes=minute), *position(courier, minute))
        for minute in range(first, last)
        for courier in COURIERS
    ]
    columns = zip(*rows, strict=True)
    return pa.table(dict(zip(("courier", "ts", "lat", "lon"), columns, strict=True)))


def main() -> None:
    """Watch two hours in batches of half an hour."""
    stream = eq.Stream("pings", key="courier", time="ts", attributes=["lat", "lon"])
    with eq.Engine(stream) as engine:
        for zone, (south, north, west, east) in ZONES.items():
            box = {"lat": (south, north), "lon": (west, east)}
            engine.register(eq.Border(f"{zone}: crossing", box))
            engine.register(eq.Border(f"{zone}: settled", box, dwell=DWELL))
        for first in range(0, MINUTES, 30):
            for notice in engine.process(pings(first, first + 30)).to_pylist():
                print(
                    f"{notice['time']:%H:%M}  {notice['key']}  {notice['event']:<5}"
                    f"  {notice['query_id']}"
                )


if __name__ == "__main__":
    main()
