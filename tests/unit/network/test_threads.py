"""Boxes in threads give what one thread gives, in the same order."""

import threading

import pytest

import everquery as eq
from everquery import network as n
from tests.unit.network.plants import outputs_of, readings

TEXT = """
network: wide
streams:
  readings: {key: machine, time: ts, attributes: [temperature, vibration]}
points:
  recent: {from: readings, keep: all}
boxes:
  hot: {box: filter, from: readings, where: "temperature > 80"}
  cold: {box: filter, from: readings, where: "temperature < 60"}
  named: {box: map, from: hot, select: "md5(machine) AS name, ts"}
  other: {box: map, from: cold, select: "regexp_replace(machine, 'a', 'x') AS name, ts"}
  shared: {box: map, from: readings, select: "machine, ts, 6 / (vibration * 8) AS part"}
  minute: {box: tumble, from: readings, by: [machine], every: {time: 60},
           select: "machine, stddev(vibration) AS shaking, count(*) AS n"}
  pairs: {box: join, from: [hot, cold], on: "hot.machine = cold.machine", within: {time: 5}}
  both: {box: union, from: [named, other]}
  last: {box: slide, from: hot, by: [machine], last: {rows: 4},
         select: "machine, avg(temperature) AS mean"}
  alarms: {box: watch, from: readings, registry: "%s"}
outputs: {named: named, both: both, shared: shared, minute: minute, pairs: pairs, last: last,
          alarms: alarms}
"""


@pytest.fixture
def network(tmp_path):
    url = f"sqlite:///{tmp_path}/queries.db"
    stream = eq.Stream(
        "readings", key="machine", time="ts", attributes=["temperature", "vibration"]
    )
    with eq.Engine(stream, registry=url, create=True) as engine:
        engine.register(eq.Border("warm", {"temperature": (80, 100)}))
    return eq.Network.load(TEXT % url)


@pytest.mark.parametrize("optimize", [True, False])
@pytest.mark.parametrize("restored", [False, True])
def test_outputs_come_in_the_order_of_one_thread(network, optimize, restored):
    given = {"readings": readings(400)}
    ways = {"optimize": optimize, "restored": restored}
    wanted = outputs_of(network, given, [40] * 9, **ways)
    assert all(wanted.values())
    for threads in (2, 5):
        assert outputs_of(network, given, [40] * 9, **ways, threads=threads) == wanted


def test_figures_and_dead_letters_are_those_of_one_thread(network):
    runs = [network.start(threads=threads) for threads in (1, 3)]
    for run in runs:
        run.process({"readings": readings(200)})
        run.finish()
    assert runs[0].dead_letters() == runs[1].dead_letters()
    assert runs[0].dead_letters().num_rows
    columns = ["what", "name", "rows_in", "rows_out", "dead_letters"]
    assert runs[0].stats().select(columns) == runs[1].stats().select(columns)


def test_boxes_run_at_the_same_time_and_an_error_ends_the_call():
    both = threading.Barrier(2, timeout=60)

    def meeting(rows):
        both.wait()  # returns when the other box is there too
        return rows.column("x")

    def failing(rows):
        raise KeyError(rows.num_rows)

    stream = eq.Stream("s", attributes=["x"])
    boxes = {
        name: n.Map("s", select=_mapped(meeting), columns={"x": "number"}) for name in ("a", "b")
    }
    network = eq.Network("meet", [stream], boxes, {"a": "a", "b": "b"})
    given = network.start(threads=2).process({"s": {"x": [1.0, 2.0]}})
    assert given["a"] == given["b"]
    bad = {
        "a": n.Map("s", select=_mapped(failing), columns={"x": "number"}),
        "b": n.Filter("s", where="x > 0"),
    }
    with pytest.raises(KeyError):
        eq.Network("bad", [stream], bad, {"a": "a", "b": "b"}).start(threads=2).process(
            {"s": {"x": [1.0]}}
        )


def _mapped(function):
    return lambda rows: rows.set_column(0, "x", function(rows))


def test_boxes_attach_and_detach(network):
    given = readings(90)
    found = []
    for threads in (1, 4):
        run = network.start(threads=threads)
        run.process({"readings": given.slice(0, 30)})
        tops = n.Tumble(
            "recent", by=["machine"], every={"time": 9}, select="machine, count(*) AS n"
        )
        told = [run.attach({"tops": tops}, {"tops": "tops"}, begin="oldest")["tops"]]
        told.append(run.process({"readings": given.slice(30, 30)})["tops"])
        told.append(run.detach("tops")["tops"])
        told += run.process({"readings": given.slice(60)}).values()
        found.append([table.to_pylist() for table in told])
    assert found[0] == found[1]


@pytest.mark.parametrize("threads", [0, -1, 1.5, True, "2"])
def test_threads_are_a_number(network, threads):
    with pytest.raises(eq.InvalidNetworkError, match="threads"):
        network.start(threads=threads)


def test_a_run_against_time_has_one_thread(network):
    with pytest.raises(eq.InvalidNetworkError, match="one thread"):
        network.start(threads=2, costs={})
