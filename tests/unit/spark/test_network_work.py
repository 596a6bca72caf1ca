"""The work of the stateful stage, without Spark: pieces in, rows of outputs out, kept state."""

from types import SimpleNamespace

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.serializers import CloudPickleSerializer

import everquery as eq
from everquery.errors import InvalidNetworkError, SnapshotError
from everquery.network import Filter, Network, Tumble
from everquery.network.rows import RowType
from everquery.sharding.journal import MemoryStore
from everquery.sharding.wire import table_of_bytes
from everquery.spark.network import state, work
from everquery.spark.network.gates import CONTROL, RAW, gated
from everquery.spark.network.gathering import GATHERED, with_gathering
from everquery.spark.network.parts import part_of, ways_of
from everquery.spark.network.rows import PackRows, schema_of
from tests.spark.networks import ALL_BOXES, PLANT, bag, batches, embedded

NETWORK = Network.load(ALL_BOXES)


def schemas_of(network):
    roots = {
        name: RowType(
            {**source.row_type().columns, "k": pa.string(), "t": pa.int64()},
            key="k",
            time="t",
            stream=source.stream,
        )
        for name, source in network.streams.items()
    }
    types = network.infer(roots)
    return {name: schema_of(types[output.source]) for name, output in network.outputs.items()}


def pieces_of(batch, *, rows=7):
    found = []
    for number, table in enumerate(batch.values()):
        pack = PackRows(number, table.column_names)
        for piece in pack(table.to_batches(max_chunksize=rows)):
            found += [SimpleNamespace(**row) for row in piece.to_pylist()]
    return found[::-1]  # Spark gives them in any order


def told_by(job, batch, store):
    names = list(job.schemas)
    found = {name: [] for name in (*names, "")}
    for row in job.run(iter(pieces_of(batch)), store):
        if row.payload:
            name = names[row.output] if row.output >= 0 else ""
            found[name] += table_of_bytes(row.payload).to_pylist()
    return found


@pytest.mark.parametrize("chunk", [100, 1 << 20])
def test_batches_give_the_same_rows_wherever_the_state_comes_from(chunk, monkeypatch):
    monkeypatch.setattr(state, "CHUNK_BYTES", chunk)
    given, store = batches(6), MemoryStore()
    job = work.NetworkWork(NETWORK, schemas_of(NETWORK), letters=True)
    for number, (batch, wanted) in enumerate(zip(given, embedded(NETWORK, given), strict=True)):
        if number in (2, 3, 5):
            work._live.clear()  # another process goes on
        before = MemoryStore(store)
        found = told_by(job, batch, store)
        assert {name: bag(rows) for name, rows in found.items()} == {
            name: bag(rows) for name, rows in wanted.items()
        }
        if number == 4:  # the batch fails at its end, and is done again
            assert told_by(job, batch, before) == found
            store = before


def test_a_task_that_fails_leaves_no_live_run(monkeypatch):
    given, store = batches(2), MemoryStore()
    job = work.NetworkWork(NETWORK, schemas_of(NETWORK))
    told_by(job, given[0], store)
    with monkeypatch.context() as broken:
        broken.setattr(state, "save", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            told_by(job, given[1], store)
    wanted = embedded(NETWORK, given)[1]
    found = told_by(job, given[1], store)
    assert all(bag(found[name]) == bag(wanted[name]) for name in NETWORK.outputs)


def test_functions_travel_and_the_state_of_their_network_too():
    stream = eq.Stream("s", key="k", time="t", attributes=["x", "o"])
    hot = Filter("s", where=lambda rows: pc.greater(rows.column("x"), 4))
    ten = Tumble("hot", every={"time": 10}, select="count(*) AS n")
    network = Network("own", [stream], {"hot": hot, "ten": ten}, {"ten": "ten"})
    given = [{"s": batch["s"]} for batch in batches(3)]
    packed = CloudPickleSerializer().dumps(work.NetworkWork(network, schemas_of(network)))
    store = MemoryStore()
    for batch, wanted in zip(given, embedded(network, given), strict=True):
        work._live.clear()
        job = CloudPickleSerializer().loads(packed)
        assert bag(told_by(job, batch, store)["ten"]) == bag(wanted["ten"])


def test_damaged_state_is_refused_and_so_is_that_of_another_network():
    batch, store = batches(1)[0], MemoryStore()
    job = work.NetworkWork(NETWORK, schemas_of(NETWORK))
    told_by(job, batch, store)
    other = part_of(NETWORK, {"ten": "ten"})
    with pytest.raises(SnapshotError, match="with other boxes"):
        told_by(work.NetworkWork(other, schemas_of(other)), {"s": batch["s"]}, store)
    work._live.clear()
    store["chunk 0"] = store["chunk 0"][:-1]
    with pytest.raises(SnapshotError, match="chunk 0 of the network's state is missing or damaged"):
        told_by(job, batch, store)


WINDOWS = """
network: windows
streams:
  s: {key: k, time: t, attributes: [x, o]}
boxes:
  high: {box: filter, from: s, where: "o > 4"}
  a: {box: tumble, from: high, by: [k], every: {time: 10},
      select: "k, max(x) - min(high.x) AS d, count(*) AS n, count(x) AS m, high.k AS kk,
               window_start + 1 AS w"}
  b: {box: tumble, from: s, every: {time: 7}, select: "max(t) AS last, min(o) AS low"}
  c: {box: tumble, from: s, by: [k], every: {time: 7}, select: "sum(x) AS total, count(*) AS n"}
  d: {box: tumble, from: s, by: [t], every: {time: 7}, select: "count(*) AS n"}
  e: {box: join, from: [high, a], on: "high.k = a.k", within: {time: 5}}
outputs: {a: {from: a}, b: {from: b}, c: {from: c}, d: {from: d}, e: {from: e}}
"""


def test_windows_of_gathered_rows_are_the_same_windows():
    network = Network.load(WINDOWS)
    kinds = {**network.types["s"].columns, "k": pa.string(), "t": pa.int64()}
    types = network.infer({"s": network.types["s"].but(columns=kinds)})
    gathered = with_gathering(network, types)
    assert set(gathered.boxes) - set(network.boxes) == {"a" + GATHERED, "b" + GATHERED}
    given = [{"s": batch["s"]} for batch in batches(8)]
    late = 0
    for found, wanted in zip(embedded(gathered, given), embedded(network, given), strict=True):
        assert all(bag(found[name]) == bag(wanted[name]) for name in network.outputs)
        for letters in (found, wanted):
            letters[""] = [
                (row["box"].removesuffix(GATHERED), row["reason"]) for row in letters[""]
            ]
        assert sorted(found[""]) == sorted(wanted[""])
        late += ("a", "late") in found[""]
    assert late


def test_the_part_that_leads_to_an_output():
    part = part_of(NETWORK, {"joint": "joint"})
    assert set(part.streams) == {"s"}
    assert set(part.boxes) == {"high", "low", "both"}
    assert set(part.points) == {"joint"}


def test_what_mixes_a_registry_s_notices_with_others_is_refused(tmp_path):
    notices = "event, time AS t"
    network = Network.load(f"""
network: mixed
streams:
  s: {{key: k, time: t, attributes: [x]}}
boxes:
  alarms: {{box: watch, from: s, registry: "sqlite:///{tmp_path}/q.db"}}
  said:   {{box: map, from: alarms, select: "{notices}"}}
  own:    {{box: map, from: s, select: "'s' AS event, t"}}
  both:   {{box: union, from: [said, own]}}
outputs:
  both: {{from: both}}
""")
    with pytest.raises(InvalidNetworkError, match=r"box 'both' .union. reads notices of 'alarms'"):
        ways_of(network, ["s", "own"])


def test_gates_shed_a_share_from_the_next_batch_on_and_again_after_a_restart():
    whole = Network.load(ALL_BOXES)
    network = gated(part_of(whole, {"thinned": "thinned", "pairs": "pairs"}), whole)
    schemas = schemas_of(part_of(whole, {"thinned": "thinned", "pairs": "pairs"}))
    assert list(network.streams) == ["s" + RAW, "r" + RAW, CONTROL]
    controls = [[("s", 0.5)], [], [("s", 0.25), ("x", 0.5), ("s", 2.0)], [("s", 0.0)], []]
    job, store = work.NetworkWork(network, schemas, letters=True), MemoryStore()
    sheds, strange = [], []
    for batch, given in zip(batches(5), controls, strict=True):
        work._live.clear()
        rows = {"stream": [name for name, _ in given], "rate": [rate for _, rate in given]}
        table = pa.table(rows, pa.schema([("stream", pa.string()), ("rate", pa.float64())]))
        pieces = pieces_of({**batch, CONTROL: table} if given else batch)
        for row in job.run(iter(pieces), store):
            sheds += [(row.rows, row.shed)] if row.rows else []
            if row.payload and row.output < 0:
                strange += table_of_bytes(row.payload).column("reason").to_pylist()
    keyed = [batch["s"].column("k").drop_null() for batch in batches(5)]
    wanted, seen, rate = [], 0, 0.0
    for column, given in zip(keyed, controls, strict=True):
        places = range(seen, seen + len(column))
        wanted.append(sum(int((at + 1) * rate) != int(at * rate) for at in places))
        seen += len(column)
        rate = next((each for name, each in given if name == "s"), rate)
    assert [shed for _, shed in sheds] == wanted
    assert sum(wanted) > 20
    assert strange.count("no stream that may be shed") == 1
    assert strange.count("rate is not from 0 to 1") == 1


def test_streams_that_lead_to_an_output_without_shedding_have_no_gate():
    network = Network.load(PLANT.replace("high: {from: high}", "high: {from: high, shed: never}"))
    assert list(gated(network, network).streams) == ["s"]
