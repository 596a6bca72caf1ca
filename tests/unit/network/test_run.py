"""A run shows what it does: figures, taps, single steps; unread outputs are bounded."""

import datetime as dt

import pyarrow as pa
import pytest

import everquery as eq
from everquery import network as n
from everquery.network.runtime import arcs
from tests.unit.network.plants import PLANT, bag, readings


def test_stats_have_a_row_for_everything():
    run = eq.Network.load(PLANT).start(optimize=False)
    run.process({"readings": readings(100)})
    rows = {(row["what"], row["name"]): row for row in run.stats().to_pylist()}
    hot = rows["box", "hot"]
    assert hot["rows_in"] == 100
    assert hot["selectivity"] == hot["rows_out"] / 100
    assert hot["cost"] > 0
    assert hot["rate"] > 0
    assert rows["arc", "readings -> hot"]["rows_in"] == 100
    assert rows["box", "minute"]["held"] > 0
    assert rows["output", "hot"]["rows_out"] == hot["rows_out"]
    assert ("stream", "readings") in rows


@pytest.mark.parametrize("optimize", [True, False])
def test_a_tap_shows_what_passes_also_inside_fused_boxes(optimize):
    run = eq.Network.load(PLANT).start(optimize=optimize)
    run.process({"readings": readings(50)})
    tap = run.tap("hot", most=3)
    batch = readings(200, 1).slice(50)
    rows = [row for row in batch.to_pylist() if (row["temperature"] or 0) > 80]
    run.process({"readings": batch})
    assert tap.rows().to_pylist() == rows[-3:]
    assert tap.dropped == len(rows) - 3
    assert tap.rows().num_rows == 0
    run.untap(tap)
    with pytest.raises(eq.InvalidNetworkError, match="no arc from 'cold'"):
        run.tap("cold")


def test_a_tap_on_a_join_that_was_rewritten_says_so():
    boxes = {
        "a": n.Filter("s", where="x > 0"),
        "j": n.Join(["s", "a"], within={"time": 1}),
        "f": n.Filter("j", where="x > 3"),
    }
    stream = eq.Stream("s", key="k", time="t", attributes=["x"])
    network = eq.Network("n", [stream], boxes, {"out": "f"})
    with pytest.raises(eq.InvalidNetworkError, match=r"start with keep=\['j'\]"):
        network.start().tap("j")
    assert network.start(keep=["j"]).tap("j").rows().num_rows == 0


def test_pause_and_single_step():
    run = eq.Network.load(PLANT).start(optimize=False)
    run.pause()
    assert run.process({"readings": readings(50)})["hot"].num_rows == 0
    queued = {(row["what"], row["name"]): row["queued"] for row in run.stats().to_pylist()}
    assert queued["box", "hot"] == 50
    assert run.step() == "hot"
    assert run.step() == "scaled"
    assert run.read(["hot"])["hot"].num_rows > 0
    assert run.resume()["tops"].num_rows > 0
    assert run.step() is None


def test_an_output_that_nobody_reads_is_bounded_and_counted(monkeypatch):
    monkeypatch.setattr("everquery.network.runtime.run.MOST_UNREAD", 30)
    run = eq.Network.load(PLANT).start()
    for at in range(10):
        found = run.process({"readings": readings(1000, gap=3).slice(at * 100, 100)}, read=["tops"])
        assert set(found) == {"tops"}
    row = next(
        one for one in run.stats().to_pylist() if one["what"] == "output" and one["name"] == "hot"
    )
    assert row["queued"] == 30
    assert row["dropped"] == row["rows_in"] - 30
    assert run.read(["hot"])["hot"].num_rows == 30
    with pytest.raises(eq.InvalidNetworkError, match="no output 'cold'"):
        run.read(["cold"])


def test_kept_rows_drop_the_oldest():
    kept = arcs.Kept(3)
    for at in range(5):
        kept.add(pa.table({"x": [at, at]}))
    assert len(kept) == 10
    kept.trim()
    assert kept.dropped == 7
    assert len(kept) == 3


def test_timestamps_take_spans_and_seconds():
    stream = eq.Stream("s", key="k", time="t", attributes=["x"])
    start = dt.datetime(2024, 5, 1, 10, 0, 30)
    batch = pa.table(
        {
            "k": ["a"] * 4,
            "t": [start + dt.timedelta(seconds=20 * at) for at in range(4)],
            "x": [1.0, 2, 3, 4],
        }
    )
    for every in (60, "1m", dt.timedelta(minutes=1)):
        box = n.Tumble("s", every={"time": every}, select="sum(x) AS total")
        run = eq.Network("n", [stream], {"w": box}, {"w": "w"}).start()
        found = run.process({"s": batch})["w"].to_pylist() + run.finish()["w"].to_pylist()
        assert found == [
            {"total": 3.0, "window_start": dt.datetime(2024, 5, 1, 10, 0)},
            {"total": 7.0, "window_start": dt.datetime(2024, 5, 1, 10, 1)},
        ]


def test_columns_without_a_role_have_types():
    network = eq.Network.load(
        """
        network: doors
        streams:
          visits:
            {key: door, time: ts, columns: {badge: string, open: boolean, count: integer}}
        boxes:
          opened: {box: filter, from: visits, where: "open AND badge LIKE 'x%'"}
          minutes: {box: tumble, from: opened, every: {time: 60},
                    select: "count(DISTINCT badge) AS badges, sum(count) AS n"}
        outputs: {minutes: {from: minutes}}
        """
    )
    run = network.start()
    batch = pa.table(
        {
            "door": [1, 1, 2, 2],
            "ts": [0, 1, 2, 3],
            "badge": ["x1", "x2", "x1", "y1"],
            "open": [True, True, True, True],
            "count": [1, 2, 3, 4],
        }
    )
    run.process({"visits": batch})
    assert run.finish()["minutes"].to_pylist() == [{"badges": 2, "n": 6, "window_start": 0}]


def test_groups_nest_and_are_printed_back():
    network = eq.Network.load(
        """
        network: nested
        streams: {s: {key: k, attributes: [x]}}
        groups:
          outer:
            groups:
              inner:
                boxes:
                  a: {box: filter, from: s, where: "x > 1"}
                  b: {box: filter, from: a, where: "x > 2"}
            boxes:
              a: {box: map, from: inner.b, select: "x * 2 AS x"}
        boxes:
          last: {box: filter, from: outer.a, where: "a.x < 100"}
        outputs: {out: {from: last}}
        """
    )
    assert set(network.boxes) == {"outer.inner.a", "outer.inner.b", "outer.a", "last"}
    assert network.boxes["outer.inner.b"].sources == ("outer.inner.a",)
    assert eq.Network.load(network.dump()) == network
    batch = pa.table({"k": ["a", "b"], "x": [2.0, 3.0]})
    assert network.start().process({"s": batch})["out"].to_pylist() == [{"x": 6.0}]


def test_batches_may_be_lists_of_dicts_or_dicts_of_columns():
    network = eq.Network.load(PLANT)
    rows = [{"machine": "a", "ts": 1, "temperature": 90, "vibration": 1}]
    columns = {"machine": ["a"], "ts": [1], "temperature": [90.0]}
    for given in (rows, columns, pa.table(columns).to_batches()[0]):
        assert network.start().process({"readings": given})["hot"].num_rows == 1
    with pytest.raises(eq.InvalidBatchError, match="is no batch"):
        network.start().process({"readings": 3})


def test_a_caller_who_reads_gets_all_however_many_there_are(monkeypatch):
    monkeypatch.setattr("everquery.network.runtime.run.MOST_UNREAD", 30)
    run = eq.Network.load(PLANT).start()
    batch = readings(500)
    wanted = sum((row["temperature"] or 0) > 80 for row in batch.to_pylist())
    assert run.process({"readings": batch})["hot"].num_rows == wanted > 30


def test_a_snapshot_holds_unread_rows_and_counts_of_dead_letters():
    network = eq.Network.load(PLANT)
    run = network.start()
    late = pa.table({"machine": ["a", None], "ts": [0, 1], "temperature": [99.0, 1.0]})
    run.process({"readings": readings(50)}, read=[])
    run.process({"readings": late}, read=[])
    again = network.start()
    again.restore(run.snapshot())
    assert again.read() == run.read()

    def letters(one):
        return {row["name"]: row["dead_letters"] for row in one.stats().to_pylist()}

    assert letters(again) == letters(run)
    assert letters(run)["readings"] == letters(run)["minute"] == 1


def test_streams_may_be_fed_in_any_rhythm():
    left = eq.Stream("s", key="k", time="t", attributes=["x"])
    right = eq.Stream("r", key="k", time="t", attributes=["y"])
    boxes = {
        "j": n.Join(["s", "r"], within={"time": 2}, on="s.k = r.k"),
        "p": n.Resample(["s", "r"], within={"time": 2}, predict="sum(x) AS x"),
        "m": n.Map("r", select="k, t, y AS x"),
        "u": n.Union(["s", "m"]),
        "w": n.Tumble("u", every={"time": 5}, select="count(*) AS n"),
    }
    network = eq.Network("n", [left, right], boxes, {name: name for name in "jpuw"})
    s = pa.table({"k": ["a", "b"] * 20, "t": range(40), "x": [float(at) for at in range(40)]})
    r = s.rename_columns(["k", "t", "y"])

    def outputs(calls):
        run = network.start()
        found = {name: [] for name in network.outputs}
        for given in (*(run.process(call) for call in calls), run.finish()):
            for name, rows in given.items():
                found[name] += rows.to_pylist()
        return {name: bag(rows) for name, rows in found.items()}

    wanted = outputs([{"s": s, "r": r}])
    assert outputs([{"s": s}, {"r": r}]) == wanted
    assert outputs([{"r": r}, {"s": s}]) == wanted
    rhythm = [{"s": s.slice(0, 30)}, {"r": r.slice(0, 7)}, {"s": s.slice(30)}, {"r": r.slice(7)}]
    assert outputs(rhythm) == wanted
    assert wanted["j"]
