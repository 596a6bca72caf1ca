"""The network of the design page, word by word."""

import duckdb
import pyarrow as pa
import pytest

import everquery as eq
from tests.unit.network.plants import PLANT, assert_same_every_way, bag, outputs_of, readings


def test_the_plant_gives_what_duckdb_gives_however_it_is_divided():
    batch = readings(200)
    found = assert_same_every_way(eq.Network.load(PLANT), {"readings": batch})
    duck = duckdb.connect()
    duck.register("readings", batch)
    duck.execute(
        "CREATE VIEW minute AS SELECT machine, max(temperature) AS top, count(*) AS n,"
        " ts // 60 * 60 AS window_start FROM readings GROUP BY machine, ts // 60"
    )
    duck.execute("CREATE VIEW hot AS SELECT * FROM readings WHERE temperature > 80")

    def asked(text):
        return duck.sql(text).to_arrow_table().to_pylist()

    assert bag(found["hot"]) == bag(
        asked("SELECT machine, ts, (temperature - 32) / 1.8 AS celsius FROM hot")
    )
    assert bag(found["tops"]) == bag(asked("SELECT * FROM minute"))
    assert bag(found["pairs"]) == bag(
        asked(
            "SELECT hot.*, top, n, window_start FROM hot JOIN minute USING (machine)"
            " WHERE abs(ts - window_start) <= 60"
        )
    )


def test_outputs_that_are_no_join_come_in_one_order_however_they_are_divided():
    network, batch = eq.Network.load(PLANT), {"readings": readings(100)}
    whole = outputs_of(network, batch)
    for sizes in ((1,), (50,), tuple([3] * 33)):
        found = outputs_of(network, batch, sizes)
        assert found["hot"] == whole["hot"]
        assert found["tops"] == whole["tops"]


def test_a_window_is_told_once_time_has_passed_its_end():
    run = eq.Network.load(PLANT).start()
    first = {"machine": ["a", "a"], "ts": [3, 59], "temperature": [50.0, 70.0]}
    assert run.process({"readings": pa.table(first)})["tops"].num_rows == 0
    passed = {"machine": ["b"], "ts": [60], "temperature": [10.0]}
    assert run.process({"readings": pa.table(passed)})["tops"].to_pylist() == [
        {"machine": "a", "top": 70.0, "n": 2, "window_start": 0}
    ]
    assert run.finish()["tops"].to_pylist() == [
        {"machine": "b", "top": 10.0, "n": 1, "window_start": 60}
    ]


def test_dump_is_read_back_equal():
    network = eq.Network.load(PLANT)
    assert eq.Network.load(network.dump()) == network
    assert eq.Network.load(network.dump()).dump() == network.dump()


def test_load_takes_a_file(tmp_path):
    (tmp_path / "plant.yaml").write_text(PLANT)
    assert eq.Network.load(tmp_path / "plant.yaml") == eq.Network.load(PLANT)
    assert eq.Network.load(str(tmp_path / "plant.yaml")).name == "plant"
    with pytest.raises(eq.InvalidNetworkError, match="can't be read"):
        eq.Network.load(tmp_path / "other.yaml")


def test_watch_follows_a_registry_and_gives_the_notices_of_an_engine(tmp_path):
    url = f"sqlite:///{tmp_path}/queries.db"
    stream = eq.Stream(
        "readings", key="machine", time="ts", attributes=["temperature", "vibration"]
    )
    engine = eq.Engine(stream, registry=url, create=True)
    engine.register(eq.Border("warm", {"temperature": (80, 100)}))
    watched = PLANT.replace(
        "outputs:", f'  alarms: {{box: watch, from: readings, registry: "{url}"}}\noutputs:'
    )
    network = eq.Network.load(watched + "  alarms: {from: alarms}\n")
    run = network.start()
    batch = readings(50)
    notices = run.process({"readings": batch})["alarms"]
    wanted = eq.Engine(stream, registry=url).process(batch)
    columns = ["query_id", "event", "key", "time", "seq", "temperature", "notice_id"]
    assert notices.select(columns).to_pylist() == wanted.select(columns).to_pylist()
    assert notices.num_rows > 0
    engine.register(eq.Range("all", {}))  # while the network runs
    later = pa.table({"machine": ["a"], "ts": [10**6], "temperature": [1.0]})
    told = run.process({"readings": later})["alarms"].column("query_id").to_pylist()
    assert "all" in told
