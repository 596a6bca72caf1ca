"""Every operator gives what its formula in appendix 1 of the report says, by time and by position.

The formulas are written out over lists of rows; how rows are divided into batches, whether the
network is optimised, and snapshots between batches must not matter.
"""

import math
import statistics

import numpy as np
import pyarrow as pa
import pytest

import everquery as eq
from everquery import network as n
from tests.unit.network.plants import assert_same_every_way, bag

S = eq.Stream("s", key="k", time="t", attributes=["x", "o"])
OTHER = eq.Stream("r", key="k", time="t", attributes=["y"])


def rows(count, seed=1, *, names="abc", other=False):
    rng = np.random.default_rng(seed)
    known = {"k": rng.choice(list(names), count), "t": np.cumsum(rng.integers(0, 5, count))}
    values = pa.array(rng.integers(0, 40, count) / 4, mask=rng.random(count) < 0.1)
    if other:
        return pa.table({**known, "y": values})
    return pa.table({**known, "x": values, "o": np.cumsum(rng.integers(0, 3, count)) / 2})


def run(boxes, out, count=60, *, two=False):
    network = eq.Network("n", [S, OTHER] if two else [S], boxes, {"out": out})
    batches = {"s": rows(count)}
    if two:
        batches["r"] = rows(count, 2, other=True)
    found = assert_same_every_way(network, batches)["out"]
    return found, batches["s"].to_pylist(), batches["r"].to_pylist() if two else None


def known(values):
    return [value for value in values if value is not None]


def test_filter_is_the_rows_for_which_its_condition_holds():
    found, given, _ = run({"f": n.Filter("s", where="x > 3 AND k <> 'a'")}, "f")
    assert found == [
        row for row in given if row["x"] is not None and row["x"] > 3 and row["k"] != "a"
    ]


def test_filter_by_its_index():
    found, given, _ = run({"f": n.Filter("s", where="t % 2 = 0")}, "f")
    assert found == [row for row in given if row["t"] % 2 == 0]


def test_map_is_its_function_of_every_row():
    found, given, _ = run({"m": n.Map("s", select="t, k, x * 2 + o AS v, x IS NULL AS u")}, "m")
    assert found == [
        {
            "t": row["t"],
            "k": row["k"],
            "v": None if row["x"] is None else row["x"] * 2 + row["o"],
            "u": row["x"] is None,
        }
        for row in given
    ]


def test_union_is_the_rows_of_all():
    boxes = {
        "a": n.Filter("s", where="x > 3"),
        "b": n.Filter("s", where="x <= 5"),
        "u": n.Union(["a", "b"]),
    }
    found, given, _ = run(boxes, "u")
    wanted = [row for row in given if row["x"] is not None and row["x"] > 3]
    wanted += [row for row in given if row["x"] is not None and row["x"] <= 5]
    assert bag(found) == bag(wanted)


@pytest.mark.parametrize("by", [None, ["k"]])
def test_tumble_by_time_is_its_function_of_every_window(by):
    columns = "" if by is None else "k, "
    box = n.Tumble("s", by=by, every={"time": 10}, select=f"{columns}count(*) AS n, sum(x) AS v")
    found, given, _ = run({"w": box}, "w")
    windows = {}
    for row in given:
        start = row["t"] - row["t"] % 10
        windows.setdefault((start, row["k"] if by else None), []).append(row)
    assert bag(found) == bag(
        [
            {
                **({"k": key} if by else {}),
                "n": len(inside),
                "v": sum(known(row["x"] for row in inside))
                if known(r["x"] for r in inside)
                else None,
                "window_start": start,
            }
            for (start, key), inside in windows.items()
        ]
    )


def test_tumble_by_position():
    box = n.Tumble(
        "s", by="k", every={"rows": 4}, select="k, min(t) AS a, max(t) AS b, first(x) AS f"
    )
    found, given, _ = run({"w": box}, "w")
    wanted = []
    for key in "abc":
        own = [row for row in given if row["k"] == key]
        for at in range(0, len(own), 4):
            part = own[at : at + 4]
            wanted.append(
                {
                    "k": key,
                    "a": part[0]["t"],
                    "b": part[-1]["t"],
                    "f": part[0]["x"],
                    "window_start": at,
                }
            )
    assert bag(found) == bag(wanted)


def test_tumble_by_distance():
    box = n.Tumble("s", by="k", every={"distance": 2.5, "on": "o"}, select="k, count(*) AS n")
    found, given, _ = run({"w": box}, "w")
    windows = {}
    for row in given:
        start = math.floor(row["o"] / 2.5) * 2.5
        windows[start, row["k"]] = windows.get((start, row["k"]), 0) + 1
    assert bag(found) == bag(
        [{"k": key, "n": count, "window_start": at} for (at, key), count in windows.items()]
    )


def test_slide_by_time_ends_at_every_index_value():
    box = n.Slide("s", by="k", last={"time": 12}, select="k, count(*) AS n, max(x) AS top")
    found, given, _ = run({"w": box}, "w")
    wanted = []
    for key, at in {(row["k"], row["t"]) for row in given}:
        inside = [row for row in given if row["k"] == key and at - 12 < row["t"] <= at]
        top = max(known(row["x"] for row in inside), default=None)
        wanted.append({"k": key, "n": len(inside), "top": top, "window_end": at})
    assert bag(found) == bag(wanted)


def test_slide_by_time_that_starts_at_multiples():
    box = n.Slide("s", last={"time": 12}, every={"time": 4}, select="count(*) AS n, avg(x) AS m")
    found, given, _ = run({"w": box}, "w")
    wanted = []
    for start in range(-12, given[-1]["t"] + 4, 4):
        inside = [row for row in given if start <= row["t"] < start + 12]
        values = known(row["x"] for row in inside)
        mean = sum(values) / len(values) if values else None
        if inside:
            wanted.append({"n": len(inside), "m": mean, "window_start": start})
    assert bag(found) == bag(wanted)


@pytest.mark.parametrize("every", [None, 3])
def test_slide_by_position(every):
    box = n.Slide(
        "s",
        by="k",
        last={"rows": 5},
        every=None if every is None else {"rows": every},
        select="k, sum(x) AS v, median(x) AS m, last(t) AS t",
    )
    found, given, _ = run({"w": box}, "w")
    wanted = []
    for key in "abc":
        own = [row for row in given if row["k"] == key]
        for at in range(len(own)):
            if every is None or (at + 1) % every == 0:
                values = known(row["x"] for row in own[max(at - 4, 0) : at + 1])
                wanted.append(
                    {
                        "k": key,
                        "v": sum(values) if values else None,
                        "m": statistics.median(values) if values else None,
                        "t": own[at]["t"],
                        "window_end": at,
                    }
                )
    assert bag(found) == bag(wanted)


@pytest.mark.parametrize("every", [None, 1.5])
def test_slide_by_distance(every):
    box = n.Slide(
        "s",
        by="k",
        last={"distance": 3, "on": "o"},
        every=None if every is None else {"distance": every, "on": "o"},
        select="k, count(*) AS n",
    )
    found, given, _ = run({"w": box}, "w")
    wanted = []
    for key in "abc":
        places = [row["o"] for row in given if row["k"] == key]
        if every is None:
            for at in set(places):
                inside = [place for place in places if at - 3 < place <= at]
                wanted.append({"k": key, "n": len(inside), "window_end": at})
        else:
            for step in range(-3, int(max(places) / every) + 1):
                start = step * every
                inside = [place for place in places if start <= place < start + 3]
                if inside:
                    wanted.append({"k": key, "n": len(inside), "window_start": start})
    assert bag(found) == bag(wanted)


def test_latch_keeps_its_state_between_windows():
    select = "k, max(x) AS top, count(*) AS n, avg(x) AS m, stddev(x) AS d, first(t) AS f"
    box = n.Latch("s", by="k", every={"time": 20}, select=select)
    found, given, _ = run({"w": box}, "w")
    ends = {(row["t"] - row["t"] % 20, row["k"]) for row in given}
    assert len(found) == len(ends)
    for row in found:
        start = row["window_start"]
        own = [one for one in given if one["k"] == row["k"] and one["t"] < start + 20]
        values = known(one["x"] for one in own)
        assert (start, row["k"]) in ends
        assert row["n"] == len(own)
        assert row["top"] == max(values, default=None)
        assert row["m"] == (pytest.approx(statistics.mean(values)) if values else None)
        if len(values) > 1:
            assert row["d"] == pytest.approx(statistics.stdev(values))
        assert row["f"] == own[0]["t"]


def test_group_by_divides_rows_for_the_windows_behind_it():
    boxes = {
        "g": n.GroupBy("s", by=["k"]),
        "w": n.Tumble("g", every={"rows": 3}, select="k, count(*) AS n"),
    }
    plain = {"w": n.Tumble("s", by=["k"], every={"rows": 3}, select="k, count(*) AS n")}
    assert run(boxes, "w")[0] == run(plain, "w")[0]


def test_join_is_every_pair_within_the_distance_that_its_predicate_takes():
    box = n.Join(["s", "r"], within={"time": 3}, on="s.k = r.k AND s.x > r.y")
    found, left, right = run({"j": box}, "j", two=True)
    wanted = [
        {**a, "r_t": b["t"], "y": b["y"]}
        for a in left
        for b in right
        if abs(a["t"] - b["t"]) <= 3
        and a["k"] == b["k"]
        and None not in (a["x"], b["y"])
        and a["x"] > b["y"]
    ]
    assert bag(found) == bag(wanted)
    assert wanted


def test_join_by_position_and_by_distance():
    box = n.Join(["s", "r"], within={"rows": 2}, select="s.t AS a, r.t AS b")
    found, left, right = run({"j": box}, "j", two=True)
    assert bag(found) == bag(
        [
            {"a": a["t"], "b": b["t"]}
            for i, a in enumerate(left)
            for j, b in enumerate(right)
            if abs(i - j) <= 2
        ]
    )
    renamed = {
        "q": n.Map("r", select="t AS o, y"),
        "j": n.Join(["s", "q"], within={"distance": 0.5, "on": "o"}, select="s.o AS a, q.o AS b"),
    }
    found, left, right = run(renamed, "j", two=True)
    assert bag(found) == bag(
        [{"a": a["o"], "b": b["t"]} for a in left for b in right if abs(a["o"] - b["t"]) <= 0.5]
    )


@pytest.mark.parametrize("by", [None, ["k"]])
def test_resample_predicts_at_every_index_of_the_other(by):
    box = n.Resample(["s", "r"], by=by, within={"time": 4}, predict="avg(x) AS x, count(*) AS n")
    found, values, moments = run({"p": box}, "p", two=True)
    wanted = []
    for key, at in {(row["k"] if by else None, row["t"]) for row in moments}:
        inside = [
            row for row in values if abs(row["t"] - at) <= 4 and (by is None or row["k"] == key)
        ]
        numbers = known(row["x"] for row in inside)
        mean = sum(numbers) / len(numbers) if numbers else None
        own = {"k": key} if by else {}
        wanted.append({**own, "t": at, "x": mean, "n": len(inside)})
    assert bag(found) == bag(wanted)


def test_resample_by_position():
    box = n.Resample(["s", "r"], within={"rows": 1}, predict="min(t) AS low, max(t) AS high")
    found, values, moments = run({"p": box}, "p", two=True)
    times = [row["t"] for row in values]
    assert found == [
        {
            "position": at,
            "low": min(times[max(at - 1, 0) : at + 2], default=None),
            "high": max(times[max(at - 1, 0) : at + 2], default=None),
        }
        for at in range(len(moments))
    ]


def test_predictions_are_linear_nearest_or_previous():
    box = n.Resample(
        ["s", "r"],
        within={"time": 10},
        predict="linear(x) AS l, nearest(x) AS n, previous(x) AS p",
    )
    network = eq.Network("n", [S, OTHER], {"p": box}, {"out": "p"})
    run = network.start()
    values = {"k": ["a"] * 3, "t": [10, 14, 22], "x": [1.0, 5.0, 1.0]}
    moments = {"k": ["a"] * 6, "t": [5, 11, 14, 18, 24, 90]}
    run.process({"s": pa.table(values), "r": pa.table(moments)})
    again = network.start()
    again.process({"s": pa.table(values), "r": pa.table(moments)})
    found = {row["t"]: row for row in again.finish()["out"].to_pylist()}
    found |= {
        row["t"]: row
        for row in network.start()
        .process({"s": pa.table(values), "r": pa.table(moments)})["out"]
        .to_pylist()
    }
    assert found[11] == {"t": 11, "l": 2.0, "n": 1.0, "p": 1.0}
    assert found[14] == {"t": 14, "l": 5.0, "n": 5.0, "p": 5.0}
    assert found[18] == {"t": 18, "l": 3.0, "n": 5.0, "p": 5.0}
    assert found[24] == {"t": 24, "l": 0.0, "n": 1.0, "p": 1.0}
    assert found[5] == {"t": 5, "l": -4.0, "n": 1.0, "p": None}
    assert found[90] == {"t": 90, "l": None, "n": None, "p": None}


def test_drop_takes_out_every_kth_position_or_index_value():
    found, given, _ = run({"d": n.Drop("s", every={"rows": 3})}, "d")
    assert found == [row for at, row in enumerate(given, 1) if at % 3]
    found, given, _ = run({"d": n.Drop("s", every={"time": 4})}, "d")
    assert found == [row for row in given if row["t"] % 4]


def test_drop_by_rate_takes_out_its_share_whatever_the_batches():
    found, given, _ = run({"d": n.Drop("s", rate=0.25)}, "d")
    assert len(given) - len(found) == math.floor(len(given) * 0.25)


def test_a_join_that_equates_times_lets_windows_behind_it_end_at_once():
    network = eq.Network.load(
        """
network: same
streams:
  s: {time: t, attributes: [x]}
  r: {time: t, attributes: [y]}
boxes:
  pairs: {box: join, from: [s, r], on: "s.t = r.t", within: {time: 5}, select: "s.t AS t, x, y"}
  tens: {box: tumble, from: pairs, every: {time: 10}, select: "count(*) AS n"}
outputs:
  tens: {from: tens}
"""
    )
    run = network.start()
    s = {"t": [1, 2, 9], "x": [1.0, 2.0, 3.0]}
    r = {"t": [2, 3, 9], "y": [1.0, 2.0, 3.0]}
    assert run.process({"s": s, "r": r})["tens"].num_rows == 0
    next_ = run.process({"s": {"t": [10], "x": [1.0]}, "r": {"t": [10], "y": [1.0]}})
    assert next_["tens"].to_pylist() == [{"n": 2, "window_start": 0}]


def test_a_row_whose_windows_are_all_open_is_not_late_for_a_slide_with_steps():
    box = n.Slide("s", last={"time": 10}, every={"time": 10}, select="count(*) AS n")
    run = eq.Network("n", [S], {"w": box}, {"out": "w"}).start()
    for time in (15, 12, 9):
        run.process({"s": {"k": ["a"], "t": [time], "x": [1.0], "o": [1.0]}})
    assert run.finish()["out"].to_pylist() == [{"n": 2, "window_start": 10}]
    assert run.dead_letters().column("reason").to_pylist() == ["late"]
