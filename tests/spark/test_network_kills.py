"""A network whose driver is killed in the middle of a batch goes on exactly."""

import pyarrow as pa
import pyarrow.parquet as pq

from tests.servers.ports import wait_until
from tests.spark.network_driver import kill, started
from tests.spark.networks import PLANT, Files, bag, batches, embedded, load

BATCHES = 8


def numbers(log):
    return [int(file.name) for file in log.glob("*") if file.name.isdigit()]


def test_a_network_that_is_killed_goes_on_exactly(tmp_path):
    given = [{"s": batch["s"]} for batch in batches(BATCHES)]
    files = Files(tmp_path / "files")
    for batch in given:
        files.add(batch)
    begun = tmp_path / "checkpoint" / "rows" / "offsets"
    done = tmp_path / "checkpoint" / "rows" / "commits"
    under_way = 0
    for until in (2, 5):
        driver = started(tmp_path)
        wait_until(
            lambda until=until: max(numbers(begun), default=-1) >= until,
            f"batch {until} begins",
            seconds=240,
            processes=[driver],
        )
        kill(driver)
        under_way += max(numbers(begun)) > max(numbers(done), default=-1)
    driver = started(tmp_path)
    assert driver.wait(240) == 0, (tmp_path / "driver.log").read_text()[-5_000:]
    assert under_way  # at least one batch had begun and was not done
    network = load(PLANT)
    for number, wanted in enumerate(embedded(network, given)):
        for name in network.outputs:
            folder = tmp_path / "told" / name / f"batch={number:09}"
            parts = [pq.ParquetFile(file).read() for file in folder.glob("*.parquet")]
            rows = pa.concat_tables(parts).to_pylist() if parts else []
            assert bag(rows) == bag(wanted[name]), (name, number)
