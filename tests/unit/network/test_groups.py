"""Boxes with windows of time remember what is open, and no group that is over."""

import pyarrow as pa
import pytest

import everquery as eq
from everquery import network as n
from tests.unit.network.plants import outputs_of

S = eq.Stream("s", key="k", time="t", attributes=["x"])
R = eq.Stream("r", key="k", time="t", attributes=["y"])
COUNT = {"by": "k", "select": "k, count(*) AS n"}
BOXES = {
    "tumble": n.Tumble("s", every={"time": 10}, **COUNT),
    "slide": n.Slide("s", last={"time": 10}, **COUNT),
    "steps": n.Slide("s", last={"time": 10}, every={"time": 5}, **COUNT),
    "join": n.Join(["s", "r"], within={"time": 5}, on="s.k = r.k", select="s.k AS k, s.t AS t"),
    "resample": n.Resample(["s", "r"], within={"time": 5}, by="k", predict="count(*) AS n"),
}


def batch(numbers, value):
    return pa.table(
        {
            "k": [f"key{number}" for number in numbers],
            "t": [number // 5 for number in numbers],
            value: [1.0] * len(numbers),
        }
    )


@pytest.mark.parametrize("name", BOXES)
def test_groups_whose_windows_are_over_are_forgotten(name):
    network = eq.Network("n", [S, R], {name: BOXES[name]}, {"out": name})
    run = network.start()
    sizes, rows = [], 0
    for begin in range(0, 4000, 100):
        numbers = range(begin, begin + 100)
        found = run.process({"s": batch(numbers, "x"), "r": batch(numbers, "y")})
        rows += found["out"].num_rows
        sizes.append(len(run.snapshot()))
    assert max(sizes[20:]) < 1.2 * max(sizes[:10])
    assert rows + run.finish()["out"].num_rows == {"steps": 8000}.get(name, 4000)


def test_a_latch_remembers_every_group():
    network = eq.Network("n", [S], {"l": n.Latch("s", every={"time": 10}, **COUNT)}, {"out": "l"})
    rows = pa.table({"k": ["a", *"bcd" * 100, "a"], "t": [*range(301), 900], "x": [1.0] * 302})
    told = [row for row in outputs_of(network, {"s": rows}, [5] * 50)["out"] if row["k"] == "a"]
    assert [row["n"] for row in told] == [1, 2]


@pytest.mark.parametrize("box", ["tumble", "slide", "steps", "resample"])
def test_the_order_of_groups_does_not_depend_on_batches(box):
    keys = list("bacadbacbdda")
    s = pa.table({"k": keys, "t": [at // 4 * 7 for at in range(12)], "x": [1.0] * 12})
    r = pa.table({"k": keys[::-1], "t": [at // 4 * 7 for at in range(12)], "y": [1.0] * 12})
    network = eq.Network("n", [S, R], {box: BOXES[box]}, {"out": box})
    whole = outputs_of(network, {"s": s, "r": r})
    assert outputs_of(network, {"s": s, "r": r}, [1] * 11) == whole
    assert outputs_of(network, {"s": s, "r": r}, [5, 2], restored=True) == whole
