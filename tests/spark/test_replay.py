"""A batch whose commit is lost is done again: the sink's contents stay as they are."""

import pytest

from tests.spark.job import (
    SOURCES,
    JobFolder,
    assert_exact,
    committed,
    forget_last_batch,
    process_all,
    start,
    told,
)
from tests.spark.market import SCHEMA, STREAM, Owners, events


@pytest.mark.parametrize("rounds", [2, pytest.param(10, marks=pytest.mark.slow)])
@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_a_batch_that_is_done_again_tells_nothing_new(spark, tmp_path, source, rounds):
    folder = JobFolder(tmp_path, source)
    owners = Owners(folder.registry)
    owners.register(60)
    written = 0
    for number in range(rounds):
        query = start(spark, folder, STREAM, SCHEMA, dead_letters=True)
        for _ in range(2):
            owners.change()
            folder.write(written, events(written))
            written += 1
            process_all(query, folder)
        query.stop()
        before = told(folder)
        last = forget_last_batch(folder, told=number % 3 != 1)
        if number % 2:  # with changes that wait for the next batch
            owners.change()
        query = start(spark, folder, STREAM, SCHEMA, dead_letters=True)
        process_all(query, folder)
        query.stop()
        assert committed(folder) >= last
        assert told(folder).slice(0, before.num_rows).equals(before)
    assert_exact(folder, STREAM, least=200)
