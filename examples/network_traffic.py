"""Three queries over the packets of two links: load, a customer's share, and the busiest pairs.

They are those of Babu and Widom, "Continuous Queries over Data Streams" (2001): the load of the
backbone link by minute, with a threshold; the share of the backbone's packets that come from a
customer, by a join of two streams; and the pairs of addresses in the top 5% of traffic. All of them
are read on demand, over the last minute.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import everquery as eq

MINUTE = 60
COLUMNS = ["saddr", "daddr", "id", "length"]
CUSTOMER = eq.Stream("customer", time="timestamp", attributes=COLUMNS)
BACKBONE = eq.Stream("backbone", time="timestamp", attributes=COLUMNS)
TOO_MUCH = 150_000  # bytes a minute

QUERIES = f"""
CREATE STANDING QUERY load AS
SELECT SUM(length) AS load FROM backbone HAVING SUM(length) > {TOO_MUCH}
BEGIN NOW - {MINUTE} END NOW;
CREATE STANDING QUERY all_packets AS
SELECT COUNT(*) FROM backbone BEGIN NOW - {MINUTE} END NOW;
CREATE STANDING QUERY pairs AS
SELECT saddr, daddr, SUM(length) AS traffic FROM backbone GROUP BY saddr, daddr
BEGIN NOW - {MINUTE} END NOW;
"""
SHARED = f"""
CREATE STANDING QUERY shared AS
SELECT COUNT(*) FROM customer AS c, backbone AS b
WHERE c.saddr = b.saddr AND c.daddr = b.daddr AND c.id = b.id
BEGIN NOW - {MINUTE} END NOW;
"""


def packets(rng: np.random.Generator, n: int, begin: int) -> tuple[pa.Table, pa.Table]:
    """Return packets of a customer's link, and of the backbone, which some of them reach."""
    backbone = {
        "timestamp": np.sort(begin + rng.integers(0, MINUTE, n)),
        "saddr": rng.zipf(1.5, n).clip(1, 50).astype(float),
        "daddr": rng.zipf(1.5, n).clip(1, 50).astype(float),
        "id": rng.permutation(10 * n)[:n].astype(float),
        "length": rng.integers(40, 1_500, n).astype(float),
    }
    came = np.flatnonzero(rng.random(n) < 0.3)
    customer = {name: column[came] for name, column in backbone.items()}
    strays = rng.integers(0, came.size, 5)
    customer["id"][strays] += 0.5  # they went elsewhere
    return pa.table(customer), pa.table(backbone)


def answers(engine: eq.Engine) -> dict[str, object]:
    """Read all queries: the load, if it is too much; the customer's share; the busiest pairs."""
    load = engine.invoke("load")["load"].to_pylist()
    shared = engine.invoke("shared")["count"][0].as_py()
    total = engine.invoke("all_packets")["count"][0].as_py()
    pairs = engine.invoke("pairs").sort_by("traffic")
    top = pairs.slice(int(np.ceil(0.95 * pairs.num_rows)))
    return {"too much": load, "share": shared / max(total, 1), "top": top}


def main() -> None:
    """Let three minutes pass, and look after each."""
    engine = eq.Engine([CUSTOMER, BACKBONE])
    engine.sql(QUERIES)
    engine.sql(SHARED)
    rng = np.random.default_rng(1)
    for minute in range(3):
        customer, backbone = packets(rng, 100 * (minute + 1), minute * MINUTE)
        engine.process(customer, stream="customer")
        engine.process(backbone, stream="backbone")
        found = answers(engine)
        top = found["top"]
        assert isinstance(top, pa.Table)
        load = "too much load" if found["too much"] else "load is fine"
        print(f"minute {minute}: {load}, share {found['share']:.0%}, {top.num_rows} busiest pairs")


if __name__ == "__main__":
    main()
