"""Sensors: every message has one measure, and one engine watches them all.

Machines send each measure on a topic of its own, so an event has a temperature or a vibration,
and nothing else. What an event does not have is unknown: the queries that ask for it do not see the
event, and all others do.

Run it with ``python examples/sensors.py``.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import everquery as eq

BEGIN = datetime(2024, 5, 1, 6)
MACHINES = ("press", "lathe")
ROUNDS = 40
HOT, SHAKING = 80.0, 4.0


def temperature(machine: int, number: int) -> float:
    """Return a temperature that rises and falls: up to 95 degrees."""
    return 65 + abs((7 * number + 13 * machine) % 60 - 30)


def vibration(machine: int, number: int) -> float:
    """Return a vibration between 2 and 5 millimetres a second."""
    return 2 + ((number * (machine + 2)) % 13) / 4


def messages() -> list[dict[str, Any]]:
    """Return messages in the order of their times, as they come from the topics."""
    found = []
    for number in range(ROUNDS):
        for machine, name in enumerate(MACHINES):
            at = BEGIN + timedelta(seconds=10 * number + 2 * machine)
            found.append({"machine": name, "ts": at, "temperature": temperature(machine, number)})
            at += timedelta(seconds=1)
            found.append({"machine": name, "ts": at, "vibration": vibration(machine, number)})
    return found


def main() -> None:
    """Take the messages in as they come, and tell what happens."""
    stream = eq.Stream(
        "readings", key="machine", time="ts", attributes=["temperature", "vibration"]
    )
    with eq.Engine(stream) as engine:
        engine.register(eq.Border("hot", {"temperature": (HOT, None)}))
        engine.register(eq.Border("shaking", {"vibration": (SHAKING, None)}))
        engine.register(eq.Threshold("worn", {"vibration": (SHAKING, None)}, total=5, repeat=True))
        received = messages()
        for first in range(0, len(received), 7):
            notices = engine.process(received[first : first + 7])
            for notice in notices.to_pylist():
                measure = "temperature" if notice["query_id"] == "hot" else "vibration"
                print(
                    f"{notice['time']:%H:%M:%S}  {notice['key']:<5}  {notice['event']:<5}"
                    f"  {notice['query_id']:<7}  {measure}={notice[measure]:g}"
                )


if __name__ == "__main__":
    main()
