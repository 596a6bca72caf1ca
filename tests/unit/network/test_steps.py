"""The greedy choice, and intervals carried up and down."""

import pyarrow as pa
import pytest
import sqlglot

from everquery.network import Network
from everquery.network.analysis.check import layout_of
from everquery.network.analysis.layout import Place
from everquery.network.analysis.load import Load
from everquery.network.quality import Quality
from everquery.network.shedding.backward import Carrier, inverse, linear
from everquery.network.shedding.controller import Controller
from everquery.network.shedding.droppers import Dropper, Interval
from everquery.network.shedding.forward import Trial
from everquery.network.shedding.histograms import Histogram
from everquery.network.shedding.steps import Greedy, Offer, kept_at, losses

TWO = """
network: two
streams: {s: {attributes: [x]}}
boxes:
  common: {box: map, from: s, select: "x"}
  left: {box: map, from: common, select: "x"}
  right: {box: map, from: common, select: "x"}
outputs: {left: {from: left}, right: {from: right}}
"""
COSTS = {"common": 0.1, "left": 0.4, "right": 0.5}
STEEP, FLAT = ((0, 1.0), (1, 0.0)), ((0, 1.0), (0.5, 0.9), (1, 0.0))


def two(rate=1.0):
    return Load(layout_of(Network.load(TWO)), {"s": rate}, COSTS)


def test_the_flattest_graph_goes_first_to_its_bend_and_then_the_next():
    greedy = Greedy({"left": STEEP, "right": FLAT})
    (one,) = greedy.steps(two(), [], 0.1)
    assert one.outputs == {"right"}
    assert one.shares == {Place("common", "right"): pytest.approx(0.2)}
    first, second = greedy.steps(two(), [], 0.5)
    assert first.shares == {Place("common", "right"): pytest.approx(0.5)}
    assert second.outputs == {"left"}  # 1 for 0.4 s of work against 0.9 for 0.25 s
    assert losses([first], ["left", "right"]) == {"left": 0, "right": pytest.approx(0.5)}


def test_what_outputs_share_is_shed_for_both_when_nothing_else_is_left():
    greedy = Greedy({"left": STEEP, "right": STEEP})
    steps = greedy.steps(two(), [], 0.95)
    left = two().flowing(kept_at(steps)).total
    assert left == pytest.approx(0.05)
    assert any(step.outputs == {"left", "right"} for step in steps)


def test_outputs_that_may_not_be_shed_are_left_alone():
    greedy = Greedy({"right": FLAT})
    steps = greedy.steps(two(), [], 5)
    assert {name for step in steps for name in step.outputs} == {"right"}
    assert two().flowing(kept_at(steps)).total == pytest.approx(0.5)


def test_an_interval_without_worth_goes_before_any_share():
    place = Place("common", "left")
    nothing = Offer("left", {place: 0.3}, 0.0, {place: Interval("x", 0, 1)})
    greedy = Greedy({"left": STEEP, "right": FLAT})
    step = greedy.next(two(), [], 0.01, [nothing])
    assert step is not None
    assert step.intervals


def test_a_dropper_takes_its_share_however_rows_are_divided():
    whole, parts = Dropper(Place("s"), 0.3), Dropper(Place("s"), 0.3)
    table = pa.table({"x": range(100)})
    wanted = whole.keep(table, 0)
    found = [parts.keep(table.slice(at, 7), at) for at in range(0, 100, 7)]
    assert pa.concat_tables(found).equals(wanted)
    assert wanted.num_rows == 70
    assert sum(count.shed for count in parts.counts.values()) == 30


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("x", (1, 0)),
        ("(x - 32) / 1.6", (0.625, -20)),
        ("-2 * (x + 1)", (-2, -2)),
        ("10 - x", (-1, 10)),
        ("x * x", None),
        ("1 / x", None),
        ("abs(x)", None),
        ("x * 0", None),
    ],
)
def test_linear_expressions_are_seen(text, wanted):
    found = linear(sqlglot.parse_one(text, read="duckdb"))
    assert (None if found is None else found[1:]) == wanted


def test_the_inverse_of_a_falling_map_turns_the_ends():
    there = inverse(Interval("y", 0.0, 10.0), "x", -1.0, 10.0)
    column = pa.table({"x": [0.0, 0.5, 10.0, 10.5]})
    assert there.mask(column).to_pylist() == [False, True, True, False]


CHAIN = """
network: chain
streams:
  s: {key: k, time: ts, attributes: [x]}
  t: {key: k, time: ts, attributes: [v]}
boxes:
  a: {box: map, from: s, select: "k, ts, x + 1 AS y"}
  f: {box: filter, from: a, where: "y > 0"}
  j: {box: join, from: [f, t], within: {time: 1}, on: "f.k = t.k"}
  m: {box: map, from: j, select: "k, y * 2 AS z, v"}
outputs: {o: {from: m, qos: {values: {z: [[0, 0], [10, 1]]}}}}
"""


def test_intervals_are_carried_through_map_filter_and_one_side_of_a_join():
    network = Network.load(CHAIN)
    layout = layout_of(network)
    found = Carrier(network.readable, network.types, layout).carried("o", Interval("z", 4.0, 6.0))
    assert found == {Place("s"): Interval("x", 1.0, 2.0)}
    found = Carrier(network.readable, network.types, layout).carried("o", Interval("v", 4.0, 6.0))
    assert found == {Place("t"): Interval("v", 4.0, 6.0)}


def test_a_box_without_inverse_is_tried_forward():
    text = """
network: trial
streams: {s: {attributes: [x, u]}}
boxes: {sq: {box: map, from: s, select: "x * x AS y"}}
outputs: {o: {from: sq, qos: {values: {y: [[0, 0], [100, 1]]}}}}
"""
    network = Network.load(text)
    layout = layout_of(network)
    probe = Interval("y", 0.0, 1.0)
    assert Carrier(network.readable, network.types, layout).carried("o", probe) is None
    graph = ("y", ((0, 0.0), (100, 1.0)))
    trial = Trial(network.readable, network.types, layout, "o", graph)
    sample = pa.table({"x": [float(x) for x in range(-10, 11)], "u": [1.0] * 21})
    first = trial.offers(Place("s"), sample)[0]
    (interval,) = first.intervals.values()
    assert interval.column == "x"
    assert interval.low <= 0 <= interval.high
    assert first.lost < 0.05


def test_a_histogram_knows_what_intervals_are_worth():
    histogram = Histogram("w", ((0, 0.0), (100, 1.0)))
    assert histogram.bins() == []
    histogram.add(pa.table({"w": [float(value) for value in range(-100, 100)] + [None]}))
    bins = histogram.bins()
    assert bins[0].worth == 0
    assert sum(one.rows for one in bins) == pytest.approx(1)
    assert sum(one.worth for one in bins) == pytest.approx(1)
    assert min(one.low for one in bins) == -float("inf")
    histogram.frozen = True
    histogram.add(pa.table({"w": [1e9] * 1000}))
    assert histogram.bins() == bins


def test_load_is_shed_with_patience_and_taken_back_last_in_first_out():
    controller = Controller(Greedy({"left": STEEP, "right": FLAT}), allowed=0.5, patience=2, calm=2)

    def tick(rate, late):
        return controller.tick(two(rate), 0.0, late=late, offers=tuple)

    assert tick(1.0, True) == ([], [])
    removed, added = tick(1.0, True)
    assert not removed
    assert len(added) == 2
    assert two().flowing(kept_at(controller.steps)).total == pytest.approx(0.475)
    assert tick(1.0, True) == ([], [])  # what was done needs time to show
    assert tick(0.3, False) == ([], [])
    assert tick(0.3, False) == ([added[1]], [])
    assert tick(0.3, False) == ([added[0]], [])
    assert tick(0.3, False) == ([], [])


def test_less_is_shed_when_the_load_falls_a_little():
    controller = Controller(Greedy({"right": STEEP}), allowed=0.6, patience=1, calm=1)
    controller.tick(two(1.0), 0.0, late=True, offers=tuple)
    before = kept_at(controller.steps)[Place("common", "right")]
    removed, added = controller.tick(two(0.75), 0.0, late=False, offers=tuple)
    assert len(removed) == len(added) == 1
    assert kept_at(controller.steps)[Place("common", "right")] > before


def test_quality_is_a_frozen_set_of_graphs():
    assert Quality.read({"loss": [[0, 1], [1, 0]]}).loss == ((0, 1), (1, 0))
