"""Runs against time: trains, delays, shedding and its counts, all in time that the test says."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import everquery as eq
from tests.unit.network.overloads import COSTS, FULL, played, rows, track
from tests.unit.network.plants import PLANT, bag, outputs_of, pieces, readings


def last(run, output, count=5):
    """Return the last intervals of an output."""
    lines = [row for row in run.quality().to_pylist() if row["output"] == output]
    return lines[-count:]


def test_below_capacity_nothing_is_shed_and_outputs_are_those_of_a_plain_run():
    run, found = played(track(), [FULL / 2] * 5, shed=True)
    for name, table in run.finish().items():
        found[name] += table.to_pylist()
    plain = track().start()
    wanted = {name: [] for name in found}
    for quarter in range(20):
        batch = rows(round(FULL / 8), quarter / 4)
        for name, table in plain.process({"seen": batch}).items():
            wanted[name] += table.to_pylist()
    assert found == wanted
    assert run.shed_report().num_rows == 0
    assert run.inexact() == {}
    assert all(line["utility"] == 1 for line in run.quality().to_pylist())


@pytest.mark.parametrize("times", [2, 5])
def test_under_overload_the_important_output_stays_in_its_graph(times):
    run, _ = played(track(), [FULL * times] * 20, shed=True)
    assert all(line["longest_delay"] <= 2 for line in last(run, "spot"))
    assert all(line["utility"] == 1 for line in last(run, "spot"))
    assert set(run.inexact()) == {"heat", "sums"}
    assert not any(line["exact"] for line in last(run, "heat"))
    assert "spot" not in run.shed_report().column("output").to_pylist()
    stats = {(row["what"], row["name"]): row for row in run.stats().to_pylist()}
    assert stats["arc", "seen -> sums"]["shed"] > 0
    assert stats["arc", "seen -> near"]["shed"] == 0
    assert stats["output", "spot"]["utility"] == 1


def test_values_that_matter_least_are_shed_first():
    run, found = played(track(), [FULL * 2] * 20, shed=True)
    report = run.shed_report().to_pylist()
    assert {row["reason"] for row in report} == {"interval", "share"}
    late = [row["w"] for row in found["heat"] if row["ts"] >= 15]
    assert min(late) > 0
    assert max(late) > 150


def test_when_the_load_falls_all_is_taken_back_in_reverse():
    run, _ = played(track(), [FULL * 3] * 8 + [FULL / 4] * 60, shed=True, calm=2)
    assert run.shed_report().num_rows
    assert last(run, "heat", 1)[0]["lost"] == 0
    assert last(run, "sums", 1)[0]["lost"] == 0
    assert run.shed_report().to_pylist()[-1]["until"] < 60


def test_a_short_burst_sheds_nothing():
    run, _ = played(track(), [FULL / 2] * 3 + [FULL * 2] + [FULL / 2] * 6, shed=True)
    assert run.shed_report().num_rows == 0


def test_expected_rates_are_shed_for_before_the_first_row():
    terms = {"rates": {"seen": 2 * FULL}, "selectivities": {"near": 0.1}, "shed": True}
    run, _ = played(track(), [2 * FULL] * 4, **terms)
    assert last(run, "sums", 9)[0]["lost"] > 0
    assert all(line["utility"] == 1 for line in last(run, "spot", 9))


def test_without_shedding_queues_grow_and_what_comes_out_is_all_in_the_end():
    run, found = played(track(), [FULL * 2] * 4)
    waiting = run.stats().filter(pa.compute.field("what") == "box").column("queued")
    assert sum(waiting.to_pylist()) > FULL
    assert last(run, "sums", 1)[0]["utility"] is not None
    for name, table in run.finish().items():
        found[name] += table.to_pylist()
    assert len(found["sums"]) == FULL * 8


def test_queues_spill_to_disk_and_nothing_is_lost():
    wanted, found = ({} for _ in range(2))
    for terms, into in (({}, wanted), ({"queue_rows": 300, "train": 70}, found)):
        run, came = played(track(), [FULL * 2] * 3, **terms)
        assert (run._desk.spilled > 0) == bool(terms)
        for name, table in run.finish().items():
            came[name] += table.to_pylist()
        into.update(came)
    assert wanted == found


def test_one_row_at_a_time_gives_the_same():
    wanted = track().start().process({"seen": rows(50, 0.0)})
    run = track().start(costs={}, train=1)
    run.process({"seen": rows(50, 0.0)}, now=0.0)
    assert {name: table.to_pylist() for name, table in run.work(0.0).items()} == {
        name: [] for name in wanted
    }
    found = run.finish()
    assert {name: table.to_pylist() for name, table in found.items()} == {
        name: table.to_pylist() for name, table in wanted.items()
    }


def test_a_clock_of_the_caller_gives_real_delays():
    now = [0.0]
    run = track().start(clock=lambda: now[0], shed=True)
    now[0] = 7.0
    found = run.process({"seen": rows(100, 0.0)}, now=4.0)
    assert found["sums"].num_rows == 100
    run.process({"seen": rows(100, 1.0)})
    now[0] = 9.0
    run.process({"seen": rows(100, 1.0)})
    delays = {row["longest_delay"] for row in run.quality().to_pylist() if row["rows"]}
    assert 3.0 in delays


POINTED = """
network: pointed
streams: {seen: {key: badge, time: ts, attributes: [x, y]}}
points: {all: {from: moved, keep: {rows: 10}}, free: {from: moved}}
boxes:
  moved: {box: map, from: seen, select: "badge, ts, x + 1 AS x"}
  sums: {box: map, from: free, select: "badge, ts, x AS q"}
outputs: {sums: {from: sums, qos: {delay: [[0, 1], [1, 1], [2, 0]]}}}
"""


def test_an_output_that_attaches_and_is_never_shed_gets_all_from_then_on():
    text = POINTED.replace("all: {from: moved, keep: {rows: 10}}, ", "")
    run = eq.Network.load(text).start(costs={"moved": 2e-3, "sums": 1e-4}, shed=True)
    for at in range(24):
        run.process({"seen": rows(250, at / 4)}, now=at / 4)
    assert run.shed_report().column("place").to_pylist()[0] == "seen"
    run.work(30.0)
    other = {"box": "filter", "from": "free", "where": "x >= 0"}
    run.attach({"other": other}, {"other": {"from": "other", "shed": "never"}})
    assert sum(len(gate.droppers) for gate in run._shedder.gates.at.values()) == 0
    found = 0
    for at in range(120, 150):
        found += run.process({"seen": rows(250, at / 4)}, now=at / 4)["other"].num_rows
    found += run.finish()["other"].num_rows
    assert found == 250 * 30
    assert "other" not in run.inexact()


def test_detach_works_off_what_waits():
    run = eq.Network.load(POINTED).start(costs={"moved": 2e-3, "sums": 1e-4})
    more = {"more": {"box": "filter", "from": "all", "where": "x >= 0"}}
    run.process({"seen": rows(10, 0.0)}, now=0.0)
    run.attach(more, {"more": "more"})
    run.process({"seen": rows(1000, 0.0)}, now=0.0)
    left = run.detach("more")
    assert left["more"].num_rows == 1010


def test_what_a_kept_point_holds_is_never_shed():
    run = eq.Network.load(POINTED).start(costs={"moved": 2e-3, "sums": 1e-4}, shed=True)
    for at in range(24):
        run.process({"seen": rows(250, at / 4)}, now=at / 4)
    assert "seen" not in run.shed_report().column("place").to_pylist()


def test_time_is_asked_for():
    with pytest.raises(eq.InvalidBatchError, match="now="):
        track().start(costs=COSTS).process({"seen": rows(1, 0.0)})


def test_a_snapshot_goes_on_with_the_same_rows_and_counts():
    def feed(run, times):
        out = []
        for at in times:
            given = run.process({"seen": rows(600, at / 4)}, now=at / 4)
            out += [(name, row) for name in given for row in given[name].to_pylist()]
        return out

    run = track().start(costs=COSTS, shed=True)
    feed(run, range(40))
    state = run.snapshot()
    other = track().start(costs=COSTS, shed=True)
    other.restore(state)
    assert feed(other, range(40, 60)) == feed(run, range(40, 60))
    assert other.shed_report().equals(run.shed_report())
    assert other.quality().equals(run.quality())
    with pytest.raises(eq.EverqueryError):
        other.restore(track().start().snapshot())


@settings(max_examples=8, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 40), min_size=1, max_size=8),
    costs=st.fixed_dictionaries(
        dict.fromkeys(["hot", "scaled", "minute", "pairs"], st.sampled_from([0.0, 0.01, 0.3]))
    ),
    train=st.sampled_from([1, 7, 1000]),
    queue_rows=st.sampled_from([5, 1000]),
)
def test_trains_change_no_window_and_no_join(sizes, costs, train, queue_rows):
    network, batch = eq.Network.load(PLANT), readings(sum(sizes), 3)
    wanted = outputs_of(network, {"readings": batch})
    run = network.start(costs=costs, train=train, queue_rows=queue_rows)
    found = {name: [] for name in wanted}
    for second, part in enumerate(pieces(batch, sizes)):
        for name, table in run.process({"readings": part}, now=float(second)).items():
            found[name] += table.to_pylist()
    for name, table in run.finish().items():
        found[name] += table.to_pylist()
    assert {name: bag(rows) for name, rows in found.items()} == {
        name: bag(rows) for name, rows in wanted.items()
    }


@settings(max_examples=8, deadline=None)
@given(
    rates=st.lists(st.sampled_from([0, 100, FULL, 2 * FULL, 4 * FULL]), min_size=2, max_size=9),
    patience=st.integers(1, 2),
    calm=st.integers(1, 3),
    interval=st.sampled_from([0.5, 1.0]),
)
def test_counts_add_up_and_what_is_not_shed_is_what_an_unshed_run_gives(
    rates, patience, calm, interval
):
    run, found = played(
        track(), rates, shed=True, patience=patience, calm=calm, interval=interval, every=0.5
    )
    for name, table in run.finish().items():
        found[name] += table.to_pylist()
    plain, wanted = played(track(), rates, every=0.5)
    for name, table in plain.finish().items():
        wanted[name] += table.to_pylist()
    report = run.shed_report().to_pylist()
    assert all(row["offered"] == row["shed"] + row["passed"] for row in report)
    for name in ("heat", "sums"):  # each row in gives a row out
        shed = sum(row["shed"] for row in report if row["output"] == name)
        assert len(found[name]) + shed == len(wanted[name])
        left = bag(wanted[name])
        for row in bag(found[name]):
            left.remove(row)
    assert found["spot"] == wanted["spot"]
    again, replayed = played(
        track(), rates, shed=True, patience=patience, calm=calm, interval=interval, every=0.5
    )
    for name, table in again.finish().items():
        replayed[name] += table.to_pylist()
    assert replayed == found
    assert again.shed_report().equals(run.shed_report())
