"""The first block of the page about Spark runs as it stands."""

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

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
