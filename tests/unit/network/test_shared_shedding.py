"""Shedding where outputs share a dear box, a union or a window: counts add up there too."""

import pytest

import everquery as eq
from tests.unit.network.overloads import rows

SHARED = """
network: shared
streams: {seen: {key: badge, time: ts, attributes: [x, y]}}
boxes:
  dear: {box: map, from: seen, select: "badge, ts, x, y"}
  left: {box: filter, from: dear, where: "x >= 0"}
  right: {box: filter, from: dear, where: "y >= 0"}
  both: {box: union, from: [left, right]}
  count: {box: tumble, from: right, by: [badge], every: {time: 1}, select: "badge, count(*) AS n"}
outputs:
  both: {from: both, qos: {delay: [[0, 1], [2, 1], [5, 0]]}}
  count: {from: count, qos: {delay: [[0, 1], [4, 1], [9, 0]]}}
"""
COSTS = {"dear": 2e-3, "left": 1e-5, "right": 1e-5, "both": 1e-5, "count": 1e-5}


@pytest.mark.parametrize("times", [1.5, 4])
def test_rows_are_shed_before_a_dear_box_that_outputs_share(times):
    run = eq.Network.load(SHARED).start(costs=COSTS, shed=True)
    found = {"both": 0, "count": 0}
    came = 0
    for at in range(60):
        batch = rows(round(500 * times / 4), at / 4)
        came += batch.num_rows
        given = run.process({"seen": batch}, now=at / 4)
        found["both"] += given["both"].num_rows
        found["count"] += sum(given["count"].column("n").to_pylist())
    given = run.finish()
    found["both"] += given["both"].num_rows
    found["count"] += sum(given["count"].column("n").to_pylist())
    report = run.shed_report().to_pylist()
    assert {row["place"] for row in report} == {"seen"}
    for output, each in (("both", 2), ("count", 1)):  # rows out for each row in
        shed = sum(row["shed"] for row in report if row["output"] == output)
        assert shed > 0
        assert found[output] == each * (came - shed)
    assert set(run.inexact()) == {"both", "count"}
    last = [row for row in run.quality().to_pylist() if row["until"] in (13.0, 14.0)]
    assert all(row["longest_delay"] < 5 for row in last if row["output"] == "both")
