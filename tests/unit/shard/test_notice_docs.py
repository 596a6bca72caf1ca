"""The page on Spark names every column of a notice, and everything that a notice tells of."""

import re
from pathlib import Path

import pyarrow as pa
import pytest

import everquery as eq
from everquery.kinds import KINDS
from everquery.shard.layout import notice_schema
from everquery.sharding.telling import LETTER, QUARANTINED, plain_schema

PAGE = (Path(__file__).parents[3] / "docs" / "spark.md").read_text(encoding="utf-8")


def first_cells(header):
    """Return what stands in backticks in the first column of the table with a header."""
    _, _, rest = PAGE.partition(f"{header}\n")
    rows = re.match(r"(?:\|.*\n)+", rest)[0].splitlines()[1:]
    return {name for row in rows for name in re.findall("`([a-z_]+)`", row.split("|")[1])}


def test_every_column_is_in_the_table():
    stream = eq.Stream("s", attributes=["x"])
    notices = notice_schema(stream, pa.int64(), pa.string())
    columns = set(plain_schema(notices, pa.schema([])).names) - {"x"}
    assert columns <= first_cells("| column | type | filled for | what it is |")


def test_every_event_is_in_the_table():
    events = {outcome.event for kind in KINDS.values() for outcome in kind.index.outcomes}
    told = first_cells("| `event` | of kind | means | `reason` |")
    assert told == {*events, "end", QUARANTINED, "refused"}


@pytest.mark.parametrize("kind", [*KINDS, LETTER])
def test_every_kind_is_named(kind):
    assert f"`{kind}`" in PAGE


def test_every_reason_of_the_indexes_is_named():
    for kind in KINDS.values():
        for outcome in kind.index.outcomes:
            assert outcome.reason is None or f"`{outcome.reason}`" in PAGE
