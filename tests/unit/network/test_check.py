"""Static analysis: rates, costs, capacity, and what is refused."""

import pytest

import everquery as eq
from tests.unit.network.overloads import COSTS, rows, track


def test_rates_go_through_the_boxes_and_work_adds_up():
    found = track().check(
        rates={"seen": 1000}, costs=COSTS, selectivities={"near": 0.1}, capacity=2, headroom=0.5
    )
    table = {row["box"]: row for row in found.table().to_pylist()}
    assert table["spot"]["rate_in"] == pytest.approx(100)
    assert table["spot"]["work"] == pytest.approx(0.01)
    assert found.minimum_capacity == pytest.approx(1.01)
    assert not found.suffices
    assert found.saturates_first == "heat"
    assert found.holds_until == pytest.approx(1 / 1.01)
    assert "does not suffice" in str(found)
    assert track().check(rates={"seen": 100}, costs=COSTS).suffices


def test_never_is_refused_where_it_cannot_hold():
    network = track()
    fits = network.check(rates={"seen": 5000}, costs=COSTS, selectivities={"near": 0.1})
    assert fits.protected == pytest.approx(0.55)
    assert fits.refusal is None
    terms = {"costs": COSTS, "selectivities": {"near": 0.1}, "shed": True}
    network.start(rates={"seen": 5000}, **terms)
    with pytest.raises(eq.InvalidNetworkError, match=r"never.*'spot' can't be kept.*5\.5 s"):
        network.start(rates={"seen": 50_000}, **terms)


def test_costs_are_measured_on_samples_where_they_are_not_given():
    found = track().check(rates={"seen": 10}, samples={"seen": rows(500, 0.0)}, costs={"near": 0.5})
    assert found.load.costs["near"] == 0.5
    assert found.load.costs["heat"] > 0
    assert 0 < found.load.selectivities["near"] < 0.3
    assert found.load.selectivities["heat"] == 1


def test_a_kept_point_is_no_place_to_shed_above():
    text = """
network: kept
streams: {s: {attributes: [x]}}
boxes: {a: {box: map, from: s, select: "x"}, b: {box: filter, from: p, where: "x > 1"}}
points: {p: {from: a, keep: all}}
outputs: {b: {from: b}}
"""
    network = eq.Network.load(text)
    load = network.check(rates={"s": 1}, costs={}).load
    assert [str(place) for place in load.layout.frontier(frozenset({"b"}))] == ["p -> b"]
    network = eq.Network.load(text.replace(", keep: all", ""))
    load = network.check(rates={"s": 1}, costs={}).load
    assert [str(place) for place in load.layout.frontier(frozenset({"b"}))] == ["s"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"rates": {"other": 1}}, "no stream 'other'"),
        ({"costs": {"other": 1}}, "no box 'other'"),
        ({"costs": {"near": -1}}, "0 or more"),
        ({"costs": None}, "nothing is known of the costs"),
        ({"capacity": 0}, "capacity"),
        ({"headroom": 1.5}, "headroom"),
    ],
)
def test_bad_numbers_are_refused(given, told):
    with pytest.raises(eq.InvalidNetworkError, match=told):
        track().check(**{"rates": {"seen": 1}, "costs": COSTS, **given})


@pytest.mark.parametrize(
    ("terms", "told"),
    [
        ({"speed": 1}, "no 'speed'"),
        ({"capacity": 1}, "a clock or costs"),
        ({"costs": COSTS, "interval": 0}, "interval"),
        ({"costs": COSTS, "train": 0}, "train"),
    ],
)
def test_bad_terms_are_refused(terms, told):
    with pytest.raises(eq.InvalidNetworkError, match=told):
        track().start(**terms)
