"""Watch boxes: time passes them though no row comes, and their notices say that rows were shed."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

import everquery as eq
from everquery import network as n
from tests.unit.network.plants import outputs_of

DWELL = (
    "CREATE STANDING QUERY stays AS SELECT * FROM w WHERE x >= 1 AND x < 5 EMIT ENTER, LEAVE"
    " WITH (dwell = {})"
)
BEGINNING = dt.datetime(2024, 5, 1, tzinfo=dt.UTC)
TIMES = {
    "whole": (pa.int64(), lambda second: second, "10"),
    "real": (pa.float64(), lambda second: second + 0.5, "10"),
    "ns": (pa.timestamp("ns"), lambda s: dt.datetime(2024, 5, 1) + s * SECOND, "'10s'"),
    "zoned": (pa.timestamp("us", "UTC"), lambda second: BEGINNING + second * SECOND, "'10s'"),
}
SECOND = dt.timedelta(seconds=1)


def watching(dwell):
    boxes = {
        "mine": n.Filter("s", where="k = 'a'"),
        "w": n.Watch("mine", queries=[DWELL.format(dwell)], stream="w"),
    }
    stream = eq.Stream("s", key="k", time="t", attributes=["x"])
    return eq.Network("n", [stream], boxes, {"out": "w"})


def batch(keys, times, values, kind=None):
    return pa.table({"k": keys, "t": pa.array(times, kind), "x": values})


@pytest.mark.parametrize("clock", TIMES)
def test_time_passes_a_watch_box_though_no_row_gets_there(clock):
    kind, moment, dwell = TIMES[clock]
    run = watching(dwell).start()
    assert not run.process({"s": batch(["a"], [moment(5)], [2.0], kind)})["out"].num_rows
    assert not run.process({"s": batch(["b"], [moment(14)], [2.0], kind)})["out"].num_rows
    told = run.process({"s": batch(["b"], [moment(15)], [2.0], kind)})["out"].to_pylist()
    assert [(row["event"], row["key"], row["time"]) for row in told] == [("enter", "a", moment(15))]


def test_time_that_passes_gives_the_same_notices_whatever_the_batches():
    rng = np.random.default_rng(4)
    times = np.cumsum(rng.integers(0, 9, 60))
    given = {
        "s": batch(rng.choice(list("ab"), 60), times, rng.choice([2.0, 9.0], 60, p=[0.8, 0.2]))
    }
    network = watching("10")
    whole = outputs_of(network, given)
    assert len(whole["out"]) > 1
    for sizes in ([1] * 59, [3, 4], [25]):
        assert outputs_of(network, given, sizes) == whole
        assert outputs_of(network, given, sizes, restored=True, optimize=False) == whole


def test_notices_behind_a_shedder_say_so():
    query = "CREATE STANDING QUERY q AS SELECT * FROM w WHERE x >= 0 EMIT MATCHES"
    boxes = {
        "seen": n.Filter("s", where="x > 0"),
        "part": n.Watch("seen", queries=[query], stream="w"),
        "all": n.Watch("s", queries=[query], stream="w"),
    }
    never = n.Output("all", shed="never")
    stream = eq.Stream("s", key="k", attributes=["x"])
    network = eq.Network("n", [stream], boxes, {"part": "part", "all": never})
    costs = {"seen": 1e-3, "part": 1e-3, "all": 1e-4}
    run = network.start(capacity=1.0, shed=True, costs=costs)
    reasons = {"part": [], "all": []}
    for second in range(12):
        rows = pa.table({"k": ["a"] * 1500, "x": [1.0] * 1500})
        for name, notices in run.process({"s": rows}, now=float(second)).items():
            reasons[name] += notices.column("reason").to_pylist()
    assert set(reasons["all"]) == {None}
    assert set(reasons["part"]) == {None, "shed"}
    assert reasons["part"].index("shed") > 0
    assert set(reasons["part"][reasons["part"].index("shed") :]) == {"shed"}
