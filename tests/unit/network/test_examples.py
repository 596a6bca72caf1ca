"""The networks in examples/ run, both ways."""

from pathlib import Path

import numpy as np
import pyarrow as pa

import everquery as eq
from tests.unit.network.plants import assert_same_every_way, readings

EXAMPLES = Path(__file__).parents[3] / "examples"


def test_the_plant_runs():
    network = eq.Network.load(EXAMPLES / "plant.yaml")
    assert eq.Network.load(network.dump()) == network
    found = assert_same_every_way(network, {"readings": readings(300)})
    assert all(found[name] for name in ("celsius", "minutes", "highest", "trouble", "alarms"))


def test_the_fleet_runs():
    rng = np.random.default_rng(5)
    count = 200
    van = np.array(["a", "b"])[np.arange(count) % 2]
    positions = pa.table(
        {
            "van": van,
            "ts": np.arange(count) * 5,
            "odometer": np.arange(count) // 2 / 8.0,
            "speed": np.round(rng.uniform(-5, 60, count).clip(0)),
            "fuel": 100 - np.arange(count) / 16,
        }
    )
    ticks = pa.table({"van": ["a", "b"] * 16, "ts": np.repeat(np.arange(16) * 60, 2)})
    network = eq.Network.load(EXAMPLES / "fleet.yaml")
    assert eq.Network.load(network.dump()) == network
    found = assert_same_every_way(network, {"positions": positions, "ticks": ticks})
    assert len(found["placed"]) == 32
    assert all(found[name] for name in network.outputs)
    exact = [row for row in found["placed"] if row["van"] == "a" and row["ts"] == 120]
    assert exact == [{"van": "a", "ts": 120, "odometer": 1.5, "fuel": 98.5}]
