"""What can't be is refused before it runs, and the error names box and arrow."""

import pyarrow as pa
import pytest

import everquery as eq
from everquery import network as n
from tests.unit.network.plants import PLANT, readings

HEAD = """
network: plant
streams:
  readings: {key: machine, time: ts, attributes: [temperature, vibration]}
boxes:
"""
TAIL = "outputs:\n  out: {from: a}\n"


def load(boxes, tail=TAIL):
    return eq.Network.load(HEAD + "\n".join(f"  {line}" for line in boxes) + "\n" + tail)


@pytest.mark.parametrize(
    ("boxes", "told"),
    [
        (
            [
                'a: {box: filter, from: b, where: "x > 1"}',
                'b: {box: filter, from: a, where: "x > 1"}',
            ],
            "boxes form a loop: a -> b -> a",
        ),
        (['a: {box: filter, from: a, where: "x > 1"}'], "boxes form a loop: a -> a"),
        (
            ['a: {box: filter, from: reading, where: "temperature > 1"}'],
            "box 'a' reads from 'reading', and nothing has this name; did you mean 'readings'?",
        ),
        (
            ['a: {box: filter, from: readings, where: "pressure > 1"}'],
            r"box 'a' \(filter, arrow readings -> a\): there is no column 'pressure'",
        ),
        (
            ["""a: {box: filter, from: readings, where: "temperature > 'x'"}"""],
            "takes two values of one type, and has a number and a string",
        ),
        (
            ['a: {box: filter, from: readings, where: "temperature + 1"}'],
            "is a number, and a condition is true or false",
        ),
        (
            ['a: {box: map, from: readings, select: "upper(temperature) AS t"}'],
            "takes texts, and has a number",
        ),
        (['a: {box: map, from: readings, select: "temperature * 2"}'], "has no name; write"),
        (['a: {box: map, from: readings, select: "ts, ts"}'], "two columns have the name 'ts'"),
        (['a: {box: map, from: readings, select: "temperature FROM x"}'], "more than expressions"),
        (['a: {box: map, from: readings, select: "(SELECT 1) AS x"}'], "has a query inside"),
        (['a: {box: map, from: readings, select: "1 +"}'], "can't be read"),
        (
            ['a: {box: tumble, from: readings, every: {time: 60}, select: "machine"}'],
            "neither in `by` nor inside an aggregate",
        ),
        (
            [
                'b: {box: map, from: readings, select: "temperature AS t"}',
                'a: {box: tumble, from: b, every: {time: 60}, select: "max(t) AS t"}',
            ],
            "the window needs a time, and arrow b has t number, none of which is the time",
        ),
        (
            ['a: {box: tumble, from: readings, every: {time: -1}, select: "count(*) AS n"}'],
            "box 'a': a window of time -1",
        ),
        (
            ['a: {box: tumble, from: readings, every: {rows: 2.5}, select: "count(*) AS n"}'],
            "it takes a number",
        ),
        (
            ['a: {box: tumble, from: readings, every: {distance: 5}, select: "count(*) AS n"}'],
            "names its column in `on`",
        ),
        (
            ['a: {box: tumble, from: readings, by: [room], every: {rows: 5}, select: "1 AS n"}'],
            "`by` names column 'room'",
        ),
        (
            ['a: {box: latch, from: readings, every: {rows: 5}, select: "median(vibration) AS m"}'],
            "a latch can't keep median",
        ),
        (
            [
                'b: {box: map, from: readings, select: "machine, ts"}',
                "a: {box: union, from: [readings, b]}",
            ],
            "a union takes arrows with the same columns",
        ),
        (["a: {box: union, from: readings}"], "a union box reads from at least 2"),
        (
            ["a: {box: join, from: [readings, readings], within: {time: 1}}"],
            r"names: \[first, second\]",
        ),
        (
            [
                'b: {box: map, from: readings, select: "machine, ts, vibration AS v"}',
                'a: {box: join, from: [readings, b], within: {time: 1}, on: "machine = b.v"}',
            ],
            "column 'machine' is of readings and b; write readings.machine",
        ),
        (["a: {box: drop, from: readings}"], "`every` or `rate`"),
        (["a: {box: drop, from: readings, rate: 1.5}"], "rate is 1.5"),
        (["a: {box: watch, from: readings}"], "neither"),
        (["a: {box: filtre, from: readings}"], "there is no box 'filtre'"),
        (["a: {box: filter, from: readings}"], "a filter box needs `where`"),
        (['a: {box: filter, from: readings, when: "x"}'], "a filter box has no 'when'"),
        (["a: 3"], "box 'a' is 3"),
    ],
)
def test_boxes_that_cannot_be(boxes, told):
    with pytest.raises(eq.InvalidNetworkError, match=told):
        load(boxes)


@pytest.mark.parametrize(
    ("qos", "told"),
    [
        ("{delay: [[0, 0.5], [5, 1.0]]}", "rises from 0.5 to 1.0 at 5; more delay is never better"),
        ("{loss: [[0, 0.5], [0.5, 0.6]]}", "more loss is never better"),
        ("{delay: [[5, 1.0], [0, 0.5]]}", "0 behind 5; points ascend"),
        ("{delay: [[0, 1.5]]}", "utility 1.5 at 0; it is from 0 to 1"),
        ("{delay: [[0]]}", "a point is"),
        ("{loss: [[0, 1.0], [3, 0.5]]}", "ends at 3; a share is 1 at most"),
        ("{speed: [[0, 1]]}", "it has delay, loss and values"),
        ("{values: {pressure: [[0, 1], [5, 0.2]]}}", "graph for values of 'pressure'"),
    ],
)
def test_graphs_that_cannot_be(qos, told):
    box = ['a: {box: filter, from: readings, where: "temperature > 80"}']
    with pytest.raises(eq.InvalidNetworkError, match=told):
        load(box, f"outputs:\n  out: {{from: a, qos: {qos}}}\n")


def test_graphs_of_values_may_rise():
    box = ['a: {box: filter, from: readings, where: "temperature > 80"}']
    qos = "{values: {temperature: [[0, 0.1], [90, 1.0]]}}"
    made = load(box, f"outputs:\n  out: {{from: a, qos: {qos}, shed: never}}\n")
    assert eq.Network.load(made.dump()) == made
    assert "shed: never" in made.dump()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: [", "is no YAML"),
        ("streams: {}\n", "begins with `network: name`"),
        (PLANT + "extra: 3\n", "has 'extra'"),
        (PLANT.replace("{from: scaled}", "{from: scald}"), "did you mean 'scaled'"),
        (PLANT.replace("pairs: {from: pairs}", "hot: {from: hot}"), "'hot' is there twice"),
        (PLANT.replace("  hot:    {", "  readings:    {"), "the name of a stream and of a box"),
        (
            PLANT.replace("key: machine, ", "key: machine, colour: red, "),
            "a stream has no 'colour'",
        ),
    ],
)
def test_yaml_that_is_no_network(text, told):
    with pytest.raises(eq.InvalidNetworkError, match=told):
        eq.Network.load(text if "\n" in text else text + "\n")


def test_a_batch_that_does_not_fit_changes_nothing():
    run = eq.Network.load(PLANT).start()
    good = readings(10)
    with pytest.raises(eq.InvalidBatchError, match="no stream 'reading'"):
        run.process({"reading": good})
    with pytest.raises(eq.InvalidBatchError, match="needs column 'machine'"):
        run.process({"readings": good.drop_columns(["machine"])})
    with pytest.raises(eq.InvalidBatchError, match="column 'temperature' has"):
        run.process({"readings": good.set_column(2, "temperature", [["x"] * 10])})
    assert run.process({"readings": good})["hot"].num_rows > 0
    run.finish()
    with pytest.raises(eq.InvalidBatchError, match="the streams have ended"):
        run.process({"readings": good})


def test_a_type_error_that_the_first_batch_shows_changes_nothing():
    network = load(['a: {box: filter, from: readings, where: "machine > 3"}'])
    run = network.start()
    with pytest.raises(eq.InvalidBatchError, match=r"box 'a' \(filter, arrow readings -> a\)"):
        run.process({"readings": readings(5)})
    numbered = readings(5).set_column(0, "machine", pa.array([1, 2, 3, 4, 5]))
    assert run.process({"readings": numbered})["out"].column("machine").to_pylist() == [4, 5]


def test_rows_that_a_stream_refuses_are_dead_letters():
    run = load(['a: {box: filter, from: readings, where: "temperature > 0"}']).start()
    batch = pa.table(
        {
            "machine": ["a", None, "c", "d"],
            "ts": [1, 2, None, 4],
            "temperature": pa.array([1, 2, 3, 2**53 + 1]),
        }
    )
    assert run.process({"readings": batch})["out"].column("machine").to_pylist() == ["a"]
    reasons = run.dead_letters().select(["box", "reason"]).to_pylist()
    assert reasons == [
        {"box": "readings", "reason": reason}
        for reason in ("null_key", "null_time", "inexact_attribute")
    ]


@pytest.mark.parametrize("optimize", [True, False])
def test_rows_on_which_an_expression_fails_are_dead_letters_of_that_box(optimize):
    boxes = [
        'b: {box: map, from: readings, select: "machine, ts, 100 / temperature AS share"}',
        'a: {box: filter, from: b, where: "CAST(machine AS BIGINT) % 2 = 0"}',
    ]
    run = load(boxes).start(optimize=optimize)
    batch = pa.table(
        {
            "machine": ["1", "2", "x", "4"] * 50,
            "ts": range(200),
            "temperature": [10.0, 0.0, 10.0, 5.0] * 50,
        }
    )
    found = run.process({"readings": batch})["out"]
    assert found.column("machine").to_pylist() == ["4"] * 50
    counts = {}
    for row in run.dead_letters().to_pylist():
        counts[row["box"], row["reason"]] = counts.get((row["box"], row["reason"]), 0) + 1
    assert counts["b", "division by zero"] == 50
    assert sum(count for (box, _), count in counts.items() if box == "a") == 50
    figures = {row["name"]: row["dead_letters"] for row in run.stats().to_pylist()}
    assert figures["a"] == figures["b"] == 50


def test_late_rows_are_dead_letters_of_the_box_with_the_window():
    network = load(['a: {box: tumble, from: readings, every: {time: 10}, select: "count(*) AS n"}'])
    run = network.start()
    run.process({"readings": pa.table({"machine": ["a"], "ts": [25], "temperature": [1.0]})})
    late = pa.table({"machine": ["a", "b"], "ts": [3, 21], "temperature": [1.0, 2.0]})
    run.process({"readings": late})
    assert run.finish()["out"].to_pylist() == [{"n": 2, "window_start": 20}]
    assert run.dead_letters().select(["box", "reason"]).to_pylist() == [
        {"box": "a", "reason": "late"}
    ]


def test_grace_puts_rows_in_order():
    text = HEAD.replace("time: ts,", "time: ts, grace: 10,")
    body = '  a: {box: tumble, from: readings, every: {time: 10}, select: "count(*) AS n"}\n'
    run = eq.Network.load(text + body + TAIL).start()
    for times in ([5, 12], [7, 14], [30]):
        batch = {"machine": ["a"] * len(times), "ts": times, "temperature": [1.0] * len(times)}
        out = run.process({"readings": pa.table(batch)})["out"]
    assert out.to_pylist() == [
        {"n": 2, "window_start": 0},
        {"n": 2, "window_start": 10},
    ]


def test_python_functions_run_and_are_not_printed():
    stream = eq.Stream("s", key="k", attributes=["x"])
    boxes = {
        "f": n.Filter("s", where=lambda rows: [value > 1 for value in rows["x"].to_pylist()]),
        "m": n.Map(
            "f",
            select=lambda rows: {"k": rows["k"], "y": rows["x"]},
            columns={"k": "string", "y": "number"},
        ),
    }
    network = eq.Network("n", [stream], boxes, {"out": "m"})
    batch = pa.table({"k": ["a", "b"], "x": [1.0, 2.0]})
    assert network.start().process({"s": batch})["out"].to_pylist() == [{"k": "b", "y": 2.0}]
    with pytest.raises(eq.InvalidNetworkError, match="box 'f': `where` is a Python function"):
        network.dump()
    wrong = eq.Network("n", [stream], {"f": n.Filter("s", where=lambda rows: [True])}, {"out": "f"})
    with pytest.raises(eq.InvalidNetworkError, match="one boolean for each"):
        wrong.start().process({"s": batch})
    with pytest.raises(eq.InvalidNetworkError, match="`columns` says which columns it gives"):
        eq.Network("n", [stream], {"m": n.Map("s", select=lambda rows: rows)}, {"out": "m"})


def test_a_snapshot_of_another_network_or_a_damaged_one_is_refused():
    run = eq.Network.load(PLANT).start()
    run.process({"readings": readings(20)})
    state = run.snapshot()
    other = load(['a: {box: filter, from: readings, where: "temperature > 1"}']).start()
    with pytest.raises(eq.SnapshotError, match="with other boxes"):
        other.restore(state)
    with pytest.raises(eq.SnapshotError):
        run.restore(state[:-3] + b"abc")
    run.restore(state)


def test_what_is_no_batch_at_all_changes_nothing():
    run = load(['a: {box: filter, from: readings, where: "temperature > 0"}']).start()
    good = {"machine": ["a"], "ts": [1], "temperature": [2.0]}
    doubled = pa.table([["a"], ["b"], [1], [1.0]], ["machine", "machine", "ts", "temperature"])
    for batches, told in (
        ([good], r"list has no batches by the names of streams; write {'readings': batch}"),
        ({"readings": {**good, "ts": [1, 2]}}, "the columns make no table"),
        ({"readings": doubled}, "has column 'machine' twice"),
        ({"readings": None}, "NoneType is no batch"),
    ):
        with pytest.raises(eq.InvalidBatchError, match=told):
            run.process(batches)
    with pytest.raises(eq.InvalidNetworkError, match="there is no output 'zz'; there are out"):
        run.process({"readings": good}, read=["zz"])
    assert run.process({"readings": good})["out"].num_rows == 1
    with pytest.raises(eq.SnapshotError, match="str is no snapshot"):
        run.restore("text")


@pytest.mark.parametrize("came", [False, True])
@pytest.mark.parametrize("begin", ["yesterday", [1], True, None])
def test_a_begin_that_is_no_time_is_refused_before_and_after_rows(begin, came):
    text = HEAD.replace("boxes:", "points:\n  kept: {from: readings, keep: all}\nboxes:")
    box = '  a: {box: filter, from: kept, where: "temperature > 0"}\n'
    run = eq.Network.load(text + box + TAIL).start()
    if came:
        run.process({"readings": readings(5)})
    cold = {"cold": {"box": "filter", "from": "kept", "where": "temperature < 0"}}
    with pytest.raises(eq.InvalidNetworkError, match="it is 'now', 'oldest' or a time"):
        run.attach(cold, {"cold": "cold"}, begin=begin)
    assert list(run.process({"readings": readings(5).slice(0, 0)})) == ["out"]


def test_what_is_no_network_or_no_box_at_all():
    with pytest.raises(eq.InvalidNetworkError, match="None is no network; give the name of a file"):
        eq.Network.load(None)
    with pytest.raises(eq.InvalidNetworkError, match="point 'p' reads from 'reading'"):
        load(["a: {box: union, from: [p, p]}"], "points:\n  p: {from: reading}\n" + TAIL)
    run = eq.Network.load(PLANT).start()
    with pytest.raises(eq.InvalidNetworkError, match=r"boxes are \[1\]; give them by their names"):
        run.attach([1], {})
