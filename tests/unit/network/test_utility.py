"""Graphs of utility."""

import pyarrow as pa
import pytest

from everquery.network import utility as u
from everquery.network.quality import Quality

GRAPH = ((0, 1.0), (5, 1.0), (10, 0.5), (60, 0.0))


@pytest.mark.parametrize(
    ("at", "worth"), [(-1, 1.0), (0, 1.0), (5, 1.0), (7.5, 0.75), (60, 0.0), (99, 0.0)]
)
def test_a_graph_is_linear_between_its_points_and_level_outside(at, worth):
    assert u.utility(GRAPH, at) == worth


def test_slopes_bends_and_the_good_zone():
    assert u.slope(GRAPH, 2) == 0
    assert u.slope(GRAPH, 5) == pytest.approx(-0.1)
    assert u.slope(GRAPH, 60) == 0
    assert u.critical(GRAPH, 5) == [10, 60]
    assert u.good_until(GRAPH) == 5


def test_an_output_without_a_graph_of_loss_loses_evenly_and_one_always_shed_loses_nothing():
    assert u.loss_graph(None) == u.LINEAR
    assert u.loss_graph(Quality(loss=GRAPH)) == GRAPH
    assert u.loss_graph(Quality(loss=GRAPH), "always") == u.WORTHLESS


def test_unknown_values_are_as_useful_as_the_best():
    column = pa.chunked_array([pa.array([0.0, None, 10.0, float("nan")])])
    assert u.worth_of(column, ((0, 0.0), (10, 1.0), (20, 0.5))).tolist() == [0, 1, 1, 1]
