"""Connection points: boxes attach and detach while the network runs."""

import pyarrow as pa
import pytest

import everquery as eq
from everquery import network as n
from tests.unit.network.plants import readings

POINTS = """
network: plant
streams:
  readings: {key: machine, time: ts, attributes: [temperature, vibration]}
points:
  recent: {from: warm, keep: %s}
  bare: {from: readings}
boxes:
  warm: {box: filter, from: readings, where: "temperature > 60"}
  hot: {box: filter, from: recent, where: "temperature > 80"}
outputs:
  hot: {from: hot}
"""


def network(keep="all"):
    return eq.Network.load(POINTS % keep)


def batches(count=6, size=30):
    whole = readings(count * size)
    return [whole.slice(at * size, size) for at in range(count)]


TOPS = {
    "tops": n.Tumble("recent", by="machine", every={"time": 30}, select="machine, count(*) AS n")
}


def warm(tables):
    whole = pa.concat_tables(tables).to_pylist()
    return [row for row in whole if row["temperature"] is not None and row["temperature"] > 60]


def test_points_are_printed_and_read_back():
    made = network("{rows: 5}")
    assert eq.Network.load(made.dump()) == made


def test_what_attaches_at_the_oldest_gives_what_it_would_have_given_from_the_start():
    given = batches()
    early = eq.Network(
        "plant",
        network().streams,
        {**network().boxes, **TOPS},
        {"tops": "tops"},
        network().points,
    ).start()
    wanted = [row for one in given for row in early.process({"readings": one})["tops"].to_pylist()]
    wanted += early.finish()["tops"].to_pylist()
    for at in (0, 1, 4, 6):
        run = network().start()
        for one in given[:at]:
            run.process({"readings": one})
        found = run.attach(TOPS, {"tops": "tops"}, begin="oldest")["tops"].to_pylist()
        for one in given[at:]:
            found += run.process({"readings": one})["tops"].to_pylist()
        found += run.finish()["tops"].to_pylist()
        assert found == wanted


def test_a_row_comes_once_when_a_box_attaches():
    given = batches()
    boxes = {"copy": {"box": "map", "from": "recent", "select": "*"}}
    run = network("{rows: 10}").start()
    for one in given[:3]:
        run.process({"readings": one})
    found = run.attach(boxes, {"copy": "copy"}, begin="oldest")["copy"].to_pylist()
    assert found == warm(given[:3])[-10:]
    found += run.process({"readings": given[3]})["copy"].to_pylist()
    assert found == warm(given[:3])[-10:] + warm(given[3:4])


def test_begin_now_and_at_a_time():
    given = batches()
    boxes = {"copy": n.Map("recent", select="machine, ts, temperature, vibration")}
    run = network().start()
    for one in given[:3]:
        run.process({"readings": one})
    assert run.attach(boxes, {"copy": "copy"})["copy"].num_rows == 0
    run.detach("copy")
    begin = given[1].column("ts")[0].as_py()
    found = run.attach(boxes, {"copy": "copy"}, begin=begin)["copy"].to_pylist()
    assert found == [row for row in warm(given[:3]) if row["ts"] >= begin]
    with pytest.raises(eq.InvalidNetworkError, match="'now', 'oldest' or a time"):
        run.attach({"x": n.Map("recent", select="ts")}, begin="yesterday")


def test_a_span_of_time_is_kept():
    given = batches()
    run = network("{time: 40}").start()
    for one in given:
        run.process({"readings": one})
    newest = given[-1].column("ts")[-1].as_py()
    found = run.attach({"copy": n.Map("recent", select="*")}, {"copy": "copy"}, begin="oldest")
    assert found["copy"].to_pylist() == [row for row in warm(given) if row["ts"] >= newest - 40]


def test_boxes_are_added_and_dropped_without_losing_a_row():
    given = batches()
    alone = network().start()
    run = network().start()
    for at, one in enumerate(given):
        wanted = alone.process({"readings": one})["hot"].to_pylist()
        if at == 2:
            run.attach(TOPS, {"tops": "tops"}, begin="oldest")
        if at == 4:
            run.detach("tops")
        assert run.process({"readings": one})["hot"].to_pylist() == wanted


def test_a_snapshot_holds_what_points_keep_and_what_is_attached():
    given = batches()
    run = network().start()
    run.process({"readings": given[0]})
    run.attach(TOPS, {"tops": "tops"}, begin="oldest")
    run.process({"readings": given[1]})
    state = run.snapshot()
    wanted = run.process({"readings": given[2]})["tops"].to_pylist()
    run.restore(state)
    assert run.process({"readings": given[2]})["tops"].to_pylist() == wanted
    more = {"copy": n.Map("recent", select="*")}
    found = run.attach(more, {"copy": "copy"}, begin="oldest")["copy"].to_pylist()
    assert found == warm(given[:3])


def test_an_attach_to_a_point_without_history_is_refused():
    run = network().start()
    with pytest.raises(eq.InvalidNetworkError, match="point 'bare' keeps no history"):
        run.attach({"copy": n.Map("bare", select="*")}, {"copy": "copy"}, begin="oldest")
    assert set(run.process({"readings": batches()[0]})) == {"hot"}


def test_an_attach_elsewhere_or_under_a_taken_name_is_refused():
    run = network().start()
    with pytest.raises(eq.InvalidNetworkError, match="'readings', which is no connection point"):
        run.attach({"copy": n.Map("readings", select="*")})
    with pytest.raises(eq.InvalidNetworkError, match="has a box 'hot' already"):
        run.attach({"hot": n.Map("recent", select="*")})
    with pytest.raises(eq.InvalidNetworkError, match="no column 'pressure'"):
        run.attach({"copy": n.Filter("recent", where="pressure > 3")})
    with pytest.raises(eq.InvalidNetworkError, match="nothing has this name"):
        run.attach({"copy": n.Filter("recnt", where="temperature > 3")})


def test_a_detach_of_what_others_need_is_refused():
    run = network().start()
    with pytest.raises(eq.InvalidNetworkError, match="'warm' can't be detached: point 'recent'"):
        run.detach("warm")
    run.attach({**TOPS, "many": n.Filter("tops", where="n > 2")}, {"many": "many"})
    with pytest.raises(eq.InvalidNetworkError, match="'tops' can't be detached: box 'many'"):
        run.detach("tops")
    with pytest.raises(eq.InvalidNetworkError, match="no box or output 'none'"):
        run.detach("none")
    run.detach("tops", "many")
    assert set(run.process({"readings": batches()[0]})) == {"hot"}


def test_an_attach_that_the_rows_do_not_allow_changes_nothing():
    run = network().start()
    given = batches()
    run.process({"readings": given[0]})
    with pytest.raises(eq.InvalidNetworkError, match="two values of one type"):
        run.attach({"bad": n.Filter("recent", where="machine > 3")}, {"bad": "bad"})
    assert run.network == network()
    plain = network().start()
    plain.process({"readings": given[0]})
    wanted = plain.process({"readings": given[1]})
    found = run.process({"readings": given[1]})
    assert found == wanted
    assert found["hot"].num_rows
