"""Quarantined queries as operators see them: a list, and a way back."""

import pyarrow as pa
import pytest

import everquery as eq
from everquery.registry.quarantined import Quarantined

STREAM = eq.Stream("trades", key="symbol", time="t", attributes=["price"])
BAD = Quarantined("bad", "border", "ZeroDivisionError: why", 2)


@pytest.fixture
def url(tmp_path):
    url = f"sqlite:///{tmp_path / 'q.db'}"
    with eq.Engine(STREAM, registry=url, create=True) as engine:
        bad = eq.Border("bad", {"price": (1, 2)}, owner="ann", labels={"a": "b"}, ttl=50)
        engine.register([bad, eq.Range("good", {})])
        engine._log.registry.quarantine("trades").replace("job", {0: [BAD], 3: [BAD]})
    return url


def test_it_is_listed_and_given_back_14(url):
    engine = eq.Engine(STREAM, registry=url, create=True)
    row = {"id": "bad", "kind": "border", "reason": BAD.reason, "position": 2, "job": "job"}
    assert engine.quarantined().to_pylist() == [{**row, "shard": shard} for shard in (0, 3)]
    follower = eq.Engine(STREAM, registry=url, create=True)
    before = sorted(engine.queries().to_pylist(), key=lambda row: row["id"])
    engine.pause("bad")
    engine.give_back("bad")
    assert engine.position == 6  # paused; dropped, registered and paused again
    assert engine.quarantined().num_rows == 0
    engine.resume("bad")
    for each in (engine, follower, eq.Engine(STREAM, registry=url, create=True)):
        each.refresh()
        assert sorted(each.queries().to_pylist(), key=lambda row: row["id"]) == before


def test_who_is_not_quarantined_is_not_given_back_14(url):
    engine = eq.Engine(STREAM, registry=url, create=True)
    for ids in ("good", ["bad", "good"], "nobody"):
        with pytest.raises(eq.UnknownQueryError, match="is not quarantined"):
            engine.give_back(ids)
    assert engine.position == 2
    alone = eq.Engine(STREAM)
    assert alone.quarantined().num_rows == 0
    with pytest.raises(eq.UnknownQueryError, match="is not quarantined"):
        alone.give_back("bad")


def test_a_query_that_is_dropped_is_not_listed_14(url):
    engine = eq.Engine(STREAM, registry=url, create=True)
    engine.deregister("bad")
    assert engine.quarantined().num_rows == 0


def test_a_dropped_stream_leaves_nothing_14(url):
    engine = eq.Engine(STREAM, registry=url, create=True)
    engine._log.registry.drop_stream("trades")
    engine._log.registry.create_stream(STREAM)
    assert engine._log.registry.quarantine("trades").read() == {}


def test_a_job_replaces_what_its_shards_told_14(url):
    noted = eq.Engine(STREAM, registry=url, create=True)._log.registry.quarantine("trades")
    other = Quarantined("good", "range", "ValueError: x", 1, failed=False)
    noted.replace("job", {0: [], 1: [other]})
    noted.replace("second", {0: [other]})
    assert noted.read() == {("job", 1): [other], ("job", 3): [BAD], ("second", 0): [other]}
    assert noted.read("second") == {("second", 0): [other]}


def test_events_go_on_meanwhile_14(url):
    engine = eq.Engine(STREAM, registry=url, create=True)
    events = pa.table({"symbol": ["IBM"], "t": [1], "price": [1.5]})
    assert engine.process(events)["query_id"].to_pylist() == ["bad", "good"]  # embedded: all
