"""Geofences: which vans enter and leave which zones, and every ping near the depot.

Run it with ``python examples/geofences.py``.
"""

from __future__ import annotations

import pyarrow as pa

import everquery as eq

# Corners of boxes: south, north, west, east.
ZONES = {
    "old town": (52.510, 52.520, 13.400, 13.415),
    "harbour": (52.515, 52.530, 13.410, 13.430),
    "airport": (52.360, 52.370, 13.490, 13.520),
}
PINGS = [  # van, latitude, longitude
    ("van 1", 52.505, 13.402),
    ("van 2", 52.365, 13.500),
    ("van 1", 52.516, 13.404),  # into the old town
    ("van 1", 52.518, 13.412),  # where the old town and the harbour overlap
    ("van 2", 52.366, 13.510),  # moves inside the airport: no news
    ("van 1", 52.525, 13.420),  # on into the harbour
    ("van 2", 52.400, 13.480),
]

stream = eq.Stream("pings", key="van", attributes=["lat", "lon"])

with eq.Engine(stream) as engine:
    # A table of queries: one call, whether it has three rows or a million. Without a key column,
    # each zone watches every van.
    south, north, west, east = zip(*ZONES.values(), strict=True)
    zones = pa.table(
        {"id": list(ZONES), "lat_lo": south, "lat_hi": north, "lon_lo": west, "lon_hi": east}
    )
    engine.register_table(zones, kind="border")
    engine.register(eq.Range("near depot", {"lat": (52.50, 52.51), "lon": (13.40, 13.41)}))
    print(engine.explain("old town"))

    vans, lats, lons = zip(*PINGS, strict=True)
    notices = engine.process(pa.table({"van": vans, "lat": lats, "lon": lons}))
    for notice in notices.to_pylist():
        print(
            f"{notice['key']} at {notice['lat']:.3f}, {notice['lon']:.3f}:"
            f" {notice['event']} {notice['query_id']}"
        )
