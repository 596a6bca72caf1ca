"""The first blocks of the pages about Spark run as they stand."""

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

PLANT = """
network: plant
streams:
  readings: {key: machine, time: ts, attributes: [temperature, vibration]}
boxes:
  minute: {box: tumble, from: readings, by: [machine], every: {time: 60},
           select: "machine, max(temperature) AS top, count(*) AS n"}
outputs:
  tops: {from: minute}
"""
PAGE = Path(__file__).parents[2] / "docs" / "spark.md"


def test_ten_lines_lead_to_notices(spark, tmp_path):
    block = re.search(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[1]
    assert len([line for line in block.splitlines() if line]) <= 10
    block = block.replace("sqlite:///", f"sqlite:///{tmp_path}/")
    for name in ("trades", "notices", "checkpoint"):
        block = block.replace(f'("{name}")', f'("{tmp_path / name}")')
        block = block.replace(f', "{name}")', f', "{tmp_path / name}")')
    events = {
        "symbol": ["IBM", "IBM"],
        "ts": pa.array([1, 2], pa.timestamp("us", "UTC")),
        "price": [45.0, 55.0],
    }
    (tmp_path / "trades").mkdir()
    pq.write_table(pa.table(events), tmp_path / "trades" / "0.parquet")
    names = {"spark": spark}
    exec(compile(block, "docs/spark.md", "exec"), names)
    query = names["query"]
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    notices = spark.read.parquet(str(tmp_path / "notices")).collect()
    assert sorted((row.query_id, row.event) for row in notices) == [
        ("ibm-band", "enter"),
        ("ibm-band", "leave"),
    ]


def test_a_network_leads_to_windows(spark, tmp_path):
    page = PAGE.with_name("networks-spark.md").read_text(encoding="utf-8")
    block = re.search(r"```python\n(.*?)```", page, re.DOTALL)[1]
    for name in ("plant.yaml", "readings", "checkpoint", "tops"):
        block = block.replace(f'("{name}")', f'("{tmp_path / name}")')
        block = block.replace(f', "{name}")', f', "{tmp_path / name}")')
    (tmp_path / "plant.yaml").write_text(PLANT)
    events = {
        "machine": ["a", "a", "b", "a"],
        "ts": pa.array([1_000_000, 2_000_000, 3_000_000, 61_000_000], pa.timestamp("us", "UTC")),
        "temperature": [90.0, 85.0, 20.0, 50.0],
        "vibration": [0.0, 1.0, 2.0, 3.0],
    }
    (tmp_path / "readings").mkdir()
    pq.write_table(pa.table(events), tmp_path / "readings" / "0.parquet")
    names = {"spark": spark}
    exec(compile(block, "docs/networks-spark.md", "exec"), names)
    try:
        names["query"].processAllAvailable()
    finally:
        names["query"].stop()
    tops = spark.read.parquet(str(tmp_path / "tops")).collect()
    assert sorted((row.machine, row.top, row.n) for row in tops) == [("a", 90.0, 2), ("b", 20.0, 1)]
