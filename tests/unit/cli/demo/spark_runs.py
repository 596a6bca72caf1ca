"""Runs of the demo on Spark, without Spark: what they would know after some batches."""

import pyarrow as pa
import pyarrow.parquet as pq

from everquery.cli.demo.plan import Plan
from everquery.cli.demo.spark import SparkRun
from everquery.spark.metrics import Batch
from tests.unit.cli.demo.clocks import steady_clock

STAGES = {
    "open": 0.2, "events": 0.4, "commit": 0.2, "spark_add_batch": 1.0, "spark_query_planning": 0.1,
}  # fmt: skip


def batch(number):
    return Batch(
        query="demo", number=number, began="2024-05-01T10:00:00Z", events=1_000_000,
        partial=0, lacking={}, notices=222_222, refused=0, quarantined=0, rebuilt=0,
        queries=1_000_000, position=1_002_000, log_lag=0, source_lag={},
        seconds=1.25, stages=STAGES,
    )  # fmt: skip


def write_notices(path, **numbers):
    """Write notices by event; numbers are those of queries."""
    rows = [(event, number) for event, found in numbers.items() for number in found]
    ids = [f"{'threshold' if event == 'fire' else 'border'}-{n:07}" for event, n in rows]
    pq.write_table(pa.table({"event": [event for event, _ in rows], "query_id": ids}), path)


def finished_run(folder):
    """Return a run of four batches with the numbers of the real demo, and files of notices."""
    run = SparkRun(
        Plan(symbols=5, seconds=30.0), folder, keep=False, cores=2, clock=steady_clock(0.5)
    )
    run.plan = Plan(seconds=30.0)
    run.batches += [batch(number) for number in range(4)]
    tally = run.tally
    tally.batches, tally.events, tally.notices = 4, 987_654_321, 87_654_321
    tally.untimed_events, tally.run_seconds = 87_654_321, 17.3
    run.lags, run.effect_seconds = [1.5, 123.45], [0.9]
    tally.registered["threshold"] = tally.dropped["threshold"] = 2
    run.notices.mkdir()
    # 0 and 4 repeat, 1 has been dropped after its fire, and 5 has ended.
    write_notices(run.notices / "a.parquet", enter=[9], fire=[0, 4, 1])
    write_notices(run.notices / "b.parquet", leave=[9, 9], match=[7], fire=[])
    run.recent()
    write_notices(run.notices / "c.parquet", fire=[5])
    (run.notices / "unfinished.parquet").write_bytes(b"PAR1")
    run._looked = -1  # as behind another batch
    run.recent()
    return run
