"""What the time of Spark's batches went into."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from everquery.spark.metrics import Batch

MEANINGS = {
    "open": "shards: live arrays found, or built from state",
    "unpack": "shards: packed events as columns",
    "changes": "shards: query changes applied",
    "events": "shards: events matched with queries",
    "merge": "shards: indexes merged",
    "commit": "shards: state written",
    "spark_query_planning": "Spark: the plan of the batch",
    "spark_latest_offset": "Spark: what is new in the sources",
    "spark_get_batch": "Spark: the batch put together",
    "spark_wal_commit": "Spark: the batch noted as begun",
    "spark_commit_offsets": "Spark: the batch noted as done",
    "spark_rest": "Spark: files read, events packed, Parquet written",
}


def stages(batches: Sequence[Batch], *, shards: int) -> list[dict[str, Any]]:
    """Return the stages of some batches, the slowest first.

    Shards work at the same time, so what they spend is divided by how many there are.
    """
    spent: defaultdict[str, float] = defaultdict(float)
    for batch in batches:
        inside = 0.0
        for stage, seconds in batch.stages.items():
            if stage.startswith("spark_"):
                spent[stage] += seconds
            else:
                spent[stage] += seconds / shards
                inside += seconds / shards
        spent["spark_rest"] += max(0.0, batch.stages.get("spark_add_batch", 0.0) - inside)
    spent.pop("spark_add_batch", None)  # which is the rest, and what is inside
    in_all = sum(batch.seconds for batch in batches) or 1.0
    return [
        {
            "stage": stage,
            "meaning": MEANINGS.get(stage, stage),
            "seconds": seconds,
            "share": seconds / in_all,
            "seconds_a_batch": seconds / len(batches),
        }
        for stage, seconds in sorted(spent.items(), key=lambda each: -each[1])
    ]
