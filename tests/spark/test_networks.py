"""Networks on Spark give what the embedded runtime gives for the same batches."""

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import everquery as eq
from everquery.errors import InvalidNetworkError, SparkError
from everquery.spark import read_files
from everquery.spark.network.gates import CONTROL, RAW, gated
from tests.spark.networks import (
    ALL_BOXES,
    PLANT,
    Files,
    Told,
    assert_same,
    bag,
    batches,
    embedded,
    load,
)

STATELESS = """
network: stateless
streams:
  s: {key: k, time: t, attributes: [x, o]}
  r: {key: k, time: t, attributes: [y]}
boxes:
  high:   {box: filter, from: s, where: "x > 4 AND NOT (o - o * 1.5 > -3 OR k = 'c')"}
  scaled: {box: map, from: high, select: "k, t, (x - 32) / 1.8 AS c, coalesce(x, o) AS v,
           CASE WHEN x > 6 THEN 1 ELSE 0 END AS flag, -x AS minus"}
  edges:  {box: map, from: s, select: "k, t, x - x AS none, abs(x) AS v, x * 2 <> x * 2 AS odd"}
  named:  {box: map, from: r, select: "k, t, y AS v"}
  mine:   {box: map, from: s, select: "k, t, x AS v"}
  both:   {box: union, from: [named, mine]}
  some:   {box: filter, from: both, where: "k IN ('a', 'b') AND v BETWEEN 2 AND 6.5"}
outputs:
  scaled: {from: scaled}
  edges: {from: edges}
  some: {from: some}
"""


def odd_batches(count):
    """Return batches with infinities, whose differences are NaN."""
    found = batches(count)
    for batch in found:
        x = batch["s"].column("x").to_pylist()
        x[:4] = [float("inf"), float("-inf"), float("nan"), None]
        batch["s"] = batch["s"].set_column(2, "x", pa.array(x, pa.float64()))
    return found


def test_every_box_gives_the_same_batch_by_batch_and_goes_on_from_its_checkpoint(spark, tmp_path):
    network, given = load(ALL_BOXES), batches(5)
    files, told = Files(tmp_path / "files"), Told()
    for until in (3, 5):
        for batch in given[files.count : until]:
            files.add(batch)
        watched = network.watch(spark, files.frames(spark))
        assert watched.ways["scaled"] == "spark"
        assert watched.ways["shared"] == watched.ways["ten"] == "state"
        started = watched.start(
            tmp_path / "checkpoint",
            told.writers(network),
            dead_letters=told.writer(""),
            availableNow=True,
        )
        started.wait()
    assert list(started.queries) == ["rows"]
    assert_same(told, embedded(network, given))
    assert told.rows["ten"][4]
    figures = started.queries["rows"].lastProgress["observedMetrics"]["everquery_network"]
    assert figures["rows"] == given[4]["s"].num_rows + given[4]["r"].num_rows


def test_stateless_networks_are_spark_s_own_operators(spark, tmp_path):
    network, given = load(STATELESS), odd_batches(2)
    files, told = Files(tmp_path / "files"), Told()
    for batch in given:
        files.add(batch)
    watched = network.watch(spark, files.frames(spark))
    assert set(watched.ways.values()) == {"spark"}
    started = watched.start(tmp_path / "checkpoint", told.writers(network), availableNow=True)
    started.wait()
    wanted = embedded(network, given)
    assert_same(told, wanted)
    figures = started.queries["rows"].lastProgress["observedMetrics"]["everquery_network_s"]
    assert figures["null_key"] == given[1]["s"].column("k").null_count
    assert bag(_by_duckdb(given[0])) == bag(wanted[0]["some"])


def _by_duckdb(batch):
    s, r = batch["s"], batch["r"]  # noqa: F841 - DuckDB finds them by name
    rows = duckdb.sql(
        "SELECT * FROM (SELECT k, t, y AS v FROM r UNION ALL SELECT k, t, x FROM s)"
        " WHERE k IN ('a', 'b') AND v BETWEEN 2 AND 6.5 AND NOT isnan(v)"
    )
    return rows.to_arrow_table().to_pylist()


def test_an_output_is_a_streaming_frame_and_workers_can_read_files(spark, tmp_path, collect):
    text = """
network: plant
streams:
  s: {key: k, time: t, attributes: [x, o]}
boxes:
  ten: {box: tumble, from: s, by: [k], every: {time: 10}, select: "k, count(*) AS n, max(x) AS top"}
outputs:
  ten: {from: ten}
"""
    network = load(text)
    given = [{"s": batch["s"]} for batch in batches(3)]
    files = Files(tmp_path / "files")
    for batch in given:
        files.add(batch)
    sources = {
        "frame": files.frames(spark)["s"],
        "files": read_files(
            spark, network.streams["s"].stream, [files.folder("s")], max_files_a_batch=1
        ),
    }
    wanted = [row for batch in embedded(network, given) for row in batch["ten"]]
    for name, source in sources.items():
        frame = network.watch(spark, {"s": source})["ten"]
        assert frame.isStreaming
        collected = collect(frame, tmp_path / name, availableNow=True)
        collected.query.awaitTermination()
        assert bag([row.asDict() for row in collected.rows]) == bag(wanted)
    assert bag(_windows_by_duckdb(given)) == bag(wanted)


def _windows_by_duckdb(given):
    """Return the windows that have ended; no row of these batches is late for its window."""
    rows = pa.concat_tables([batch["s"] for batch in given])
    clock, kept = -1, []
    for batch in given:
        times = batch["s"].column("t").to_numpy()
        mask = times >= clock - clock % 10
        kept.append(batch["s"].filter(pa.array(mask)))
        known = batch["s"].filter(pa.array(batch["s"].column("k").is_valid()))
        clock = max(clock, int(np.max(known.column("t").to_numpy())))
    rows = pa.concat_tables(kept)  # noqa: F841 - DuckDB finds it by name
    found = duckdb.sql(
        "SELECT k, count(*) AS n, max(CASE WHEN isnan(x) THEN NULL ELSE x END) AS top,"
        f" t - t % 10 AS window_start FROM rows WHERE k IS NOT NULL AND t - t % 10 + 10 <= {clock}"
        " GROUP BY ALL"
    )
    return found.to_arrow_table().to_pylist()


def test_notices_of_a_registry_and_a_filter_behind_them(spark, tmp_path):
    registry = f"sqlite:///{tmp_path / 'queries.db'}"
    text = f"""
network: alarms
streams:
  s: {{key: k, time: t, attributes: [x, o]}}
boxes:
  high:   {{box: filter, from: s, where: "x > 1"}}
  alarms: {{box: watch, from: high, stream: s, registry: "{registry}"}}
  enters: {{box: filter, from: alarms, where: "event = 'enter'"}}
  seen:   {{box: map, from: enters, select: "query_id, key, time, x"}}
outputs:
  alarms: {{from: alarms}}
  seen: {{from: seen}}
"""
    stream = eq.Stream("s", key="k", time="t", attributes=["x", "o"])
    with eq.Engine(stream, registry=registry, create=True) as engine:
        engine.register(eq.Border("b", {"x": (3, 6)}))
    network = load(text)
    given = [{"s": batch["s"]} for batch in batches(2)]
    files, told = Files(tmp_path / "files"), Told()
    for batch in given:
        files.add(batch)
    watched = network.watch(spark, files.frames(spark), shards=2, wide_shards=0)
    assert {name: watched.ways[name] for name in ("high", "alarms", "seen")} == {
        "high": "spark",
        "alarms": "watch",
        "seen": "watch",
    }
    started = watched.start(tmp_path / "checkpoint", told.writers(network), availableNow=True)
    started.wait()
    assert list(started.queries) == ["alarms"]
    wanted = embedded(network, given)
    for name in network.outputs:
        rows = [row for own in told.rows[name].values() for row in own]
        assert bag(rows) == bag([row for batch in wanted for row in batch[name]]), name


def test_a_table_of_controls_sheds_from_the_next_batch_on(spark, tmp_path):
    network = load(PLANT)
    rates = [("s", 0.5), ("s", 0.25), ("x", 0.1), ("s", 0.0)]
    given = [
        {"s": batch["s"], "control": pa.table({"stream": [name], "rate": [rate]})}
        for batch, (name, rate) in zip(batches(4), rates, strict=True)
    ]
    files, told = Files(tmp_path / "files"), Told()
    shed = []
    for until in (2, 4):
        for batch in given[files.count : until]:
            files.add(batch)
        frames = files.frames(spark)
        control = frames.pop("control")
        watched = network.watch(spark, frames, control=control)
        started = watched.start(
            tmp_path / "checkpoint",
            told.writers(network),
            dead_letters=told.writer(""),
            availableNow=True,
        )
        started.wait()
        progress = started.queries["rows"].recentProgress
        shed += [each["observedMetrics"]["everquery_network"]["shed"] for each in progress]
    gates = gated(network, network)
    wanted = embedded(
        gates, [{"s" + RAW: batch["s"], CONTROL: batch["control"]} for batch in given]
    )
    for name in network.outputs:
        for number, rows in enumerate(wanted):
            assert bag(told.rows[name][number]) == bag(rows[name]), (name, number)
    letters = [row for own in told.rows[""].values() for row in own]
    assert [row["reason"] for row in letters].count("no stream that may be shed") == 1
    assert {row["box"] for row in letters} <= {"s", "ten", "pair"}
    assert shed[0] == 0
    assert all(shed[1:])


def test_what_can_t_be_is_refused_before_it_runs(spark, tmp_path):
    files = Files(tmp_path / "files")
    files.add(batches(1)[0])
    frames, network = files.frames(spark), load(STATELESS)
    with pytest.raises(SparkError, match=r"stream 'r' needs a streaming DataFrame.* has none"):
        network.watch(spark, {"s": frames["s"]})
    with pytest.raises(SparkError, match="has no stream 'q'; it has s, r"):
        network.watch(spark, {**frames, "q": frames["s"]})
    with pytest.raises(SparkError, match="stream 'r' needs a streaming DataFrame"):
        network.watch(spark, {**frames, "r": spark.range(3)})
    with pytest.raises(InvalidNetworkError, match="there is no output 'rest'; there are scaled"):
        network.watch(spark, frames).start(tmp_path / "c", {"rest": tmp_path / "rest"})
    assert "nope" not in network.watch(spark, frames)
