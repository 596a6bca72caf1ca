"""The optimizer: what it does, when it may, and that outputs stay the same."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import everquery as eq
from everquery import network as n
from everquery.network.optimizer import commuting
from everquery.network.optimizer.fusing import ranked
from everquery.network.runtime.figures import Figures
from tests.unit.network.plants import PLANT, assert_same_every_way, bag, outputs_of, readings

S = eq.Stream("s", key="k", time="t", attributes=["x", "y", "z"])
R = eq.Stream("r", key="k", time="t", attributes=["v"])


def rows(count=120, seed=3):
    rng = np.random.default_rng(seed)
    known = {name: np.round(rng.normal(0, 10, count), 1) for name in ("y", "z")}
    return pa.table(
        {
            "k": rng.choice(["a", "b"], count),
            "t": np.cumsum(rng.integers(0, 3, count)),
            "x": pa.array(np.round(rng.normal(0, 10, count), 1), mask=rng.random(count) < 0.1),
            **known,
        }
    )


def others(count=120):
    return pa.table(
        {"k": ["a", "b"] * (count // 2), "t": range(count), "v": np.arange(count) / 4.0}
    )


def network(boxes, out="out", *, two=False):
    return eq.Network("n", [S, R] if two else [S], boxes, {"out": out})


CHAIN = {
    "a": n.Filter("s", where="y > -5 AND z < 12"),
    "b": n.Map("a", select="k, t, y * 2 + z AS w, y, x"),
    "c": n.Filter("b", where="w > -20"),
    "d": n.Map("c", select="t, (w - y) / 3 AS u, w * w AS q, x, k"),
    "out": n.Filter("d", where="u < 5 OR q > 100"),
}


def test_a_chain_is_fused_and_gives_the_same():
    made = network(CHAIN)
    run = made.start()
    assert list(run._plan.nodes) == ["out"]
    assert "a -> b -> c -> d -> out fused into one box" in run.explain()
    assert assert_same_every_way(made, {"s": rows()})["out"]


def test_unknown_values_go_the_slower_way_and_give_the_same():
    boxes = {
        "a": n.Filter("s", where="x > -5 AND NOT (z > 3)"),
        "b": n.Map("a", select="x + y AS w, x, k, t"),
        "out": n.Filter("b", where="w <> 3 OR x IS NULL"),
    }
    assert assert_same_every_way(network(boxes), {"s": rows()})["out"]


def test_texts_are_fused_too():
    boxes = {
        "a": n.Filter("s", where="upper(k) = 'A'"),
        "out": n.Map("a", select="k || '!' AS name, x, coalesce(x, 0) + coalesce(x, 0) AS both"),
    }
    assert assert_same_every_way(network(boxes), {"s": rows()})["out"]


numbers = st.sampled_from(["x", "y", "z", "x + y", "y * 2", "z - 1.5", "abs(x)", "-y", "z / 4"])
comparisons = st.sampled_from([">", "<", ">=", "<=", "=", "<>"])


@st.composite
def conditions(draw):
    parts = [
        f"{draw(numbers)} {draw(comparisons)} {draw(st.integers(-9, 9))}"
        for _ in range(draw(st.integers(1, 3)))
    ]
    return draw(st.sampled_from([" AND ", " OR "])).join(parts)


@st.composite
def chains(draw):
    boxes, before = {}, "s"
    for at in range(draw(st.integers(2, 6))):
        name = f"b{at}"
        if draw(st.booleans()):
            boxes[name] = n.Filter(before, where=draw(conditions()))
        else:
            select = f"k, t, {draw(numbers)} AS x, {draw(numbers)} AS y, {draw(numbers)} AS z"
            boxes[name] = n.Map(before, select=select)
        before = name
    return boxes, before


@settings(max_examples=40, deadline=None)
@given(chains(), st.integers(0, 100))
def test_any_chain_gives_the_same_fused(chain, seed):
    boxes, last = chain
    made = network(boxes, last)
    batch = {"s": rows(40, seed)}
    assert outputs_of(made, batch) == outputs_of(made, batch, optimize=False)


def test_what_may_fail_is_not_fused():
    boxes = {
        "a": n.Filter("s", where="y <> 3"),
        "b": n.Map("a", select="k, t, x / y AS w"),
        "out": n.Filter("b", where="w > 1"),
    }
    made = network(boxes)
    assert set(made.start()._plan.nodes) == {"a", "b", "out"}
    batch = {"k": ["a", "a", "a"], "t": [1, 2, 3], "x": [4.0, 1.0, 9.0], "y": [2.0, 0.0, 3.0]}
    for optimize in (True, False):
        run = made.start(optimize=optimize)
        assert run.process({"s": pa.table(batch)})["out"].column("w").to_pylist() == [2.0]
        assert run.dead_letters().select(["box", "reason"]).to_pylist() == [
            {"box": "b", "reason": "division by zero"}
        ]


def test_an_arc_that_is_read_stays():
    made = eq.Network("n", [S], CHAIN, {"out": "out", "half": "c"})
    assert set(made.start()._plan.nodes) == {"c", "out"}
    assert_same_every_way(made, {"s": rows()})


def test_a_filter_moves_in_front_of_a_join_where_it_is_defined():
    boxes = {
        "j": n.Join(["s", "r"], within={"time": 2}, on="s.k = r.k"),
        "out": n.Filter("j", where="y > 0 AND v > 2 AND k = 'a' AND y + v > 3 AND r_t > 4"),
    }
    made = network(boxes, two=True)
    told = made.explain()
    assert "y > 0" in told
    assert "moved in front of join j, on its side 0" in told
    assert "on its side 1" in told
    run = made.start()
    assert 'v" + ' not in run.explain()
    found = assert_same_every_way(made, {"s": rows(), "r": others()})["out"]
    assert found
    run.process({"s": rows(), "r": others()})
    plain = made.start(optimize=False)
    plain.process({"s": rows(), "r": others()})

    def held(one):
        return {row["name"]: row["held"] for row in one.stats().to_pylist()}["j"]

    assert held(run) < held(plain)


def test_columns_that_nobody_reads_are_left_out_in_front_of_a_join():
    boxes = {
        "j": n.Join(["s", "r"], within={"time": 2}, on="s.k = r.k"),
        "out": n.Map("j", select="v * 2 AS w, r_t"),
    }
    made = network(boxes, two=True)
    assert "x, y, z of s left out" in made.explain()
    assert assert_same_every_way(made, {"s": rows(), "r": others()})["out"]


def test_a_filter_moves_in_front_of_a_union():
    boxes = {
        "a": n.Map("s", select="k, t, x AS v"),
        "b": n.Map("r", select="k, t, v"),
        "u": n.Union(["a", "b"]),
        "out": n.Filter("u", where="u.v > 3"),
    }
    made = network(boxes, two=True)
    assert "moved in front of union u" in made.explain()
    assert assert_same_every_way(made, {"s": rows(), "r": others()})["out"]


def test_many_siblings_are_one_index():
    boxes = {
        f"f{at}": n.Filter("s", where=f"x >= {at} AND x < {at + 3} AND {at - 9} <= y")
        for at in range(-10, 10)
    }
    boxes |= {
        "odd": n.Filter("s", where="x + y > 3"),
        "never": n.Filter("s", where="x > 3 AND x < 2"),
    }
    boxes |= {
        "same": n.Filter("s", where="x = 1.5"),
        "mid": n.Filter("s", where="z BETWEEN 0 AND 1"),
    }
    made = eq.Network("n", [S], boxes, {name: name for name in boxes})
    told = made.explain()
    assert "s@siblings: 22 filters on s are one index of ranges" in told
    found = assert_same_every_way(made, {"s": rows()})
    batch = rows()
    for name in boxes:
        assert found[name] == outputs_of(made, {"s": batch}, optimize=False)[name]


def test_filters_are_ranked_by_what_they_rule_out_for_their_cost():
    figures = {
        "a": Figures(1, 100, 50, 1.0),
        "b": Figures(1, 100, 10, 1.0),
        "c": Figures(1, 100, 50, 0.1),
    }
    assert ranked(["a", "b", "c"], figures) == ("c", "b", "a")
    assert ranked(["a", "x"], figures) == ()


def test_optimize_orders_conditions_by_what_was_measured():
    boxes = {
        "wide": n.Filter("s", where="y > -1000"),
        "out": n.Filter("wide", where="z > 1000"),
    }
    run = network(boxes).start()
    for _ in range(5):
        run.process({"s": rows()})
    assert "conditions in the order" in run.optimize()
    assert run._plan.nodes["out"].box.first[0] in ("wide", "out")
    assert run.finish()["out"].num_rows == 0


# -- the conditions of the commutativity table -------------------------------------------------


def types_of(boxes):
    return network(boxes, next(iter(boxes))).types


def test_case_1_filter_and_map_commute_if_its_attributes_are_unchanged():
    kept = n.Map("s", select="k, t, x, y * 2 AS y")
    types = types_of({"m": kept})
    before = types["s"], types["m"]
    assert commuting.filter_before_map(n.Filter("m", where="x > 1"), kept, *before)
    assert not commuting.filter_before_map(n.Filter("m", where="y > 1"), kept, *before)
    assert not commuting.filter_before_map(n.Filter("m", where="x / y > 1"), kept, *before)
    renamed = n.Map("s", select="y AS x, x AS y")
    types = types_of({"m": renamed})
    before = types["s"], types["m"]
    assert not commuting.filter_before_map(n.Filter("m", where="x > 1"), renamed, *before)


def test_filter_and_merge_always_commute():
    union = n.Union(["a", "b"])
    types = types_of({"a": n.Filter("s", where="x > 1")})
    condition = n.Filter("u", where="x > 1")
    assert commuting.filter_before_union(condition, union, [types["s"], types["a"]])


def test_filter_and_drop_commute_by_a_value_of_the_row_alone():
    types = types_of({"a": n.Filter("s", where="x > 1")})
    condition = n.Filter("d", where="x > 1")
    assert commuting.filter_before_drop(condition, n.Drop("s", every={"time": 3}), types["s"])
    assert not commuting.filter_before_drop(condition, n.Drop("s", every={"rows": 3}), types["s"])
    assert not commuting.filter_before_drop(condition, n.Drop("s", rate=0.5), types["s"])


@pytest.mark.parametrize(
    ("where", "sides"),
    [
        ("y > 1", {0}),
        ("v > 1", {1}),
        ("k = 'a'", {0, 1}),
        ("y > v", set()),
        ("r_t > 3", {1}),
    ],
)
def test_case_3_a_filter_goes_to_the_sides_of_a_join_where_it_is_defined(where, sides):
    join = n.Join(["s", "r"], within={"time": 1}, on="s.k = r.k")
    types = network({"j": join}, "j", two=True).types
    (part,) = commuting.parts_of(n.Filter("j", where=where))
    moved = commuting.filter_before_join(part, join, [types["s"], types["r"]])
    assert set(moved) == sides


def test_filter_and_window_never_commute():
    boxes = {
        "w": n.Tumble("s", every={"time": 5}, select="max(x) AS top"),
        "out": n.Filter("w", where="top > 3"),
    }
    assert "after: as before" in network(boxes).explain()


def test_the_plant_is_the_same_both_ways():
    made = eq.Network.load(PLANT)
    batch = {"readings": readings(150)}
    plain, quick = outputs_of(made, batch, optimize=False), outputs_of(made, batch)
    for name in plain:
        assert bag(plain[name]) == bag(quick[name])


def test_a_case_that_is_read_twice_is_fused():
    boxes = {
        "m": n.Map("s", select="k, CASE WHEN x > 3 THEN 1.5 ELSE x END AS v"),
        "f": n.Filter("m", where="NOT ((v / 4) IS NULL)"),
        "g": n.Filter("f", where="v < 3"),
    }
    network = eq.Network("n", [eq.Stream("s", key="k", attributes=["x"])], boxes, {"out": "g"})
    batch = pa.table({"k": list("abc"), "x": [4.0, None, 2.0]})
    assert network.start().process({"s": batch})["out"].to_pylist() == [
        {"k": "a", "v": 1.5},
        {"k": "c", "v": 2.0},
    ]


def test_a_difference_of_infinities_is_unknown_to_what_is_fused_behind_it():
    select = "k, t, coalesce(d, 0) AS z, d IS NULL AS u"
    boxes = {
        "m": n.Map("s", select="k, t, x - y AS d"),
        "q": n.Map("m", select=select),
        "f": n.Filter("m", where="NOT (d > 3)"),
        "g": n.Filter("f", where="d < 100 OR t > 0"),
    }
    network = eq.Network("n", [S], boxes, {"q": "q", "g": "g"})
    inf = float("inf")
    columns = {"x": [inf, 1.0, inf], "y": [inf, 2.0, -inf], "z": [0.0] * 3}
    batch = {"s": pa.table({"k": list("abc"), "t": [1, 2, 3], **columns})}
    found = outputs_of(network, batch)
    assert found == outputs_of(network, batch, optimize=False)
    assert [row["u"] for row in found["q"]] == [True, False, False]
    assert [row["k"] for row in found["g"]] == ["b"]


TWO = {"s": rows(), "r": pa.table({"k": ["a", "b"] * 30, "t": range(60), "v": [1.0, 2.0] * 30})}
JOIN = n.Join(["s", "r"], within={"time": 1}, on="s.k = r.k", select="s.t AS t, x, v, x - v AS d")
MOVES = {
    "filter before drop": (
        {"d": n.Drop("s", every={"time": 3}), "out": n.Filter("d", where="d.x > 1")},
        "out: moved in front of drop d",
    ),
    "map before union": (
        {
            "a": n.Filter("s", where="x > 1"),
            "b": n.Filter("s", where="y > 1"),
            "u": n.Union(["a", "b"]),
            "out": n.Map("u", select="k, t, u.x * 2 AS v"),
        },
        "out: moved in front of union u",
    ),
    "drop before map": (
        {
            "m": n.Map("s", select="k, s.t, x * 2 AS v"),
            "out": n.Drop("m", every={"time": 3}),
        },
        "out: moved in front of map m",
    ),
    "map into join": (
        {"j": JOIN, "out": n.Map("j", select="j.t, x + v AS w, d")},
        "out: computed in join j",
    ),
    "filter before resample": (
        {
            "p": n.Resample(["s", "r"], by="k", within={"time": 4}, predict="max(s.x) AS top"),
            "out": n.Filter("p", where="p.k <> 'a'"),
        },
        "out: moved in front of resample p, on both sides",
    ),
}


@pytest.mark.parametrize("move", MOVES)
def test_boxes_change_places_and_give_the_same(move):
    boxes, note = MOVES[move]
    network = eq.Network("n", [S, R], boxes, {"out": "out"})
    run = network.start()
    run.process({name: batch.slice(0, 0) for name, batch in TWO.items()})
    assert note in run.explain().split("done:")[1]
    assert assert_same_every_way(network, TWO)["out"]


STAYS = {
    "a position is counted anew": (
        {"d": n.Drop("s", every={"rows": 3}), "out": n.Filter("d", where="x > 1")}
    ),
    "an index that may be unknown": (
        {
            "d": n.Drop("s", every={"distance": 3, "on": "x"}),
            "out": n.Filter("d", where="y > 1"),
        }
    ),
    "a map that may fail": (
        {
            "m": n.Map("s", select="k, t, 1 / x AS v"),
            "out": n.Drop("m", every={"time": 3}),
        }
    ),
    "a map that changes the time": (
        {
            "m": n.Map("s", select="k, t AS u, x"),
            "out": n.Drop("m", every={"time": 3}),
        }
    ),
    "a map of what a join computes": (
        {"j": JOIN, "out": n.Map("j", select="t, coalesce(d, 0) AS w")}
    ),
    "a filter on what is predicted": (
        {
            "p": n.Resample(["s", "r"], by="k", within={"time": 4}, predict="max(x) AS top"),
            "out": n.Filter("p", where="top > 1"),
        }
    ),
    "a box that others read": (
        {
            "d": n.Drop("s", every={"time": 3}),
            "e": n.Tumble("d", every={"time": 9}, select="count(*) AS n"),
            "out": n.Filter("d", where="x > 1"),
        }
    ),
}


@pytest.mark.parametrize("why", STAYS)
def test_boxes_stay_where_their_condition_does_not_hold(why):
    network = eq.Network("n", [S, R], STAYS[why], {"out": "out"})
    run = network.start()
    run.process({name: batch.slice(0, 5) for name, batch in TWO.items()})
    assert "moved" not in run.explain()
    assert "computed" not in run.explain()
    assert outputs_of(network, TWO) == outputs_of(network, TWO, optimize=False)
