"""Tables as bytes, and cut by bytes."""

import numpy as np
import pyarrow as pa
import pytest

from everquery.core.arrow_bytes import table_bytes
from everquery.sharding.wire import cut, table_of_bytes


@pytest.mark.parametrize("kind", [pa.Table.from_batches, lambda batches: batches[0]])
def test_rows_are_cut_where_they_are_wide(kind):
    rng = np.random.default_rng(1)
    widths = rng.integers(0, 50, 2_000)
    widths[700:720] = 5_000
    widths[900] = 100_000
    batch = pa.record_batch({"n": np.arange(2_000), "text": ["x" * w for w in widths]})
    parts = list(cut(kind([batch]), 10_000))
    assert pa.concat_tables(map(_table, parts)).combine_chunks() == pa.Table.from_batches([batch])
    assert [part.num_rows for part in parts if part.nbytes > 10_000] == [1]
    assert len(parts) < 80


def _table(rows):
    return table_of_bytes(table_bytes(rows))


def test_no_rows_are_one_part():
    table = pa.table({"x": pa.array([], pa.int64())})
    assert list(cut(table, 10)) == [table]
