"""Which columns notices have, and notices for people."""

import json

import pyarrow as pa
import pytest

import everquery as eq
from everquery.kinds import KINDS
from everquery.shard.outcomes import columns_of

STREAM = eq.Stream("s", key="k", time="t", attributes=["x"])
EVENT = [{"k": "a", "t": 1, "x": 1.0}]
OF_ALL = [
    *("query_id", "kind", "event", "key", "time", "seq", "reason", "x", "held_back", "notice_id")
]


def test_a_kind_has_columns_once_a_query_of_it_came():
    engine = eq.Engine(STREAM)
    assert engine.process(EVENT).column_names == OF_ALL
    engine.register(eq.Range("r", {}))
    assert engine.process(EVENT).column_names == OF_ALL
    engine.register(eq.Threshold("t", {}, total=1))
    with_totals = [*OF_ALL[:-1], "total", "rounds", "notice_id"]
    assert engine.process(EVENT).column_names == with_totals
    # The threshold has fired and ended; who writes batches to one file still wants its columns.
    assert engine.process(EVENT).column_names == with_totals
    assert engine.flush().column_names == with_totals
    assert engine.expire("a").column_names == with_totals


def test_a_table_of_queries_brings_columns_too():
    engine = eq.Engine(STREAM)
    engine.register_table(pa.table({"id": ["t"], "total": [1]}), kind="threshold")
    assert "total" in engine.process(EVENT).column_names


def test_a_snapshot_brings_the_columns_of_its_queries():
    engine = eq.Engine(STREAM)
    engine.register(eq.Threshold("t", {}, total=100))
    again = eq.Engine(STREAM, snapshot=engine.snapshot())
    assert again.process(EVENT).column_names == engine.process(EVENT).column_names


def test_all_columns_on_request():
    engine = eq.Engine(STREAM, all_columns=True)
    assert set(columns_of(KINDS)) <= set(engine.process(EVENT).column_names)
    engine.restore(engine.snapshot())
    assert set(columns_of(KINDS)) <= set(engine.process(EVENT).column_names)


def test_a_registry_s_queries_bring_their_columns(tmp_path):
    url = f"sqlite:///{tmp_path}/q.db"
    eq.Engine(STREAM, registry=url, create=True).register(eq.Threshold("t", {}, total=1))
    with eq.open(url) as engine:
        assert "total" in engine.process(EVENT).column_names
    with eq.open(url, all_columns=True) as engine:
        assert set(columns_of(KINDS)) <= set(engine.process(EVENT).column_names)


class TestReadable:
    def notices(self):
        engine = eq.Engine(STREAM, labels=True)
        engine.register([eq.Range("a", {}, owner="ann"), eq.Border("b", {})])
        return engine.process(EVENT)

    def test_goes_through_json(self):
        notices = self.notices()
        rows = json.loads(eq.readable(notices).to_pandas().to_json(orient="records"))
        ids = [value.hex() for value in notices["notice_id"].to_pylist()]
        assert [row["notice_id"] for row in rows] == ids
        assert json.dumps(eq.readable(notices).to_pylist())

    def test_has_the_same_rows_and_columns(self):
        notices = self.notices()
        found = eq.readable(notices)
        assert found.column_names == notices.column_names
        assert found.drop_columns("notice_id").to_pylist() == (
            notices.drop_columns("notice_id").to_pylist()
        )
        assert not any(pa.types.is_dictionary(field.type) for field in found.schema)

    def test_of_slices_and_of_nothing(self):
        notices = self.notices()
        joined = pa.concat_tables([notices.slice(1), notices.slice(0, 1)])
        expected = [value.hex() for value in joined["notice_id"].to_pylist()]
        assert eq.readable(joined)["notice_id"].to_pylist() == expected
        assert eq.readable(notices.slice(0, 0)).num_rows == 0

    @pytest.mark.parametrize("again", [1, 2])
    def test_twice_is_as_once(self, again):
        found = eq.readable(self.notices())
        for _ in range(again):
            found = eq.readable(found)
        assert found.equals(eq.readable(self.notices()))
